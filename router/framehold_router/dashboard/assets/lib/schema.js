/**
 * Forms made of JSON schemas: the fields of a schema, what they begin with, and the values that were typed.
 *
 * The law: what a person left out is not sent. A part of a schema that has no field of its own is typed as JSON. What is
 * typed is kept as text until the form is read: `raw` is an object of texts by name, lists of numbers for multiple choices.
 */

/** How deep references are followed. */
const DEPTH = 8;
const FORMATS = { email: "email", uri: "uri", date: "date", "date-time": "date-time" };
const EMAIL = /^[^@\s]+@[^@\s]+$/;
const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;
/** The texts of a JSON document, and what else stands in it between its marks. */
const [TEXTS, WORDS] = [/"(\\.|[^"\\])*"/g, /[^\s,:[\]{}]+/g];
const INEXACT = `This page would round a whole number beyond ±${Number.MAX_SAFE_INTEGER}. Type a nearer one, or use framehold call.`;
/** From so many characters on a text has more than one line. */
const LONG = 120;

/** The fields of an object's schema: `{name, label, about, kind, required, nullable, options, schema}`. */
export function fieldsOf(schema) {
  const required = Array.isArray(schema?.required) ? schema.required : [];
  return Object.entries(schema?.properties ?? {}).map(([name, part]) => fieldOf(name, part, required.includes(name), schema));
}

/** One field; `whole` is the schema that references point into. */
export function fieldOf(name, part, required, whole = {}) {
  const { schema, nullable } = plain(part, whole);
  const label = text(part?.title) || text(schema.title) || name;
  const about = text(part?.description) || text(schema.description);
  return { name, label, about, required, nullable, schema, ...kindOf(schema, whole) };
}

const text = (value) => (typeof value === "string" ? value : "");

/** A schema without references, and without the `null` that it may be beside something else. */
function plain(part, whole, depth = 0) {
  const schema = part !== null && typeof part === "object" ? part : {};
  if (typeof schema.$ref === "string" && depth < DEPTH) {
    const found = schema.$ref.startsWith("#/") && schema.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], whole);
    const { $ref, ...beside } = schema;
    return plain({ ...(found || {}), ...beside }, whole, depth + 1);
  }
  if (Array.isArray(schema.type)) {
    const others = schema.type.filter((one) => one !== "null");
    if (others.length === 1) return { schema: { ...schema, type: others[0] }, nullable: schema.type.length > 1 };
  }
  const ways = Array.isArray(schema.anyOf) ? schema.anyOf : [];
  const others = ways.filter((one) => one?.type !== "null");
  if (ways.length > others.length && others.length === 1 && depth < DEPTH) {
    const { anyOf, ...beside } = schema;
    return { ...plain({ ...others[0], ...beside }, whole, depth + 1), nullable: true };
  }
  return { schema, nullable: false };
}

function kindOf(schema, whole) {
  const options = optionsOf(schema);
  if (options) return { kind: "choice", options };
  if (schema.type === "array") {
    const several = optionsOf(plain(schema.items, whole).schema);
    return several ? { kind: "choices", options: several } : { kind: "json" };
  }
  if (schema.type === "string") return { kind: FORMATS[schema.format] ?? (schema.maxLength > LONG ? "long" : "text") };
  return { kind: ["boolean", "integer", "number"].includes(schema.type) ? schema.type : "json" };
}

/** The values of a choice with their titles, null if it is none. */
function optionsOf(schema) {
  if ("const" in schema) return [{ value: schema.const, title: text(schema.title) || String(schema.const) }];
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) && schema.enumNames.length === schema.enum.length ? schema.enumNames : schema.enum;
    return schema.enum.map((value, n) => ({ value, title: String(names[n]) }));
  }
  const titled = schema.oneOf ?? schema.anyOf;
  if (!Array.isArray(titled) || titled.length === 0 || !titled.every((one) => one && "const" in one)) return null;
  return titled.map((one) => ({ value: one.const, title: text(one.title) || String(one.const) }));
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** What the fields begin with: their defaults. */
export const begun = (fields) => Object.fromEntries(fields.map((field) => [field.name, first(field)]));

function first({ kind, schema: { default: value }, options }) {
  if (kind === "choices") return Array.isArray(value) ? value.map((one) => options.findIndex((option) => same(option.value, one))).filter((n) => n >= 0) : [];
  if (value === undefined || value === null) return "";
  if (kind === "choice") return String(Math.max(-1, options.findIndex((option) => same(option.value, value)))).replace("-1", "");
  if (kind === "json") return JSON.stringify(value, null, 2);
  if (kind === "date-time") return local(value);
  return String(value);
}

/** A time as a field for a local date and time has it. */
function local(value) {
  const at = new Date(value);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

class Wrong extends Error {}

/** What was typed, as values; `wrong` has a sentence for each field that doesn't fit. */
export function filled(fields, raw) {
  const [values, wrong] = [{}, {}];
  for (const field of fields) {
    try {
      const value = valueOf(field, raw[field.name]);
      if (value !== undefined) values[field.name] = value;
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      wrong[field.name] = error.message;
    }
  }
  return { values, wrong };
}

function valueOf(field, typed) {
  const { kind, required, nullable, schema } = field;
  if (kind === "choices") return several(field, typed);
  const given = kind === "text" || kind === "long" ? typed : typed.trim();
  if (given === "") {
    if (!required) return undefined;
    if (nullable) return null;
    throw new Wrong(["choice", "boolean"].includes(kind) ? "Choose one: it is required." : "It is required.");
  }
  if (kind === "choice") return field.options[Number(given)].value;
  if (kind === "boolean") return given === "true";
  if (kind === "integer" || kind === "number") return numeric(kind, given, schema);
  if (kind === "json") return parsed(given, schema);
  return worded(kind, given, schema);
}

function several({ options, required, nullable, schema }, chosen) {
  if (chosen.length === 0 && !required && schema.default === undefined) return undefined;
  if (chosen.length === 0 && nullable) return null;
  const { minItems: least = 0, maxItems: most = Infinity } = schema;
  if (chosen.length < least || chosen.length > most) throw new Wrong(`Choose ${between(schema.minItems, schema.maxItems)}.`);
  return [...chosen].sort((one, other) => one - other).map((n) => options[n].value);
}

function numeric(kind, given, schema) {
  const value = Number(given);
  if (!NUMBER.test(given) || !Number.isFinite(value)) throw new Wrong("Type a number.");
  if (kind === "integer" && !Number.isInteger(value)) throw new Wrong("Type a whole number.");
  if (kind === "integer" && !Number.isSafeInteger(value)) throw new Wrong(INEXACT);
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = schema;
  if (value < minimum || value > maximum || value <= exclusiveMinimum || value >= exclusiveMaximum) throw new Wrong(`Type a number: ${bounds(schema)}.`);
  return value;
}

function parsed(given, { type }) {
  let value;
  try {
    value = JSON.parse(given);
  } catch {
    throw new Wrong(`Type JSON${type === "object" ? ', as {"key": "value"}' : type === "array" ? ', as ["one", "two"]' : "; a text stands in double quotes"}.`);
  }
  if (given.replace(TEXTS, "").match(WORDS)?.some((word) => /^-?\d+$/.test(word) && !Number.isSafeInteger(Number(word)))) throw new Wrong(INEXACT);
  const found = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  if (["object", "array"].includes(type) && found !== type) throw new Wrong(type === "object" ? 'Type a JSON object, as {"key": "value"}.' : 'Type a JSON list, as ["one", "two"].');
  return value;
}

function worded(kind, given, { minLength: least = 0, maxLength: most = Infinity, minLength, maxLength, pattern }) {
  const length = [...given].length;
  if (length < least || length > most) throw new Wrong(`Type ${between(minLength, maxLength)} characters.`);
  if (kind === "email" && !EMAIL.test(given)) throw new Wrong("Type an e-mail address.");
  if (kind === "uri" && !URL.canParse(given)) throw new Wrong("Type a whole address, as https://example.com.");
  if (typeof pattern === "string" && fits(pattern, given) === false) throw new Wrong(`Type something that matches ${pattern}`);
  if (kind !== "date-time") return given;
  const at = new Date(given);
  if (Number.isNaN(at.getTime())) throw new Wrong("Type a date and a time.");
  return at.toISOString().replace(".000Z", "Z");
}

/** Whether a text matches a pattern; null where this browser can't read the pattern: then the server decides. */
function fits(pattern, given) {
  try {
    return new RegExp(pattern, "u").test(given);
  } catch {
    return null;
  }
}

function between(least, most) {
  if (least !== undefined && most !== undefined) return least === most ? `${least}` : `${least} to ${most}`;
  return least !== undefined ? `${least} or more` : `at most ${most}`;
}

/** The bounds of a number, in words; empty without any. */
export function bounds({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }) {
  const low = exclusiveMinimum !== undefined ? `above ${exclusiveMinimum}` : minimum !== undefined ? between(minimum) : "";
  const high = exclusiveMaximum !== undefined ? `below ${exclusiveMaximum}` : maximum !== undefined ? between(undefined, maximum) : "";
  if (minimum !== undefined && maximum !== undefined && exclusiveMinimum === undefined && exclusiveMaximum === undefined) return between(minimum, maximum);
  return [low, high].filter(Boolean).join(", ");
}

/** The names of an object's parts, in words. */
const inside = ({ properties }) => (properties && Object.keys(properties).length ? ` with ${Object.keys(properties).join(", ")}` : "");

/** What fits a field, in words; empty where its kind says it all. */
export function hint({ kind, schema }) {
  const example = Array.isArray(schema.examples) && schema.examples.length ? `for example ${typeof schema.examples[0] === "string" ? schema.examples[0] : JSON.stringify(schema.examples[0])}` : "";
  const { minLength, maxLength, minItems, maxItems } = schema;
  const limits = {
    integer: ["a whole number", bounds(schema)].filter(Boolean).join(", "),
    number: ["a number", bounds(schema)].filter(Boolean).join(", "),
    choices: minItems !== undefined || maxItems !== undefined ? `choose ${between(minItems, maxItems)}` : "any number of them",
    email: "an e-mail address",
    uri: "a whole address, as https://example.com",
    "date-time": "in the time zone of this browser",
    json: `as JSON${schema.type === "array" ? ": a list" : schema.type === "object" ? `: an object${inside(schema)}` : ""}`,
    text: minLength > 1 || maxLength !== undefined ? `${between(minLength || undefined, maxLength)} characters` : "",
    long: `${between(minLength || undefined, maxLength)} characters`,
  }[kind];
  return [limits, example].filter(Boolean).join("; ");
}

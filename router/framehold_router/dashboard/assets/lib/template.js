/** URI templates of RFC 6570: their variables, and the URI that values make of them. */

const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
/** By operator: what stands before the values and between them, whether each has its name, and what may stay as it is. */
const OPERATORS = {
  "": ["", ",", false],
  "+": ["", ",", false, true],
  "#": ["#", ",", false, true],
  ".": [".", ".", false],
  "/": ["/", "/", false],
  ";": [";", ";", true],
  "?": ["?", "&", true],
  "&": ["&", "&", true],
};
const NAME = /^([^:*]+)(?::(\d+)|\*)?$/;
const OPTIONAL = ["?", "&", ";", "#"];

const named = (list) => list.split(",").map((part) => NAME.exec(part.trim())).filter(Boolean);

/** The variables of a template, each once: `{name, required}`. */
export function variables(template) {
  const found = new Map();
  for (const [, operator, list] of template.matchAll(EXPRESSION)) {
    for (const [, name] of named(list)) found.set(name, { name, required: !OPTIONAL.includes(operator) });
  }
  return [...found.values()];
}

/** A template with these texts in place of its variables; those without a text are left out. */
export function expanded(template, values) {
  return template.replace(EXPRESSION, (_, operator, list) => {
    const [first, between, withName, reserved] = OPERATORS[operator];
    const parts = named(list).filter(([, name]) => values[name] !== undefined && values[name] !== "").map(([, name, length]) => {
      const text = length ? [...values[name]].slice(0, Number(length)).join("") : values[name];
      const value = reserved ? encodeURI(text) : encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
      return withName ? `${name}=${value}` : value;
    });
    return parts.length ? first + parts.join(between) : "";
  });
}

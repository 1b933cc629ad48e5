/**
 * A form made of a JSON schema: a field for each of its properties.
 *
 * The law: what doesn't fit is shown at its field, and the first such field gets the focus. Names, titles and descriptions
 * are others' texts, and stand apart.
 */
import { html, useRef, useState } from "../lib/html.js";
import { begun, filled, hint } from "../lib/schema.js";

/** A form over `fields`: `raw` is what was typed; `read()` gives the values, or null where something doesn't fit. */
export function useForm(fields) {
  const own = useRef(null);
  const [raw, setRaw] = useState(() => begun(fields));
  const [wrong, setWrong] = useState({});
  const read = () => {
    const found = filled(fields, raw);
    setWrong(found.wrong);
    const first = fields.findIndex(({ name }) => name in found.wrong);
    if (first < 0) return found.values;
    own.current.querySelectorAll(".asked")[first].querySelector("input, select, textarea").focus();
    return null;
  };
  return { own, fields, raw, wrong, type: (name, value) => setRaw((last) => ({ ...last, [name]: value })), read };
}

/** The fields of a form; `id` begins the ids of its elements. */
export const Fields = ({ form, id }) => html`<div class="form" ref=${form.own}>
  ${form.fields.map((field, n) => html`<${Field} key=${field.name} id=${`${id}-${n}`} field=${field} value=${form.raw[field.name]} wrong=${form.wrong[field.name]} onType=${(value) => form.type(field.name, value)} />`)}
</div>`;

const GROUPS = ["boolean", "choices"];

function Field({ id, field, value, wrong, onType }) {
  const { label, about, required, kind } = field;
  const limits = hint(field);
  const notes = [about && `${id}-about`, limits && `${id}-hint`, wrong && `${id}-wrong`].filter(Boolean).join(" ");
  const own = { id, "aria-describedby": notes || undefined, "aria-invalid": wrong ? "true" : undefined };
  const name = html`<bdi>${label}</bdi>${required && html` <span class="must">required</span>`}`;
  const texts = html`
    ${about && html`<p class="note" id=${`${id}-about`} dir="auto">${about}</p>`}
    ${limits && html`<p class="note" id=${`${id}-hint`} dir="auto">${limits}</p>`}
    ${wrong && html`<p class="wrong" id=${`${id}-wrong`}>${wrong}</p>`}`;
  if (GROUPS.includes(kind)) {
    const Group = kind === "boolean" ? YesNo : Several;
    return html`<fieldset class="asked" aria-describedby=${notes || undefined}><legend>${name}</legend><${Group} id=${id} field=${field} value=${value} wrong=${wrong} onType=${onType} />${texts}</fieldset>`;
  }
  return html`<div class="asked"><label for=${id}>${name}</label><${Control} own=${own} field=${field} value=${value} onType=${onType} />${texts}</div>`;
}

const TYPES = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };
const KEYBOARDS = { integer: "numeric", number: "decimal" };

function Control({ own, field: { kind, options, required }, value, onType }) {
  const type = (event) => onType(event.currentTarget.value);
  const must = { "aria-required": required ? "true" : undefined };
  if (kind === "choice") {
    return html`<select ...${own} ...${must} onChange=${type}>
      <option value="" selected=${value === ""}>${required ? "Choose one" : "Leave out"}</option>
      ${options.map(({ title }, n) => html`<option key=${n} value=${String(n)} selected=${value === String(n)}>${title}</option>`)}
    </select>`;
  }
  if (kind === "json" || kind === "long") {
    return html`<textarea ...${own} ...${must} class=${kind === "json" ? "mono" : "plain"} rows="4" spellcheck=${false} autocomplete="off" value=${value} onInput=${type} />`;
  }
  return html`<input ...${own} ...${must} type=${TYPES[kind] ?? "text"} inputmode=${KEYBOARDS[kind]} step=${kind === "date-time" ? "1" : undefined}
    autocomplete="off" value=${value} onInput=${type} />`;
}

/** Yes, no, and where it may be: neither. */
function YesNo({ id, field: { required }, value, wrong, onType }) {
  const ways = [["true", "Yes"], ["false", "No"], ...(required ? [] : [["", "Leave out"]])];
  return html`<div class="ways">${ways.map(([way, label]) => html`<label key=${way}>
    <input type="radio" name=${id} value=${way} checked=${value === way} aria-invalid=${wrong ? "true" : undefined} onChange=${() => onType(way)} />${label}
  </label>`)}</div>`;
}

function Several({ field: { options }, value, wrong, onType }) {
  const turn = (n) => onType(value.includes(n) ? value.filter((one) => one !== n) : [...value, n]);
  return html`<div class="ways">${options.map(({ title }, n) => html`<label key=${n}>
    <input type="checkbox" checked=${value.includes(n)} aria-invalid=${wrong ? "true" : undefined} onChange=${() => turn(n)} /><bdi>${title}</bdi>
  </label>`)}</div>`;
}

/** What narrows a list: toggle buttons that say whether they are on, and fields that find while one types. */
import { setQuery } from "../lib/address.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { useNames } from "../lib/live.js";
import { BEGIN } from "../lib/paging.js";
import { number } from "../lib/words.js";
import { Name } from "./name.js";

const PAUSE = 80;
const PARTS = "A whole name finds it alone; * stands for any text";

/** Buttons of which each is on or off: `{label, on, title, turn}`, with a `count` where one is known. */
export const Toggles = ({ label, choices }) => html`<div class="toggles" role="group" aria-label=${label}>
  ${choices.map(({ label: name, on, title, turn, count }) => html`<button type="button" class="toggle" aria-pressed=${on ? "true" : "false"} title=${title} onClick=${turn}>${name}${count !== undefined && html` <span class="count">${number(count)}</span>`}</button>`)}
</div>`;

/** How many values of a facet have a button. */
const SHOWN = 8;

/**
 * The commonest values of a filter, each with the number of calls that choosing it would list. `counts` is by value, the
 * most first; the chosen value has a button also where it has no calls.
 */
export function Facet({ label, name, counts, query }) {
  const chosen = query[name];
  const values = Object.entries(counts).slice(0, SHOWN);
  if (chosen && !chosen.includes("*") && !values.some(([value]) => value === chosen)) values.push([chosen, counts[chosen] ?? 0]);
  if (values.length < 2 && !chosen) return null;
  const choices = values.map(([value, count]) => ({
    label: html`<${Name} text=${value} />`,
    count,
    on: value === chosen,
    turn: () => setQuery({ ...BEGIN, [name]: value === chosen ? undefined : value }),
  }));
  return html`<${Toggles} label=${label} choices=${choices} />`;
}

/** A name that is known stands for itself; what else one types is found anywhere in a name. */
const wildcard = (text, known) => (text === "" || text.includes("*") || known.includes(text) ? text : `*${text}*`);
const typedOf = (pattern) => /^\*([^*]+)\*$/.exec(pattern ?? "")?.[1] ?? pattern;

/**
 * A field whose text is given to `onFind` when typing has paused. `value` is what is looked for; another value from
 * elsewhere (Back, a link) replaces what stands in the field. `options` are offered, and anything else may be typed.
 */
export function Find({ label, name, value = "", options = [], hint, longest = 200, onFind }) {
  const [text, setText] = useState(value);
  const given = useRef(value);
  const timer = useRef(null);
  const own = useRef(null);
  useEffect(() => {
    if (value === given.current) return;
    clearTimeout(timer.current);
    given.current = value;
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const next = event.currentTarget.value;
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      given.current = next.trim();
      onFind(next.trim());
    }, PAUSE);
  };
  return html`<label class="field" title=${hint}>${label}
    <input ref=${own} type="search" name=${name} value=${text} maxlength=${longest} list=${options.length ? `${name}-known` : undefined}
      autocomplete="off" autocapitalize="off" spellcheck=${false} onInput=${typed} />
    ${options.length > 0 && html`<datalist id=${`${name}-known`}>${options.map((option) => html`<option value=${option} />`)}</datalist>`}
  </label>`;
}

/** The fields that find calls by id, tool and node. The tools that nodes name, and those of `items`, are offered. */
export function CallFields({ query, items }) {
  const names = useNames();
  const find = (name, known) => (text) => setQuery({ ...BEGIN, [name]: wildcard(text, known) }, { replace: true });
  const begins = (text) => setQuery({ ...BEGIN, call: text }, { replace: true });
  const tools = useMemo(() => [...new Set([...names.tools, ...items.map(({ tool }) => tool)])].sort(), [names, items]);
  return html`<div class="fields">
    <${Find} label="Call, its first letters" name="call" value=${query.call} longest=${64} onFind=${begins} />
    <${Find} label="Tool, a part of its name" name="tool" value=${typedOf(query.tool)} options=${tools} hint=${PARTS} onFind=${find("tool", tools)} />
    <${Find} label="Node, a part of its name" name="node" value=${typedOf(query.node)} longest=${61} options=${names.nodes} hint=${PARTS} onFind=${find("node", names.nodes)} />
  </div>`;
}

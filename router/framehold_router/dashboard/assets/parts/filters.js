/** What narrows a list: toggle buttons that say whether they are on, and fields that find while one types. */
import { setQuery } from "../lib/address.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { useLive } from "../lib/live.js";
import { BEGIN } from "../lib/paging.js";

const PAUSE = 80;

/** Buttons of which each is on or off: `{label, on, title, turn}`. */
export const Toggles = ({ label, choices }) => html`<div class="toggles" role="group" aria-label=${label}>
  ${choices.map(({ label: name, on, title, turn }) => html`<button type="button" class="toggle" aria-pressed=${on ? "true" : "false"} title=${title} onClick=${turn}>${name}</button>`)}
</div>`;

/**
 * A field whose text is told to `onFind` when typing has paused. `value` is what is looked for; another value from
 * elsewhere (Back, a link) replaces what stands in the field. `options` are offered, and anything else may be typed.
 */
export function Find({ label, name, value = "", options = [], hint, longest = 200, onFind }) {
  const [text, setText] = useState(value);
  const told = useRef(value);
  const timer = useRef(null);
  const own = useRef(null);
  useEffect(() => {
    if (value === told.current) return;
    clearTimeout(timer.current);
    told.current = value;
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const next = event.currentTarget.value;
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      told.current = next.trim();
      onFind(next.trim());
    }, PAUSE);
  };
  return html`<label class="field" title=${hint}>${label}
    <input ref=${own} type="search" name=${name} value=${text} maxlength=${longest} list=${options.length ? `${name}-known` : undefined}
      autocomplete="off" autocapitalize="off" spellcheck="false" onInput=${typed} />
    ${options.length > 0 && html`<datalist id=${`${name}-known`}>${options.map((option) => html`<option value=${option} />`)}</datalist>`}
  </label>`;
}

/** The fields that find calls by id, tool and node. The tools of `items`, the calls that are shown, are offered. */
export function CallFields({ query, items }) {
  const { nodes } = useLive();
  const find = (name) => (text) => setQuery({ ...BEGIN, [name]: text }, { replace: true });
  const tools = useMemo(() => [...new Set(items.map(({ tool }) => tool))].sort(), [items]);
  return html`<div class="fields">
    <${Find} label="Call, its first letters" name="call" value=${query.call} longest=${64} onFind=${find("call")} />
    <${Find} label="Tool, its whole name" name="tool" value=${query.tool} options=${tools} onFind=${find("tool")} />
    <${Find} label="Node, its whole name" name="node" value=${query.node} longest=${63} options=${(nodes ?? []).map(({ node_id }) => node_id)} onFind=${find("node")} />
  </div>`;
}

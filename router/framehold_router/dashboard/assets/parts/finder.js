/**
 * Finds anything by its name: a page, a tool, a node, a call by the first letters of its id, a call by its token.
 *
 * The law: what is typed may be a token, which is a secret. It goes into the body of one request, and nowhere else: not
 * into the URL, the title or the storage.
 */
import { go } from "../lib/address.js";
import { lookup, read } from "../lib/api.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { wait } from "../lib/limit.js";
import { useNames } from "../lib/live.js";
import { prefix } from "../lib/words.js";
import { Dialog } from "./dialog.js";
import { Name } from "./name.js";

/** Milliseconds: without a key before calls are asked for, and until they are asked for again. */
const PAUSE = 120;
const AGAIN = 1_000;
/** How many of a kind are offered. */
const MOST = 6;
const CALL = /^[A-Za-z0-9-]{2,36}$/;
const TOKEN = /^[hsl]1\./;

/** The calls whose ids begin with `text`: those that nodes hold, then those that have ended. */
function useCalls(text) {
  const [found, setFound] = useState({ text: "", items: [] });
  useEffect(() => {
    if (!CALL.test(text)) return;
    const end = new AbortController();
    const ask = async () => {
      const lists = await Promise.all(["leases", "calls"].map((path) => read(path, { call: text, limit: MOST }, end.signal)));
      setFound({ text, items: [...new Map(lists.flatMap(({ items }) => items).map((item) => [item.call_id, item])).values()].slice(0, MOST) });
    };
    // A call that has just ended is in neither list until its node has written its end, up to half a second later.
    const follow = async () => {
      for (let pause = PAUSE; ; pause = AGAIN) {
        await wait(pause, end.signal);
        if (end.signal.aborted) return;
        if (!document.hidden) await ask().catch(() => {});
      }
    };
    follow();
    return () => end.abort();
  }, [text]);
  return found.text === text && CALL.test(text) ? found.items : [];
}

const named = (kind, names, text, to) =>
  names
    .filter((name) => name.toLowerCase().includes(text.toLowerCase()))
    .slice(0, MOST)
    .map((name) => ({ kind, key: `${kind} ${name}`, label: html`<${Name} text=${name} />`, to: to(name) }));

function useFound(text, pages) {
  const { nodes, tools } = useNames();
  const calls = useCalls(text);
  return useMemo(() => {
    if (TOKEN.test(text)) return [{ kind: "Token", key: "token", label: "Find the call of this token", token: text }];
    const byName = Object.fromEntries(pages.map(({ name, path }) => [name, path]));
    return [
      ...named("Page", Object.keys(byName), text, (name) => byName[name]),
      ...(text ? named("Tool", tools, text, (name) => ["tools", name]) : []),
      ...(text ? named("Node", nodes, text, (name) => ["nodes", name]) : []),
      ...calls.map(({ call_id: id, tool, state, outcome }) => ({ kind: "Call", key: id, label: html`<span class="mono">${prefix(id)}</span> <${Name} text=${tool} /> <span class="why">${state ?? outcome}</span>`, to: ["calls", id] })),
    ];
  }, [text, pages, nodes, tools, calls]);
}

/** Where a token leads: to its call. Throws what is to be shown where it leads to none. */
async function callOf(token) {
  const { call_id: id, kind } = await lookup(token);
  if (id) return ["calls", id];
  throw new Error(kind === "session" ? "That is the id of a session: it has no call of its own." : "That is not a token of a Framehold fleet. Look whether it was copied whole, without quotes.");
}

/** The dialog. `pages` are those of the navigation, as `{name, path}`. */
export function Finder({ pages, onClose }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const [error, setError] = useState("");
  const list = useRef(null);
  const found = useFound(text, pages);
  const at = Math.min(chosen, found.length - 1);
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);
  const open = async (item) => {
    if (item === undefined) return;
    try {
      const to = item.to ?? (await callOf(item.token));
      onClose();
      go(to);
    } catch (trouble) {
      setError(trouble.message);
    }
  };
  const typed = (event) => {
    setText(event.currentTarget.value.trim());
    setChosen(0);
    setError("");
  };
  const pressed = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by === undefined || found.length === 0) return;
    event.preventDefault();
    setChosen((at + by + found.length) % found.length);
  };
  const submitted = (event) => {
    event.preventDefault();
    open(found[at]);
  };
  return html`<${Dialog} title="Find" onClose=${onClose}>
    <form class="finder" autocomplete="off" onSubmit=${submitted}>
      <input type="text" role="combobox" aria-label="A call, a token, a tool, a node or a page" aria-expanded="true" aria-controls="found" aria-activedescendant=${at >= 0 ? `found-${at}` : undefined}
        placeholder="A call's first letters, a token, a tool, a node, a page" autocomplete="off" autocapitalize="off" spellcheck=${false} onInput=${typed} onKeyDown=${pressed} />
      <ul id="found" role="listbox" aria-label="Found" ref=${list}>
        ${found.map((item, index) => html`<li key=${item.key} id=${`found-${index}`} role="option" aria-selected=${index === at ? "true" : "false"} onClick=${() => open(item)}><span class="kind">${item.kind}</span>${item.label}</li>`)}
      </ul>
      <p class="note" role="status">${error || (found.length ? "" : "Nothing is called so. Calls are found while a node holds them, and for an hour after their end.")}</p>
    </form>
  </${Dialog}>`;
}

/** The keys, in a dialog. `keys` is a list of `[key, what it does]`. */
export const Keys = ({ keys, onClose }) => html`<${Dialog} title="Keys" onClose=${onClose}>
  <dl class="keys">${keys.map(([key, what]) => html`<div><dt>${key.split(" ").map((one, n) => html`${n > 0 && " then "}<kbd>${one}</kbd>`)}</dt><dd>${what}</dd></div>`)}</dl>
  <div class="buttons"><button type="button" onClick=${onClose}>Close</button></div>
</${Dialog}>`;

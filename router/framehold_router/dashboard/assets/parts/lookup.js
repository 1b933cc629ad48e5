/**
 * Where does this token go?
 *
 * The law: a token is a secret. It is in the field and in the body of one request, and nowhere else: not in the URL, the
 * title or the storage, and the field has no name and no memory, so that no browser keeps it either.
 */
import { Link } from "../lib/address.js";
import { lookup } from "../lib/api.js";
import { html, useRef, useState } from "../lib/html.js";
import { clock, plural, prefix } from "../lib/words.js";
import { Callout, Problem } from "./notice.js";
import { Name, NodeLink } from "./name.js";
import { State } from "./state.js";

const LONGEST = 8 * 1024 * 1024;

const KINDS = {
  hold: "A requestState of a call whose frame a node keeps",
  replay: "A requestState that carries its journal itself",
  session: "An MCP session id of a 2025-era client",
};

const REASONS = {
  ring: "the ring says so",
  lease: "a response has named it as the node that holds the call",
  next: "it is not the first choice: that one can't be sent to now, or was tried in vain",
  session: "it has this session",
  any: "any node can answer it",
};

/** The form; `onFound` gets what the router says of a token, and null when there is nothing more to show. */
export function Lookup({ found, onFound }) {
  const field = useRef(null);
  const [state, setState] = useState({ busy: false, error: null, wrong: null, at: null });
  const ask = async (event) => {
    event.preventDefault();
    const token = field.current.value.trim();
    onFound(null);
    const wrong = unfit(token);
    setState({ busy: !wrong, error: null, wrong, at: null });
    if (wrong) return;
    try {
      const answer = await lookup(token);
      setState({ busy: false, error: null, wrong: null, at: Date.now() / 1000 });
      onFound(answer);
    } catch (error) {
      setState({ busy: false, error, wrong: null, at: null });
    }
  };
  const clear = () => {
    field.current.value = "";
    setState({ busy: false, error: null, wrong: null, at: null });
    onFound(null);
    field.current.focus();
  };
  return html`<div class="lookup">
    <form method="post" autocomplete="off" onSubmit=${ask}>
      <label for="looked-up">A <code>requestState</code> or an MCP session id</label>
      <textarea id="looked-up" ref=${field} rows="3" autocomplete="off" autocapitalize="off" spellcheck=${false} aria-describedby="looked-up-note" placeholder="h1. …   s1. …   l1. …" />
      <p id="looked-up-note" class="note">This router reads its routing prefix and no more. The token is not kept, not logged, and not put into the URL.</p>
      <div class="buttons"><button type="submit" class="act" disabled=${state.busy}>${state.busy ? "Asking …" : "Look it up"}</button>
        <button type="button" onClick=${clear}>Clear</button></div>
    </form>
    <div aria-live="polite">
      ${state.wrong && html`<${Callout} tone="warn"><p>${state.wrong}</p></${Callout}>`}
      ${state.error && html`<${Problem} error=${state.error} />`}
      ${found && html`<${Found} found=${found} at=${state.at} />`}
    </div>
  </div>`;
}

/** Why a text isn't worth asking for. */
function unfit(token) {
  if (token === "") return "There is no token: paste one first.";
  if (token.length > LONGEST) return "This is longer than any token: at most 8 MiB are taken. Nothing was asked.";
  return null;
}

function Found({ found, at }) {
  if (found.kind === "other") {
    return html`<${Callout} tone="warn" title="Not a token of a Framehold fleet">
      <p>Those begin with <code>h1.</code>, <code>s1.</code> or <code>l1.</code>, and this one can't be read as any of them. A request that carries it goes to any node, which refuses it. Look whether it was copied whole, without quotes.</p>
    </${Callout}>`;
  }
  return html`<dl class="facts">
    <${Fact} name="Token">${KINDS[found.kind] ?? found.kind}</${Fact}>
    ${found.call_id && html`<${Fact} name="Call"><${Link} class="mono" to=${["calls", found.call_id]} title=${found.call_id}>${prefix(found.call_id)}</${Link}></${Fact}>`}
    ${found.call_id && html`<${Fact} name="By the ring">${found.ring_node ? html`<${NodeLink} id=${found.ring_node} />` : "no node is on the ring"}</${Fact}>`}
    <${Fact} name=${`Goes now to`}><${Goes} found=${found} /></${Fact}>
    ${found.call_id && html`<${Fact} name="Held live"><${Held} live=${found.live} silent=${found.silent} /></${Fact}>`}
    <${Fact} name="As of">${clock(at)}</${Fact}>
  </dl>`;
}

const Fact = ({ name, children }) => html`<div><dt>${name}</dt><dd>${children}</dd></div>`;

function Goes({ found: { node_id, reason } }) {
  const why = REASONS[reason] ?? reason;
  return node_id ? html`<${NodeLink} id=${node_id} /> <span class="why">${why}</span>` : html`<span>${why}</span>`;
}

function Held({ live, silent }) {
  if (silent) return html`<span>not known: that node did not answer. Look it up again.</span>`;
  if (!live) return html`<span>no: that node holds no frame of it now. The call's page says what becomes of it.</span>`;
  return html`<${State} name=${live.state} /> <span class="why"><${Name} text=${live.tool} />, round ${live.round}, epoch ${live.epoch}${live.entries ? `, ${plural(live.entries, "entry", "entries")}` : ""}</span>`;
}

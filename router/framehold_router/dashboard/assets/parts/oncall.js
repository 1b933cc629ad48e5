/**
 * What an operator can do to one call, and what will come of it for this very call, shown before it is done.
 *
 * A call here is `{call_id, tool, node_id, state, reentrant, round, entries, strategy}`; `state` is empty where no node
 * says that it holds the frame.
 */
import { act, part } from "../lib/api.js";
import { html } from "../lib/html.js";
import { plural, prefix } from "../lib/words.js";
import { Confirm } from "./dialog.js";
import { Name } from "./name.js";

const HELD = ["parked", "running"];

/** Why it can't be evicted; empty where it can. */
export function keeps({ state, reentrant, strategy }) {
  if (!HELD.includes(state)) return "No node holds a frame of it.";
  if (strategy === "replay") return "Its client keeps it, in its token: there is nothing to drop.";
  return reentrant ? "" : "Its handler is not marked @framehold.reentrant: its journal can't rebuild its frame.";
}

/** Why it can't be cancelled; empty where it can. */
export function stays({ state, strategy }) {
  if (!HELD.includes(state)) return "No node holds a frame of it: there is no handler to stop.";
  return strategy === "replay" ? "Its client keeps it, in its token, and may send that again." : "";
}

/** The buttons of a call. `onAsk` gets which of the two was chosen. */
export function Buttons({ call, quiet, onAsk }) {
  const kind = quiet ? "quiet" : "";
  const named = (what) => (quiet ? `${what} call ${prefix(call.call_id)}` : undefined);
  return html`
    <${Choice} kind=${kind} label=${named("Evict")} why=${keeps(call)} title="Drop its frame; its next retry replays it" onClick=${() => onAsk("evict")}>Evict</${Choice}>
    <${Choice} kind=${`${kind} danger`} label=${named("Cancel")} why=${stays(call)} title="End it for good; its client is told" onClick=${() => onAsk("cancel")}>Cancel</${Choice}>`;
}

/** A button that stays reachable where it can do nothing, and says why. */
const Choice = ({ kind, label, why, title, onClick, children }) => html`<button type="button" class=${kind} aria-label=${label && why ? `${label}: ${why}` : label}
  aria-disabled=${why ? "true" : undefined} title=${why || title} onClick=${() => why || onClick()}>${children}</button>`;

/** Asks before `what` is done to `call`. `onDone` gets the sentence that came of it. */
export function OnCall({ what, call, onDone, onClose }) {
  const name = prefix(call.call_id);
  const send = () => act(`leases/${part(call.call_id)}/${what}`);
  if (what === "evict") {
    return html`<${Confirm} title=${`Evict call ${name}?`} label="Evict" act=${send} onDone=${onDone} onClose=${onClose}><${Evicted} call=${call} /></${Confirm}>`;
  }
  return html`<${Confirm} title=${`Cancel call ${name}?`} label="Cancel the call" act=${send} onDone=${onDone} onClose=${onClose}><${Cancelled} call=${call} /></${Confirm}>`;
}

const Evicted = ({ call: { tool, node_id, entries, state } }) => html`
  <p>The frame of <${Name} text=${tool} /> on <b>${node_id}</b> is dropped, and its memory is free.</p>
  <p>Its journal stays${entries ? ` (${plural(entries, "entry", "entries")})` : ""}. When its client next answers, the call is replayed from it: the handler runs anew up to
    where it was; what was answered is not asked again, and what <code>framehold.once</code> did is not done again.</p>
  ${state === "running" && html`<p>A round of it runs now: its node refuses until that is over.</p>`}`;

const Cancelled = ({ call: { tool, node_id, state, round } }) => html`
  <p>The handler of <${Name} text=${tool} /> on <b>${node_id}</b> is stopped where it stands: ${state === "running" ? `in round ${round + 1}` : `parked after round ${round}`}.</p>
  <p>Its client is told, now or at its next retry, that an operator cancelled the call. Whatever it did stays done, and nobody enters it again. There is no way back.</p>`;

/**
 * Kill the node that holds a call, between two rounds, to see the call go on elsewhere.
 *
 * The law: only in a playground whose nodes may be killed; and the dialog says first what becomes of the other calls there.
 */
import { act, part, useAccess } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { useLive } from "../lib/live.js";
import { plural } from "../lib/words.js";
import { Confirm } from "./dialog.js";

/** The button for `node`, and its dialog. `onKilled` is called when it was done; `gone` says that it was. */
export function Kill({ node, gone, onKilled }) {
  const { playground } = useAccess();
  const { nodes } = useLive();
  const [asking, setAsking] = useState(false);
  if (playground !== "kill" || !node) return null;
  const found = nodes?.find(({ node_id }) => node_id === node);
  const why = gone ? "You killed it." : nodes === null || (found && found.state !== "unreachable") ? "" : "It is not live now.";
  const done = () => {
    setAsking(false);
    onKilled(node);
  };
  return html`
    <button type="button" class="danger" aria-disabled=${why ? "true" : undefined} title=${why || "End its process at once, as kill -9 does"} onClick=${() => why || setAsking(true)}>Kill ${node}</button>
    ${asking && html`<${Ask} node=${node} parked=${found?.parked} onDone=${done} onClose=${() => setAsking(false)} />`}`;
}

const Ask = ({ node, parked, onDone, onClose }) => html`<${Confirm} title=${`Kill ${node}?`} label="Kill" act=${() => act(`nodes/${part(node)}/kill`)} onDone=${onDone} onClose=${onClose}>
  <p>Its process ends at once, as by <code>kill -9</code>. It hands off nothing, and tells nobody.${parked ? ` It holds ${plural(parked, "parked call")}.` : ""}</p>
  <ul class="points">
    <li>calls of re-entrant tools go on when their next answers come: at another node, or at its new process;</li>
    <li>other calls that it holds are lost, and their clients are told so.</li>
  </ul>
  <p>An answer that comes before its lease has run out waits until then. <code>framehold up</code> starts the process again.</p>
</${Confirm}>`;

/**
 * Have a node hand off what it holds.
 *
 * The law: whoever asks for it is told before what becomes of this very node's calls, and after it what the node said.
 */
import { act, part } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { plural } from "../lib/words.js";
import { Confirm } from "./dialog.js";
import { Callout } from "./notice.js";
import { sentence } from "./told.js";

const WHY_NOT = {
  draining: "It drains already.",
  unreachable: "It doesn't answer: there is nobody to ask.",
  "other keys": "It has other keys, so this router can't ask it.",
};

/** The button; `onDrain` is told of the node whose drain is wanted. Where it can't be, it stays in reach and says why. */
export function Drain({ node, onDrain }) {
  const why = WHY_NOT[node.state];
  return html`<button type="button" aria-disabled=${why ? "true" : undefined} title=${why ?? "Take no new calls, and hand off what others may carry on"}
    aria-label=${`Drain ${node.node_id}`} onClick=${() => why || onDrain(node)}>Drain</button>`;
}

/** What it takes to have one of `nodes` drained: `ask(node)` opens the dialog; `dialog` and `told` are to be drawn. */
export function useDrain(nodes) {
  const [wanted, setWanted] = useState(null);
  const [said, setSaid] = useState(null);
  const done = (text) => {
    setSaid({ text, node_id: wanted.node_id });
    setWanted(null);
  };
  const node = wanted && (nodes.find(({ node_id }) => node_id === wanted.node_id) ?? wanted);
  const others = wanted && nodes.filter(({ node_id, state }) => state === "live" && node_id !== wanted.node_id).length;
  return {
    ask: setWanted,
    dialog: node && html`<${Ask} node=${node} others=${others} onDone=${done} onClose=${() => setWanted(null)} />`,
    told: html`<div class="outcome" role="status">${said && html`<${Callout} tone="good" title=${said.node_id}><p>${sentence(said.text)}</p></${Callout}>`}</div>`,
  };
}

function Ask({ node: { node_id, parked, in_flight }, others, onDone, onClose }) {
  const run = () => act(`nodes/${part(node_id)}/drain`);
  return html`<${Confirm} title=${`Drain ${node_id}?`} label="Drain" act=${run} onDone=${onDone} onClose=${onClose}>
    <p>It takes no new calls from now on. It has ${plural(parked ?? 0, "parked call")} and ${plural(in_flight ?? 0, "request")} in flight:</p>
    <ul class="points">
      <li>parked calls of re-entrant tools are handed off: their clients' next retries go on at another node;</li>
      <li>rounds that run, and calls that only this process can carry on, have until its drain deadline. Calls that are still
        parked then are lost when the process ends.</li>
    </ul>
    <p>The process goes on until whoever runs it ends it. A drain can't be taken back: start the node again to have it take calls.</p>
    ${others === 0 && html`<${Callout} tone="bad" role="alert"><p>No other node is live. Nobody can carry its calls on, and new calls are refused until another node comes.</p></${Callout}>`}
  </${Confirm}>`;
}

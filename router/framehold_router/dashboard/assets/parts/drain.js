/**
 * Have a node hand off what it holds, or take that back.
 *
 * The law: before it the dialog says what becomes of this very node's calls, and after it the page shows the node's reply.
 */
import { act, part } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { plural } from "../lib/words.js";
import { Confirm } from "./dialog.js";
import { Callout } from "./notice.js";
import { sentence } from "./sentence.js";

const WHY_NOT = {
  unreachable: "It doesn't answer: there is nobody to ask.",
  "other keys": "It has other keys, so this router can't ask it.",
};

/** The button; `onDrain` gets the node whose drain is wanted. Where it can't be, it stays in reach and says why. */
export function Drain({ node, onDrain }) {
  if (node.state === "draining") {
    return html`<button type="button" title="Have it take calls again" aria-label=${`Undo the drain of ${node.node_id}`} onClick=${() => onDrain(node)}>Undo drain</button>`;
  }
  const why = WHY_NOT[node.state];
  return html`<button type="button" aria-disabled=${why ? "true" : undefined} title=${why ?? "Take no new calls, and hand off what others may carry on"}
    aria-label=${`Drain ${node.node_id}`} onClick=${() => why || onDrain(node)}>Drain</button>`;
}

/** What it takes to have one of `nodes` drained: `ask(node)` opens the dialog; `dialog` and `outcome` are to be drawn. */
export function useDrain(nodes) {
  const [wanted, setWanted] = useState(null);
  const [message, setMessage] = useState(null);
  const done = (text) => {
    setMessage({ text, node_id: wanted.node_id });
    setWanted(null);
  };
  const node = wanted && (nodes.find(({ node_id }) => node_id === wanted.node_id) ?? wanted);
  const others = wanted && nodes.filter(({ node_id, state }) => state === "live" && node_id !== wanted.node_id).length;
  const Form = wanted?.state === "draining" ? Undo : Ask;
  return {
    ask: setWanted,
    dialog: node && html`<${Form} node=${node} others=${others} onDone=${done} onClose=${() => setWanted(null)} />`,
    outcome: html`<div class="outcome" role="status">${message && html`<${Callout} tone="good" title=${message.node_id}><p>${sentence(message.text)}</p></${Callout}>`}</div>`,
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
    <p>The process goes on until whoever runs it ends it. Until then the drain can be taken back; what it has handed off stays with others.</p>
    ${others === 0 && html`<${Callout} tone="bad" role="alert"><p>No other node is live. Nobody can carry its calls on, and new calls are refused until another node comes.</p></${Callout}>`}
  </${Confirm}>`;
}

function Undo({ node: { node_id, handed_off }, onDone, onClose }) {
  const run = () => act(`nodes/${part(node_id)}/undrain`);
  return html`<${Confirm} title=${`Undo the drain of ${node_id}?`} label="Undo drain" act=${run} onDone=${onDone} onClose=${onClose}>
    <p>It takes new calls again. ${handed_off ? `The ${plural(handed_off, "call")} that it has handed off go on where their next retries arrive.` : "It has handed off nothing yet."}</p>
    <p>If its process was asked to end, the node refuses, and ends.</p>
  </${Confirm}>`;
}

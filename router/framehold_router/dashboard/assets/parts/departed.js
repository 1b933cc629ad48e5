/** Nodes that have gone: lost without a word, or left as they should; and where their calls are. */
import { Link } from "../lib/address.js";
import { html } from "../lib/html.js";
import { NONE, number, seconds } from "../lib/words.js";
import { NodeLink } from "./name.js";
import { State } from "./state.js";
import { Table } from "./table.js";
import { Ago, At } from "./time.js";

/** The ends of those that are gone now: that list comes apart from the one of nodes, and may be newer. */
export const endsOf = (departed, nodes) => departed.filter((one) => !nodes.some(({ node_id }) => node_id === one.node_id));

/** The nodes that are gone now, each once, with its newest end: a node may have gone twice. */
export function goneFrom(departed, nodes) {
  const newest = new Map();
  for (const one of endsOf(departed, nodes)) if (!newest.has(one.node_id)) newest.set(one.node_id, one);
  const all = [...newest.values()];
  return { lost: all.filter(({ how }) => how === "lost"), left: all.filter(({ how }) => how === "left") };
}

const COLUMNS = [
  { name: "Node", head: true, cell: ({ node_id, boot }) => html`<${NodeLink} id=${node_id} /> <span class="boot mono" title=${`boot ${boot}`}>${boot.slice(0, 8)}</span>` },
  { name: "How", cell: ({ how }) => html`<${State} name=${how} />` },
  { name: "When", cell: ({ detected }) => html`<span class="when"><${At} at=${detected} /><span class="why"><${Ago} at=${detected} /></span></span>` },
  { name: "Last heartbeat", cell: ({ last_heartbeat }) => (last_heartbeat === null ? "not seen" : html`<${At} at=${last_heartbeat} />`) },
  { name: "Found gone after", number: true, hint: "From its last heartbeat until this router found that its node lease was gone.", cell: ({ detected, last_heartbeat }) => (last_heartbeat === null ? NONE : seconds(Math.max(0, detected - last_heartbeat))) },
  { name: "Calls then", number: true, hint: "Parked calls, as its last heartbeat reported.", cell: ({ calls }) => number(calls) },
  { name: "Where they are", cell: (one) => html`<${Where} ...${one} />` },
];

function Where({ node_id, how }) {
  if (how === "left") return html`<span class="why">handed off: retries go on elsewhere</span>`;
  return html`<${Link} to=${["leases"]} query=${{ node: node_id, state: "orphaned" }}>waiting for clients</${Link}>, or <${Link} to=${["failovers"]}>carried on</${Link}>`;
}

export const Departed = ({ departed }) => html`<div class="departed">
  <${Table} label="Departed nodes" columns=${COLUMNS} rows=${departed} keyOf=${({ node_id, boot }) => `${node_id} ${boot}`} />
</div>`;

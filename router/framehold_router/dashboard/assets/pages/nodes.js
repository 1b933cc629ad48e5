/** All nodes: how each is, what it holds, and which ones have gone. */
import { Link, setQuery, useAddress } from "../lib/address.js";
import { html } from "../lib/html.js";
import { useLive, useNow } from "../lib/live.js";
import { useOrder } from "../lib/order.js";
import { labelOf, number, percent, plural, rate, span } from "../lib/words.js";
import { Meter } from "../parts/bar.js";
import { Departed, endsOf } from "../parts/departed.js";
import { Downloads } from "../parts/download.js";
import { Drain, useDrain } from "../parts/drain.js";
import { Lag } from "../parts/lag.js";
import { Memory } from "../parts/memory.js";
import { Name, NodeLink } from "../parts/name.js";
import { Callout, Empty, Loading } from "../parts/notice.js";
import { Card, Page } from "../parts/page.js";
import { SILENT, State, stateOf } from "../parts/state.js";
import { Table } from "../parts/table.js";

const NEWEST = 10;

export default function Nodes() {
  const { nodes, departed: all } = useLive();
  const departed = endsOf(all, nodes ?? []);
  const drain = useDrain(nodes ?? []);
  if (nodes === null) return html`<${Page} title="Nodes"><${Loading} what="the nodes" /></${Page}>`;
  return html`<${Page} title="Nodes" lead=${lead(nodes, departed)}>
    ${drain.outcome}
    <${Versions} nodes=${nodes} />
    <${Card} title="Nodes that answer or have a node lease" actions=${html`<${Downloads} path="nodes" />`}><${All} nodes=${nodes} departed=${all} onDrain=${drain.ask} /></${Card}>
    ${departed.length > 0 && html`<${Former} departed=${departed} />`}
    ${drain.dialog}
  </${Page}>`;
}

/** The newest of those that have gone; all of them where the URL says so. */
function Former({ departed }) {
  const { query } = useAddress();
  const all = query.departed === "all";
  const turn = () => setQuery({ departed: all ? undefined : "all" });
  const more = departed.length > NEWEST && html`<button type="button" aria-expanded=${all ? "true" : "false"} onClick=${turn}>${all ? `The newest ${NEWEST}` : `All ${number(departed.length)}`}</button>`;
  return html`<${Card} title="Departed" note="in the last hour, the newest first" actions=${more}><${Departed} departed=${all ? departed : departed.slice(0, NEWEST)} /></${Card}>`;
}

function lead(nodes, departed) {
  const states = new Map();
  for (const state of nodes.map(stateOf)) states.set(state, (states.get(state) ?? 0) + 1);
  const counts = [...states].map(([state, count]) => `${number(count)} ${labelOf(state)}`).join(", ") || "none";
  const lost = departed.filter(({ how }) => how === "lost").length;
  const left = departed.length - lost;
  const ends = [...(lost ? [`${number(lost)} ${lost === 1 ? "was" : "were"} lost`] : []), ...(left ? [`${number(left)} left`] : [])];
  const gone = ends.length ? ` In the last hour ${ends.join(" and ")}.` : "";
  return `${plural(nodes.length, "node")}: ${counts}.${gone}`;
}

/** A fleet of two releases works, and is meant to be on its way to one. */
function Versions({ nodes }) {
  const found = new Map();
  for (const { version } of nodes) if (version) found.set(version, (found.get(version) ?? 0) + 1);
  if (found.size < 2) return null;
  const versions = [...found].sort().map(([version, count], index) => html`${index > 0 && ", "}<${Name} text=${version} /> on ${plural(count, "node")}`);
  return html`<${Callout} tone="warn" title=${`${number(found.size)} versions in one fleet`}>
    <p>${versions}. That is so during a rolling upgrade; if none is under way, bring all nodes to one version.</p>
  </${Callout}>`;
}

const COLUMNS = [
  { name: "Node", head: true, sort: "node", value: ({ node_id }) => node_id, hint: "Its name, and its incarnation: one unbroken life of its node lease.", cell: ({ node_id, incarnation }) => html`<${NodeLink} id=${node_id} /><span class="below mono" title=${`incarnation ${incarnation}`}>${incarnation.slice(0, 8)}</span>` },
  { name: "State", sort: "state", value: ({ state }) => state, cell: (node) => html`<${State} name=${stateOf(node)} /><${HandedOff} node=${node} />` },
  { name: "Version", sort: "version", value: ({ version }) => version, cell: ({ version }) => (version ? html`<${Name} text=${version} />` : "–") },
  { name: "Since", number: true, sort: "uptime", value: ({ uptime }) => uptime, hint: "How long its process runs, and how often another one of its name ended in the last hour.", cell: ({ uptime, restarts }) => html`<span>${span(uptime)}</span>${restarts > 0 && html`<span class="below">${plural(restarts, "restart")}</span>`}` },
  { name: "Rounds/s", number: true, sort: "rounds", value: ({ rounds_per_second: value }) => value, hint: "Rounds that it answered per second in the last minute.", cell: ({ rounds_per_second: value }) => rate(value) },
  { name: "Busy", number: true, sort: "busy", value: ({ loop_busy: value }) => value, hint: "The part of the last minute in which its event loop used a processor.", cell: ({ loop_busy: value }) => html`<span class="of-limit">${percent(value, 0)}<${Meter} value=${value} tone=${value >= 0.8 ? "warn" : "accent"} /></span>` },
  { name: "Parked", number: true, sort: "parked", value: ({ parked }) => parked, hint: "Calls that wait for answers here.", cell: ({ node_id, parked }) => html`<${Link} to=${["leases"]} query=${{ node: node_id, state: "parked" }}>${number(parked)}</${Link}>` },
  { name: "In flight", number: true, sort: "in_flight", value: ({ in_flight }) => in_flight, hint: "Requests that it answers now.", cell: ({ in_flight }) => number(in_flight) },
  { name: "Leases", number: true, sort: "leases", value: ({ frames }) => frames, hint: "Calls that it holds with their frames in memory, of FRAMEHOLD_MAX_PARKED.", cell: ({ node_id, frames, max_parked: limit }) => html`<span class="of-limit"><${Link} to=${["leases"]} query=${{ node: node_id }}>${number(frames)}</${Link}>${limit && html`<${Meter} value=${frames} most=${limit} tone=${frames / limit >= 0.8 ? "warn" : "accent"} />`}</span>` },
  { name: "Memory", number: true, sort: "rss", value: ({ rss }) => rss, hint: "What its process has in memory, of its limit.", cell: (node) => html`<${Memory} rss=${node.rss} limit=${node.memory_limit} />` },
  { name: "Loop lag p99", number: true, sort: "lag", value: ({ loop_lag_p99 }) => loop_lag_p99, hint: "By how much its event loop was late in the last minute.", cell: ({ loop_lag_p99 }) => html`<${Lag} value=${loop_lag_p99} />` },
  { name: "Heartbeat", number: true, sort: "heartbeat", value: ({ heartbeat_age }) => heartbeat_age, hint: "How long ago it renewed its node lease.", cell: ({ heartbeat_age }) => html`<span class=${heartbeat_age >= SILENT ? "late bad" : undefined}>${span(heartbeat_age)}</span>` },
  { name: "Errors", number: true, sort: "errors", value: ({ errors }) => errors, hint: "Calls that ended by its own fault, and requests that the store didn't answer, since it began.", cell: ({ errors }) => html`<span class=${errors ? "late warn" : undefined}>${number(errors)}</span>` },
];

/** How far a drain is: what went, of that and what is still here. */
function HandedOff({ node: { state, handed_off, parked, in_flight } }) {
  if (state !== "draining" || handed_off === null) return null;
  const left = (parked ?? 0) + (in_flight ?? 0);
  return html`<span class="below">${number(handed_off)} handed off${left ? `, ${number(left)} left` : ": all"}</span>`;
}

/** How many processes of each node's name ended in the last hour. */
function ends(departed) {
  const found = new Map();
  for (const { node_id: id } of departed) found.set(id, (found.get(id) ?? 0) + 1);
  return found;
}

function All({ nodes, departed, onDrain }) {
  const now = useNow();
  const ended = ends(departed);
  const { inOrder, ...order } = useOrder(COLUMNS);
  const rows = inOrder(nodes.map((node) => ({ ...node, restarts: ended.get(node.node_id), uptime: node.started ? Math.max(0, now - node.started) : null })));
  const columns = [...COLUMNS, { name: "Action", cell: (node) => html`<${Drain} node=${node} onDrain=${onDrain} />` }];
  const empty = html`<${Empty} title="No node has a node lease">New calls are refused. Start a node: <code>framehold node TARGET</code></${Empty}>`;
  return html`<div class="nodes"><${Table} label="All nodes" columns=${columns} rows=${rows} keyOf=${({ node_id, boot }) => `${node_id} ${boot}`} ...${order} empty=${empty} /></div>`;
}

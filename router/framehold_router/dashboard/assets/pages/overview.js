/** The fleet at a glance: is anything wrong, how much is held, how fast is it answered, and what happened last. */
import { Link } from "../lib/address.js";
import { html } from "../lib/html.js";
import { useLive } from "../lib/live.js";
import { NONE, bytes, number, percent, plural, rate, seconds, span, toneOf } from "../lib/words.js";
import { Attention } from "../parts/attention.js";
import { Meter } from "../parts/bar.js";
import { goneFrom } from "../parts/departed.js";
import { Events } from "../parts/events.js";
import { FailedShare, FailedStat } from "../parts/failed.js";
import { History } from "../parts/history.js";
import { Lag } from "../parts/lag.js";
import { Name, NodeLink } from "../parts/name.js";
import { Empty, Loading } from "../parts/notice.js";
import { Card, Page } from "../parts/page.js";
import { Paused } from "../parts/pause.js";
import { Stat, Stats } from "../parts/stat.js";
import { SILENT, State, stateOf } from "../parts/state.js";
import { Table } from "../parts/table.js";

export default function Overview() {
  const { overview, nodes, departed, events } = useLive();
  if (overview === null || nodes === null) return html`<${Page} title="Overview"><${Loading} /></${Page}>`;
  const { lost } = goneFrom(departed, nodes);
  return html`<${Page} title="Overview" lead=${lead(overview)}>
    <${Attention} />
    <${Paused} paused=${overview.paused} />
    <${Numbers} overview=${overview} nodes=${nodes} lost=${lost} />
    <${Open} open=${overview.open} />
    ${overview.failing.length > 0 && html`<${Failing} failing=${overview.failing} />`}
    <${History} charts=${CHARTS} />
    <div class="columns">
      <${Card} title="Nodes" actions=${html`<${Link} to=${["nodes"]}>All nodes</${Link}>`}><${Short} nodes=${nodes} lost=${lost} /></${Card}>
      <${Card} title="Last events"><${Events} events=${events.slice(0, 12)} /></${Card}>
    </div>
  </${Page}>`;
}

function lead({ nodes, parked }) {
  const live = nodes.live ?? 0;
  return `${plural(live, "node is", "nodes are")} live and ${live === 1 ? "holds" : "hold"} ${plural(parked, "parked call")}.`;
}

function Numbers({ overview, nodes, lost }) {
  const memory = nodes.reduce((sum, { rss }) => sum + (rss ?? 0), 0);
  const others = Object.entries(overview.nodes).filter(([state]) => state !== "live");
  const gone = lost.length ? [`${number(lost.length)} lost`] : [];
  const silent = Math.max(0, ...nodes.map(({ heartbeat_age: age }) => age ?? 0));
  const old = silent >= SILENT ? [`as of ${span(silent)} ago`] : [];
  const note = [...others.map(([state, count]) => `${number(count)} ${state}`), ...gone, ...old].join(", ") || "all that have a lease";
  const tone = others.some(([state]) => toneOf(state) === "bad") || !overview.nodes.live ? "bad" : lost.length || old.length ? "warn" : "good";
  const { parked, in_flight, open: { orphaned }, stuck, affinity, failovers_last_hour, ended, failed } = overview;
  return html`<${Stats} label="What decides" size="large">
    <${FailedStat} failed=${failed} ended=${ended} />
    <${Stat} label="Parked calls" value=${number(parked)} note="wait for answers" to=${[["leases"], { state: "parked" }]} />
    <${Stat} label="Rounds per second" value=${rate(overview.rounds_per_second)} note="last minute" />
    <${Stat} label="Resume p99" value=${seconds(overview.resume_p99)} note="the slowest node's, last minute" />
  </${Stats}>
  <${Stats} label="The fleet in numbers" size="small">
    <${Stat} label="Nodes live" value=${number(overview.nodes.live ?? 0)} note=${note} tone=${tone} to=${[["nodes"]]} />
    <${Stat} label="In flight" value=${number(in_flight)} note="requests now" to=${[["leases"], { state: "running" }]} />
    <${Stat} label="Affinity" value=${percent(affinity)} note="retries sent right" title="The part of retries that this router sent to the node which held the call." />
    <${Store} overview=${overview} />
    <${Stat} label="Memory" value=${bytes(memory)} note="of all nodes" />
    <${Stat} label="Orphaned" value=${orphaned.at === null && !orphaned.count ? NONE : number(orphaned.count)} note="node gone" title=${orphaned.text} tone=${orphaned.count ? "warn" : undefined} to=${[["leases"], { state: "orphaned" }]} />
    <${Stat} label="Stuck" value=${number(stuck)} note="not entered again" tone=${stuck ? "bad" : undefined} to=${[["leases"], { state: "stuck" }]} />
    <${Stat} label="Failovers" value=${number(failovers_last_hour)} note="last hour" tone=${failovers_last_hour ? "warn" : undefined} to=${[["failovers"]]} />
  </${Stats}>`;
}

/** The last time of a write says nothing of a store that is full or silent. */
function Store({ overview: { store = "answers", store_seconds, store_used: used, store_limit: limit } }) {
  const full = limit ? used / limit : 0;
  const note = limit ? `for a write; ${percent(full, 0)} full` : "for a write";
  if (store !== "answers") return html`<${Stat} label="Store" value=${store} note="no node can write" tone="bad" />`;
  return html`<${Stat} label="Store" value=${seconds(store_seconds)} note=${note} tone=${full >= 0.8 ? "warn" : undefined} />`;
}

const OPEN = [
  { name: "Where", head: true, cell: ({ where }) => where },
  { name: "How many", cell: ({ text }) => text },
];

/** The account of open calls: each is in one figure, and each figure says how and since when it is known. */
function Open({ open: { held, asleep, handed_off, orphaned, total, lost_last_hour: lost } }) {
  const rows = [["held", held], ["asleep", asleep], ["handed off", handed_off], ["orphaned", orphaned]].map(([where, { text }]) => ({ where, text }));
  if (lost) rows.push({ where: "lost", text: `${number(lost)} in the last hour, with their process or with a cancelled round` });
  return html`<${Card} title="Open calls" note=${plural(total, "call")} actions=${html`<${Link} to=${["leases"]}>All leases</${Link}>`}>
    <${Table} label="Where open calls are" columns=${OPEN} rows=${rows} keyOf=${({ where }) => where} />
  </${Card}>`;
}

const FAILING = [
  { name: "Tool", head: true, cell: ({ tool }) => html`<${Link} to=${["calls"]} query=${{ failed: "true", tool }}><${Name} text=${tool} /></${Link}>` },
  { name: "Failed", number: true, cell: ({ failed }) => number(failed) },
  { name: "Ended", number: true, cell: ({ ended }) => number(ended) },
  { name: "Share", number: true, cell: FailedShare },
];

/** The tools whose calls failed lately. */
const Failing = ({ failing }) => html`<${Card} title="Tools that fail" note="Calls that ended in the last ten minutes." actions=${html`<${Link} to=${["calls"]} query=${{ failed: "true" }}>Failed calls</${Link}>`}>
  <${Table} label="Tools that fail" columns=${FAILING} rows=${failing} keyOf=${({ tool }) => tool} />
</${Card}>`;

const PARKED = [{ name: "parked", of: "parked", hue: 1, area: true }];
const ROUNDS = [{ name: "per second", of: "rounds", hue: 2, area: true }];
const RESUME = [{ name: "p50", of: "p50", hue: 1 }, { name: "p99", of: "p99", hue: 3 }];

const CHARTS = [
  { label: "Parked calls", series: PARKED, write: number, whole: true },
  { label: "Rounds", series: ROUNDS, write: rate },
  { label: "Resume times", series: RESUME, write: seconds, logarithmic: true },
];

const COLUMNS = [
  { name: "Node", head: true, cell: ({ node_id }) => html`<${NodeLink} id=${node_id} />` },
  { name: "State", cell: (node) => html`<${State} name=${stateOf(node)} />` },
  { name: "Parked", number: true, cell: ({ parked, most }) => html`${number(parked)}<${Meter} value=${parked} most=${most} />` },
  { name: "In flight", number: true, cell: ({ in_flight }) => number(in_flight) },
  { name: "Loop lag p99", number: true, cell: ({ loop_lag_p99 }) => html`<${Lag} value=${loop_lag_p99} />` },
];

/** The nodes in few columns, those that are lost among them. */
function Short({ nodes, lost }) {
  const most = Math.max(1, ...nodes.map(({ parked }) => parked ?? 0));
  const gone = lost.map(({ node_id, boot, calls }) => ({ node_id, boot, state: "lost", parked: calls }));
  const rows = [...nodes, ...gone].map((node) => ({ ...node, most }));
  const empty = html`<${Empty} title="No node has a node lease">New calls are refused. Start a node: <code>framehold node TARGET</code></${Empty}>`;
  return html`<${Table} label="Nodes" columns=${COLUMNS} rows=${rows} keyOf=${({ node_id, boot }) => `${node_id} ${boot}`} empty=${empty} />`;
}

/** How full the fleet is: of each limit, what is full first, which tokens expire when, and which users have most calls. */
import { Link } from "../lib/address.js";
import { useRead } from "../lib/api.js";
import { html } from "../lib/html.js";
import { bytes, number, percent, plural, span } from "../lib/words.js";
import { Meter } from "../parts/bar.js";
import { Name, NodeLink } from "../parts/name.js";
import { Callout, Empty, LastAnswer, Loading, Problem } from "../parts/notice.js";
import { Card, Page } from "../parts/page.js";
import { Silent } from "../parts/silent.js";
import { Table } from "../parts/table.js";

const EVERY = 5_000;
const HOUR = 3600;
/** The share of a limit from which the fleet is nearly full, as its alert has it. */
const LARGE = 0.8;
const NAMES = { frames: "Frames", processor: "Processor", memory: "Memory", descriptors: "Descriptors", store: "Memory of the store" };
const MEANS = {
  frames: "Calls in memory, of FRAMEHOLD_MAX_PARKED",
  processor: "Cores, of one for each event loop",
  memory: "Resident memory, of the limits on memory",
  descriptors: "Open files and sockets, of the limits RLIMIT_NOFILE",
  store: "Memory that the store uses, of its limit",
};

const amount = (name, value) => (name === "memory" || name === "store" ? bytes(value) : name === "processor" ? `${value.toFixed(2)} loops` : number(value));
const toneOf = (share) => (share > 1 ? "bad" : share >= LARGE ? "warn" : "good");
const Share = ({ value, tone = toneOf(value) }) => html`${percent(value)}<${Meter} value=${value} tone=${tone} />`;

const RESOURCES = [
  { name: "Of what", head: true, cell: ({ name }) => html`<span title=${MEANS[name]}>${NAMES[name] ?? name}</span>` },
  { name: "Used", number: true, cell: ({ name, used }) => amount(name, used) },
  { name: "Limit", number: true, cell: ({ name, limit }) => amount(name, limit) },
  { name: "Share", number: true, cell: ({ share }) => html`<${Share} value=${share} />` },
  { name: "Fullest", cell: ({ fullest, fullest_share: share }) => (fullest ? html`<${NodeLink} id=${fullest} /> ${percent(share)}` : "–") },
  { name: "Without it", number: true, hint: "The share if the fullest node were gone, and the others had taken over what it uses", cell: ({ without_fullest: share }) => (share === null ? "–" : html`<${Share} value=${share} />`) },
  { name: "Full in", number: true, hint: "If use goes on to grow as in the last hour: when the first node is at its limit", cell: ({ full_in: left }) => (left === null || left === undefined ? "–" : span(left)) },
];

export default function Capacity() {
  const { data, error, again } = useRead("capacity", {}, { every: EVERY });
  if (data === null) return html`<${Page} title="Capacity">${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} what="its capacity" />`}</${Page}>`;
  return html`<${Page} title="Capacity" lead="How much of each limit is used, and who waits.">
    <${LastAnswer} error=${error} again=${again} />
    <${Verdict} capacity=${data} />
    <${Card} label="Limits"><${Table} label="Limits" columns=${RESOURCES} rows=${data.resources} keyOf=${({ name }) => name} empty=${html`<${Empty} title="No live node says how full it is" />`} /></${Card}>
    <${Waiting} />
  </${Page}>`;
}

/** Whether the fleet can lose a node, and what is full first. */
function Verdict({ capacity: { resources, survives, fills_first: first } }) {
  if (first === null) return null;
  const { fullest, fullest_share: share } = resources.find(({ name }) => name === first);
  const what = html`<p>${NAMES[first]}${fullest ? html` of <${NodeLink} id=${fullest} />` : ""} fills first: ${percent(share)} are used.</p>`;
  if (survives === false) return html`<${Callout} tone="warn" title="The fleet can't lose its fullest node">${what}<p>The others lack room for what it uses. Add a node, or raise the limit.</p></${Callout}>`;
  if (survives === null) return html`<${Callout} tone="idle" title="There is no other node that could take over">${what}</${Callout}>`;
  return html`<${Callout} tone=${share >= LARGE ? "warn" : "good"} title="The fleet can lose its fullest node">${what}</${Callout}>`;
}

/** Which tokens expire when, and whose calls they are. */
function Waiting() {
  const { data, error, again } = useRead("waiting", {}, { every: EVERY });
  if (error && data === null) return html`<${Problem} error=${error} again=${again} />`;
  if (data === null) return html`<${Loading} what="who waits" />`;
  const { bounds, tools, holders, over_limit: refused, missing } = data;
  const spans = [...bounds.map((bound) => (bound < HOUR ? `${bound / 60} min` : `${bound / HOUR} h`)), "later"];
  const most = Math.max(1, ...tools.flatMap(({ expiring }) => expiring));
  const columns = [
    { name: "Tool", head: true, cell: ({ tool }) => html`<${Link} to=${["tools", tool]}><${Name} text=${tool} /></${Link}>` },
    ...spans.map((name, n) => ({ name, number: true, hint: n < bounds.length ? "At most so much time is left, and more than in the column before" : "More time is left", cell: ({ expiring }) => html`${number(expiring[n])}<${Meter} value=${expiring[n]} most=${most} tone=${n === 0 ? "warn" : "accent"} />` })),
  ];
  const users = [
    { name: "User", head: true, hint: "A salted hash of the user's name, the same on all nodes", cell: ({ who }) => html`<code>${who}</code>` },
    { name: "Calls", number: true, cell: ({ calls }) => html`${number(calls)}<${Meter} value=${calls} most=${holders[0].calls} />` },
  ];
  return html`
    <${LastAnswer} error=${error} again=${again} />
    ${missing.length > 0 && html`<${Silent} missing=${missing} />`}
    <${Card} title="When tokens expire" note="Parked calls, by the time that is left to answer them." actions=${html`<${Link} to=${["leases"]} query=${{ state: "parked", sort: "expires" }}>The next ones</${Link}>`}>
      <div class="tools"><${Table} label="When tokens expire" columns=${columns} rows=${tools} keyOf=${({ tool }) => tool} empty=${html`<${Empty} title="No call is parked" />`} /></div>
    </${Card}>
    <${Card} title="Who has most calls" note=${refused ? `${plural(refused, "new call was", "new calls were")} refused by FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL.` : "No new call was refused for its user."}>
      <${Table} label="Who has most calls" columns=${users} rows=${holders} keyOf=${({ who }) => who} empty=${html`<${Empty} title="No call belongs to a user">Users are known where the server has authentication.</${Empty}>`} />
    </${Card}>`;
}

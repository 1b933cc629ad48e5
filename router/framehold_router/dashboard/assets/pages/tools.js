/** The tools of the fleet: which is called how often, which fails, which is slow, and how many calls of each wait. */
import { Link, setQuery, useAddress } from "../lib/address.js";
import { useRead } from "../lib/api.js";
import { html } from "../lib/html.js";
import { number, plural, rate, seconds, span } from "../lib/words.js";
import { FailedShare } from "../parts/failed.js";
import { Name } from "../parts/name.js";
import { Empty, LastAnswer, Loading, Problem } from "../parts/notice.js";
import { Card, Page } from "../parts/page.js";
import { Silent } from "../parts/silent.js";
import { Spark } from "../parts/spark.js";
import { State } from "../parts/state.js";
import { Table } from "../parts/table.js";

const EVERY = 5_000;
const USUAL = "rounds";

const COLUMNS = [
  { name: "Tool", head: true, sort: "tool", of: ({ tool }) => tool, cell: ({ tool, paused }) => html`<${Link} to=${["tools", tool]}><${Name} text=${tool} /></${Link}>${paused && html` <${State} name="paused" />`}` },
  { name: "Rounds/s", number: true, sort: "rounds", of: ({ rounds_per_second: value }) => value, hint: "Rounds per second of the last minute", cell: ({ rounds_per_second: value, rounds }) => html`<${Spark} values=${rounds} label="Rounds in the last half hour" />${rate(value)}` },
  { name: "Failed", number: true, sort: "failed", of: ({ failed_share: value }) => value, hint: "Of the calls that ended in the last ten minutes", cell: FailedShare },
  { name: "p50", number: true, sort: "p50", of: ({ p50 }) => p50, hint: "Half of the requests of the last ten minutes had their reply by then", cell: ({ p50 }) => seconds(p50) },
  { name: "p99", number: true, sort: "p99", of: ({ p99 }) => p99, cell: ({ p99 }) => seconds(p99) },
  { name: "Whole call", number: true, sort: "call", of: ({ call_p50: value }) => value, hint: "From the beginning of a call to its end, users' thinking time included: the median of the last hour", cell: ({ call_p50: value }) => seconds(value) },
  { name: "Thinking", number: true, sort: "think", of: ({ think_p50: value }) => value, hint: "How long users take for an answer: the median of the last hour", cell: ({ think_p50: value }) => seconds(value) },
  { name: "Parked", number: true, sort: "parked", of: ({ parked }) => parked, cell: ({ tool, parked }) => (parked ? html`<${Link} to=${["leases"]} query=${{ tool, state: "parked" }}>${number(parked)}</${Link}>` : number(parked)) },
  { name: "Oldest", number: true, sort: "oldest", of: ({ oldest }) => oldest, hint: "For how long the oldest parked call has been parked", cell: ({ oldest }) => span(oldest) },
  { name: "Replays", number: true, sort: "replays", of: ({ replays }) => replays, hint: "Handlers that were entered again in the last hour", cell: ({ replays, diverged }) => html`${number(replays)}${diverged > 0 && html` <span class="bad-share" title="Replays that failed">(${number(diverged)})</span>`}` },
];

export default function Tools() {
  const { query } = useAddress();
  const { data, error, again } = useRead("tools", {}, { every: EVERY });
  const by = COLUMNS.some(({ sort }) => sort === query.sort) ? query.sort : USUAL;
  const descending = query.descending ? query.descending === "true" : by !== "tool";
  if (data === null) return html`<${Page} title="Tools">${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} what="the tools" />`}</${Page}>`;
  const { of } = COLUMNS.find(({ sort }) => sort === by);
  // A tool that never did anything stands below, and "other" is of no interest then.
  const shown = data.tools.filter((one) => !["other", "resources/read"].includes(one.tool) || alive(one));
  const rows = shown.sort((one, other) => compared(of(one), of(other)) * (descending ? -1 : 1) || compared(one.tool, other.tool));
  const onOrder = ({ by: chosen, descending: down }) => setQuery({ sort: chosen === USUAL ? undefined : chosen, descending: String(chosen === by ? down : chosen !== "tool") });
  return html`<${Page} title="Tools" lead=${lead(rows)}>
    <${LastAnswer} error=${error} again=${again} />
    ${data.missing.length > 0 && html`<${Silent} missing=${data.missing} />`}
    <${Card} label="Tools"><div class="tools"><${Table} label="Tools" columns=${COLUMNS} rows=${rows} keyOf=${({ tool }) => tool} order=${{ by, descending }} onOrder=${onOrder}
      empty=${html`<${Empty} title="No node tells of a tool">Its server has none, or counts nothing: FRAMEHOLD_METRICS is false.</${Empty}>`} /></div></${Card}>
  </${Page}>`;
}

const alive = ({ parked, ended, rounds_per_second: now, refused }) => Boolean(parked || ended || now || refused);

function lead(tools) {
  const paused = tools.filter((tool) => tool.paused).length;
  return `${plural(tools.length, "tool, prompt or resource", "tools, prompts and resources")}${paused ? `; ${plural(paused, "is", "are")} paused` : ""}.`;
}

/** What is not known comes last in a descending order. */
function compared(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  return one < other ? -1 : 1;
}

/**
 * The calls that ended in the last hour, and how: found by how they ended, a page at a time.
 *
 * The law: filters, order and place are in the address, under the names that the API has for them. An error is shown by its
 * class and by the line that raised it; its text is in the log of its node alone.
 */
import { Link, setQuery, useAddress } from "../lib/address.js";
import { useRead } from "../lib/api.js";
import { html, useMemo } from "../lib/html.js";
import { now } from "../lib/live.js";
import { BEGIN, isDescending, usePages, wanted } from "../lib/paging.js";
import { ago, failed, NONE, number, OUTCOMES, prefix, seconds } from "../lib/words.js";
import { Downloads } from "../parts/download.js";
import { CallFields, Facet, Toggles } from "../parts/filters.js";
import { DropFilters, Listed, NothingAfter } from "../parts/listed.js";
import { Name, NodeLink } from "../parts/name.js";
import { Empty } from "../parts/notice.js";
import { Page } from "../parts/page.js";
import { Outcome } from "../parts/state.js";
import { Table } from "../parts/table.js";

const EVERY = 5_000;
const FILTERS = ["failed", "outcome", "tool", "node", "call"];
const NEWEST = "ended";

export default function Calls() {
  const { query } = useAddress();
  const params = wanted(query, FILTERS);
  const found = useRead("calls", { ...params, facets: "true" }, { every: EVERY });
  const pages = usePages("calls", query, params, found);
  const all = { ...params, after: undefined, limit: 1000 };
  const files = html`<${Downloads} path="calls" params=${all} what="all ended calls that the filters let through" />`;
  return html`<${Page} title="Calls" lead="Calls that ended in the last hour, and how." actions=${files}>
    <${Filters} query=${query} items=${found.data?.items ?? []} facets=${found.data?.facets ?? {}} />
    <${Listed} path="calls" label="Calls" query=${query} found=${found} pages=${pages}
      rows=${({ items }, stale) => html`<${Rows} items=${items} query=${query} stale=${stale} />`} />
  </${Page}>`;
}

const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);

function Filters({ query, items, facets: { outcome: ends = {}, tool = {}, node = {} } }) {
  const only = (changes) => () => setQuery({ ...BEGIN, failed: undefined, outcome: undefined, ...changes });
  const ended = ([name, { label, means }]) => {
    const on = query.outcome === name;
    return { label: label[0].toUpperCase() + label.slice(1), title: means, on, count: ends[name] ?? 0, turn: only(on ? {} : { outcome: name }) };
  };
  const failing = query.failed === "true";
  const bad = Object.fromEntries(Object.entries(ends).filter(([name]) => failed(name)));
  return html`<search class="filters" aria-label="Filters">
    <${Toggles} label="Which calls" choices=${[
      { label: "All", title: "However they ended", count: sum(ends), on: !query.failed && !query.outcome, turn: only({}) },
      { label: "Failed", title: "Ended with an error, lost, diverged or stuck", count: sum(bad), on: failing, turn: only(failing ? {} : { failed: "true" }) },
    ]} />
    <${Toggles} label="How they ended" choices=${Object.entries(OUTCOMES).map(ended)} />
    <${Facet} label="Tools" name="tool" counts=${tool} query=${query} />
    <${Facet} label="Nodes" name="node" counts=${node} query=${query} />
    <${CallFields} query=${query} items=${items} />
  </search>`;
}

const columns = (then, traced) => [
  { name: "Call", head: true, hint: "The first letters of its id", cell: ({ call_id: id }) => html`<${Link} to=${["calls", id]} class="mono" title=${`Inspect ${id}`}>${prefix(id)}</${Link}>` },
  { name: "Tool", cell: ({ tool }) => html`<${Name} text=${tool} />` },
  { name: "How", cell: ({ outcome }) => html`<${Outcome} name=${outcome} />` },
  { name: "Error", hint: "The class of the exception", cell: ({ error }) => html`<span title=${error || undefined}><${Name} text=${error.split(".").at(-1) || NONE} mono /></span>` },
  { name: "Raised at", hint: "The line of the author's code: module, function, line", cell: ({ place }) => html`<${Name} text=${place || NONE} mono />` },
  { name: "Node", cell: ({ node_id: id }) => html`<${NodeLink} id=${id} />` },
  { name: "Rounds", number: true, sort: "rounds", hint: "How often it asked", cell: ({ rounds }) => number(rounds) },
  { name: "Took", number: true, sort: "seconds", hint: "From its beginning to its end, with its waits for answers", cell: ({ seconds: took }) => seconds(took) },
  { name: "Trace", hint: "Of its last round, where FRAMEHOLD_TRACE_URL leads", hidden: !traced, cell: ({ trace_url: url }) => (url ? html`<a href=${url} rel="noreferrer" target="_blank">Trace</a>` : NONE) },
  { name: "Ended", number: true, sort: NEWEST, cell: ({ ended }) => ago(ended, then) },
].filter(({ hidden }) => !hidden);

/** Drawn once for each answer, and its ages are those of that moment: all else that changes leaves it as it is. */
function Rows({ items, query, stale }) {
  const by = query.sort ?? NEWEST;
  const descending = isDescending("calls", query);
  const table = useMemo(() => {
    // The greatest come first where a column is chosen anew.
    const onOrder = ({ by: chosen, descending: down }) => setQuery({ ...BEGIN, sort: chosen === NEWEST ? undefined : chosen, descending: chosen !== by || down ? undefined : "false" });
    return html`<${Table} label="Calls" columns=${columns(now(), items.some(({ trace_url: url }) => url))} rows=${items} keyOf=${({ call_id }) => call_id}
      order=${{ by, descending }} onOrder=${onOrder} empty=${html`<${None} />`} />`;
  }, [items, by, descending]);
  return html`<div class="leases ended" aria-busy=${stale ? "true" : "false"}>${table}</div>`;
}

function None() {
  const { query } = useAddress();
  const given = FILTERS.filter((name) => query[name]);
  const drop = html`<${DropFilters} path="calls" query=${query} filters=${FILTERS} />`;
  if (query.after) return html`<${NothingAfter} />`;
  if (given.length === 0) return html`<${Empty} title="No call ended in the last hour">Have a tool called: <code>framehold call</code></${Empty}>`;
  if (given.join() === "failed") return html`<${Empty} title="No call failed in the last hour">None ended with an error, and none was lost, diverged or is stuck. ${drop}</${Empty}>`;
  return html`<${Empty} title="No call ended like that in the last hour">Each filter must hold. ${drop}</${Empty}>`;
}

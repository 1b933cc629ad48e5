/**
 * The calls that nodes hold, and those that nobody holds: found by what is wrong with them, a page at a time.
 *
 * The law: filters, order and place are in the address, under the names that the API has for them. Only one page is ever
 * asked for and drawn, however many calls there are.
 */
import { Link, setQuery, useAddress } from "../lib/address.js";
import { useRead } from "../lib/api.js";
import { html, useMemo, useRef, useState } from "../lib/html.js";
import { now, useLive } from "../lib/live.js";
import { BEGIN, usePages, wanted } from "../lib/paging.js";
import { bytes, NONE, number, prefix, span, STATES } from "../lib/words.js";
import { Bulk, BulkButtons } from "../parts/bulk.js";
import { Downloads } from "../parts/download.js";
import { CallFields, Toggles } from "../parts/filters.js";
import { DropFilters, Listed, NothingAfter } from "../parts/listed.js";
import { Name, NodeLink } from "../parts/name.js";
import { Callout, Empty } from "../parts/notice.js";
import { Buttons, OnCall } from "../parts/oncall.js";
import { Page } from "../parts/page.js";
import { State } from "../parts/state.js";
import { Table } from "../parts/table.js";

const EVERY = 5_000;
const SOON = "60";
const FILTERS = ["state", "expiring", "replayed", "tool", "node", "call"];

export default function Leases() {
  const { query } = useAddress();
  const params = wanted(query, FILTERS);
  const found = useRead("leases", params, { every: EVERY });
  const pages = usePages("leases", query, params, found);
  const [asked, setAsked] = useState(null);
  const [done, setDone] = useState(/** @type {import("preact").ComponentChild} */ (""));
  const finished = (sentence) => {
    setDone(html`${sentence}. ${asked.call && html`<${Link} to=${["calls", asked.call.call_id]}>Look at the call</${Link}>`}`);
    setAsked(null);
    found.again();
  };
  const all = { ...params, after: undefined, limit: 1000 };
  const narrowed = FILTERS.some((name) => query[name]);
  const files = html`${narrowed && html`<${BulkButtons} total=${found.data?.total} onAsk=${(what) => setAsked({ what })} />`}
    <${Downloads} path="leases" params=${all} what="all leases that the filters let through" />`;
  return html`<${Page} title="Leases" lead="Calls that nodes hold, and those that wait for a node." actions=${files}>
    <${Filters} query=${query} items=${found.data?.items ?? []} />
    <div role="status">${done && html`<${Callout} tone="good"><p>${done}</p></${Callout}>`}</div>
    <${Listed} path="leases" label="Leases" query=${query} found=${found} pages=${pages}
      rows=${({ items, missing }, stale) => html`<${Rows} items=${items} missing=${missing} query=${query} stale=${stale} onAsk=${(what, call) => setAsked({ what, call })} />`} />
    ${asked && html`<${asked.call ? OnCall : Bulk} ...${asked} params=${params} onDone=${finished} onClose=${() => setAsked(null)} />`}
  </${Page}>`;
}

function Filters({ query, items }) {
  const turn = (changes) => () => setQuery({ ...BEGIN, ...changes });
  const mark = (name, value, label, title) => {
    const on = query[name] === value;
    return { label, title, on, turn: turn({ [name]: on ? undefined : value }) };
  };
  const state = (name) => mark("state", name, name[0].toUpperCase() + name.slice(1), STATES[name].means);
  return html`<search class="filters" aria-label="Filters">
    <${Toggles} label="Which calls" choices=${[
      { label: "All states", title: "Whatever their state", on: !query.state, turn: turn({ state: undefined }) },
      ...["parked", "running", "orphaned", "stuck"].map(state),
    ]} />
    <${Toggles} label="Only those" choices=${[
      mark("expiring", SOON, "Expiring < 60 s", "Their tokens expire within a minute"),
      mark("replayed", "true", "Replayed", "Their frames were rebuilt from their journals at least once"),
    ]} />
    <${CallFields} query=${query} items=${items} />
  </search>`;
}

/** As the heads name the orders: who is old began early. */
const AGE = "age";
const order = ({ sort = "call_id", descending }) => (sort === "began" ? { by: AGE, descending: descending !== "true" } : { by: sort, descending: descending === "true" });
function sortBy({ by, descending }) {
  const down = by === AGE ? !descending : descending;
  setQuery({ ...BEGIN, sort: by === AGE ? "began" : by === "call_id" ? undefined : by, descending: down || undefined });
}

const since = (at, then) => (at ? span(then - at) : NONE);
const left = (at, then) => (at ? (at <= then ? "over" : span(at - then)) : NONE);

const soon = (expires, then) => (expires && expires - then < Number(SOON) ? "soon" : undefined);

const columns = (then, onAsk) => [
  { name: "Call", head: true, sort: "call_id", hint: "The first letters of its id", cell: ({ call_id: id }) => html`<${Link} to=${["calls", id]} class="mono" title=${`Inspect ${id}`}>${prefix(id)}</${Link}>` },
  { name: "Tool", cell: ({ tool }) => html`<${Name} text=${tool} />` },
  { name: "State", cell: ({ state, phase }) => html`<span title=${phase}><${State} name=${state} /></span>` },
  { name: "Owner", cell: ({ node_id }) => html`<${NodeLink} id=${node_id} />` },
  { name: "Epoch", number: true, hint: "Raised with each change of its owner", cell: ({ epoch }) => number(epoch) },
  { name: "Round", number: true, hint: "How often it has asked", cell: ({ round }) => number(round) },
  { name: "Age", number: true, sort: AGE, cell: ({ began }) => since(began, then) },
  { name: "Expires in", number: true, sort: "expires", hint: "How long its token is valid", cell: ({ expires }) => html`<span class=${soon(expires, then)}>${left(expires, then)}</span>` },
  { name: "Journal", number: true, sort: "journal_bytes", hint: "Its size in the store", cell: ({ journal_bytes: size }) => bytes(size) },
  { name: "Resumed", number: true, hint: "How long ago it was last answered", cell: ({ resumed }) => since(resumed, then) },
  { name: "Replayed", hint: "Whether its frame was rebuilt from its journal", cell: ({ replayed }) => (replayed ? "yes" : NONE) },
  { name: "Strategy", cell: ({ strategy }) => strategy },
  { name: "Actions", cell: (lease) => html`<span class="row-actions"><${Buttons} call=${lease} quiet onAsk=${(what) => onAsk(what, lease)} /></span>` },
];

/** Drawn once for each answer, and its ages are those of that moment: all else that changes leaves it as it is. */
function Rows({ items, missing, query, stale, onAsk }) {
  const ask = useRef(onAsk);
  ask.current = onAsk;
  const { by, descending } = order(query);
  const table = useMemo(
    () => html`<${Table} label="Leases" columns=${columns(now(), (...what) => ask.current(...what))} rows=${items} keyOf=${({ call_id }) => call_id}
      order=${{ by, descending }} onOrder=${sortBy} empty=${html`<${None} missing=${missing} />`} />`,
    [items],
  );
  return html`<div class="leases" aria-busy=${stale ? "true" : "false"}>${table}</div>`;
}

/** Why there is nothing, for a single filter. */
const NOTHING = {
  state: {
    parked: ["No call is parked", "No handler waits for an answer."],
    running: ["No call is running", "Each frame waits for its client, or there is none."],
    orphaned: ["No orphaned call is listed", ({ orphaned }) => `Orphaned calls: ${orphaned.text}.`],
    stuck: ["No call is stuck", "No handler has killed its nodes too often."],
  },
  expiring: { [SOON]: ["No call expires within a minute", "Each token that is out is valid for longer."] },
  replayed: { true: ["No call was replayed", "Each frame is the one that its call began with."] },
};

function None({ missing }) {
  const { query } = useAddress();
  const { nodes, overview } = useLive();
  const given = FILTERS.filter((name) => query[name]);
  const drop = html`<${DropFilters} path="leases" query=${query} filters=${FILTERS} />`;
  if (query.after) return html`<${NothingAfter} />`;
  if (given.length === 0) return html`<${Empty} title="No call is listed">Open calls, those that no list has among them: ${number(overview?.open.total)}. Have one called: <code>framehold call</code></${Empty}>`;
  if (query.node && nodes !== null && !query.node.includes("*") && !nodes.some(({ node_id }) => node_id === query.node)) {
    return html`<${Empty} title=${html`No node is called <bdi>${query.node}</bdi> now`}>Calls that it left behind, if any, are among those that are orphaned. ${drop}</${Empty}>`;
  }
  if (given.join() === "call") {
    return html`<${Empty} title="No call that is held begins so">One that has ended, or whose frame was dropped, is not in this list.${" "}
      ${query.call.length > 20 && html`<${Link} to=${["calls", query.call]}>Look for its record</${Link}>${" "}`}${drop}</${Empty}>`;
  }
  const [title, text] = (given.length === 1 && NOTHING[given[0]]?.[query[given[0]]]) || ["No call is like that", "Each filter must hold."];
  if (missing.length > 0) return html`<${Empty} title="No such call on the nodes that answered">What the others hold, and which calls have lost their node, is not known now. ${drop}</${Empty}>`;
  return html`<${Empty} title=${title}>${typeof text === "function" ? overview && text(overview.open) : text} ${drop}</${Empty}>`;
}

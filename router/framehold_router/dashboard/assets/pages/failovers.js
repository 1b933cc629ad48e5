/**
 * What came of each node's end: last heartbeat, detected, claimed, replayed, resumed, and what became of its calls. A
 * planned end is a hand-off: it is shown here, and is no failover.
 */
import { Link, setQuery, useAddress } from "../lib/address.js";
import { useRead } from "../lib/api.js";
import { html } from "../lib/html.js";
import { now, useLive } from "../lib/live.js";
import { number, plural, seconds } from "../lib/words.js";
import { Parts } from "../parts/bar.js";
import { Downloads } from "../parts/download.js";
import { Name, NodeLink } from "../parts/name.js";
import { Empty, LastAnswer, Loading, Problem } from "../parts/notice.js";
import { Card, Page } from "../parts/page.js";
import { Stat, Stats } from "../parts/stat.js";
import { State } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { Ago, At } from "../parts/time.js";

const LEAD = "From a node's last heartbeat to the first answer of a call that it held. A hand-off was planned, and is no failover.";
const HOUR = 3600;
const REASONS = { died: "died", released: "ended while it handed off its calls", restarted: "was restarted" };

export default function Failovers() {
  const { data, error, again } = useRead("failovers", {}, { every: 2000 });
  useLive();
  if (data === null) return html`<${Page} title="Failovers" lead=${LEAD}>${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} what="failovers" />`}</${Page}>`;
  const { failovers, fenced } = data;
  return html`<${Page} title="Failovers" lead=${LEAD} actions=${html`<${Downloads} path="failovers" />`}>
    <${LastAnswer} error=${error} again=${again} />
    <${Totals} failovers=${failovers} fenced=${fenced} />
    ${failovers.length === 0 && html`<${Card} label="Failovers"><${Empty} title="No node has ended with calls on it">
      When one dies, is restarted or hands its calls off, the way of its calls to another node is shown here.
    </${Empty}></${Card}>`}
    ${failovers.map((one) => html`<${Failover} key=${`${one.node_id} ${one.boot}`} one=${one} />`)}
  </${Page}>`;
}

/** When it was: as this router found it, else as its calls tell; a router that was started since then knows no more. */
function whenOf({ detected, claimed, last_heartbeat: last, calls }) {
  const asked = calls.map((call) => call.asked).filter((at) => typeof at === "number");
  return detected ?? claimed ?? last ?? (asked.length ? Math.max(...asked) : null);
}

const sum = (failovers, name) => failovers.reduce((total, one) => total + one[name], 0);

function Totals({ failovers, fenced }) {
  const lost = sum(failovers, "lost");
  const stuck = sum(failovers, "stuck") + sum(failovers, "failed");
  const unplanned = failovers.filter(({ planned }) => !planned);
  const handed = failovers.length - unplanned.length;
  const recent = unplanned.filter((one) => (whenOf(one) ?? 0) > now() - HOUR).length;
  const totals = unplanned.map(({ durations }) => durations.total).filter((total) => total !== undefined);
  return html`<${Stats} label="All failovers and hand-offs of the last day">
    <${Stat} label="Failovers" value=${number(unplanned.length)} note=${`${number(recent)} in the last hour${handed ? `; ${plural(handed, "hand-off")}` : ""}`} />
    <${Stat} label="Calls recovered" value=${number(sum(failovers, "recovered"))} note="they went on" />
    <${Stat} label="Under way" value=${number(sum(failovers, "under_way"))} note="being carried on" />
    <${Stat} label="Calls lost" value=${number(lost)} note="not re-entrant" tone=${lost ? "bad" : undefined} />
    <${Stat} label="Stuck or failed" value=${number(stuck)} note="not entered" tone=${stuck ? "bad" : undefined} />
    <${Stat} label="Slowest" value=${seconds(totals.length ? Math.max(...totals) : null)} note="until resumed" />
    <${Stat} label="Fenced writes" value=${number(fenced)} note="refused" title="Writes of nodes that had lost a call and did not know it yet. Each is a fault that the fence kept from doing harm." />
  </${Stats}>`;
}

/** The parts of the way, each as it is known, with what it means. */
const PHASES = [
  { of: "detect", name: "detected", hue: 3, means: "from the last heartbeat until a router found the node lease gone" },
  { of: "claim", name: "claimed", hue: 7, means: "until another node held the first of its calls" },
  { of: "replay", name: "replayed", hue: 4, means: "until its handler stood where it had been" },
  { of: "resume", name: "resumed", hue: 2, means: "until its client had an answer" },
];

function Failover({ one }) {
  const { query } = useAddress();
  const id = `${one.node_id} ${one.boot}`;
  const open = query.open === id;
  const parts = PHASES.filter(({ of }) => one.durations[of] !== undefined).map(({ of, ...phase }) => ({
    ...phase,
    value: one.durations[of],
    text: seconds(one.durations[of]),
  }));
  const at = whenOf(one);
  return html`<section class="card failover" aria-label=${`${one.planned ? "Hand-off" : "Failover"} of ${one.node_id}`}>
    <header>
      <h2><${NodeLink} id=${one.node_id} /> ${one.planned ? html`handed off its calls <${State} name="planned" />` : (REASONS[one.reason] ?? one.reason)}</h2>
      <p>${at === null ? "when is not known" : html`<${At} at=${at} />, <${Ago} at=${at} />`}</p>
      <p class="total">${one.durations.total === undefined ? waiting(one) : html`first resumed after <b>${seconds(one.durations.total)}</b>`}</p>
    </header>
    <div class="body">
      ${parts.length > 0 && html`<${Parts} label=${one.planned ? "From the retry to the first answer" : "From the last heartbeat to the first answer"} parts=${parts} />`}
      ${one.calls.length > 0 && html`<div class="outcomes">
        ${OUTCOMES.map(([field, name]) => one[field] > 0 && html`<span>${number(one[field])} <${State} name=${name} /></span>`)}
        <button type="button" aria-expanded=${open ? "true" : "false"} aria-label=${`${open ? "Hide" : "Show"} the calls of ${one.node_id}`} onClick=${() => setQuery({ open: open ? "" : id }, { replace: true })}>${open ? "Hide its calls" : "Show its calls"}</button>
      </div>`}
    </div>
    ${open && html`<${Calls} calls=${one.calls} of=${one.node_id} />`}
  </section>`;
}

const OUTCOMES = [["recovered", "recovered"], ["under_way", "under way"], ["lost", "lost"], ["stuck", "stuck"], ["failed", "failed"]];

/** Shown where there is no total: calls that went on before the node lease had ended have none. */
function waiting({ calls, under_way: going, recovered }) {
  if (calls.length === 0) return "no client has come back yet";
  if (recovered) return `${plural(recovered, "call")} went on`;
  return going ? "nothing resumed yet" : "none went on";
}

const between = (from, to) => (from != null && to != null && to >= from ? seconds(to - from) : "–");

const COLUMNS = [
  { name: "Call", head: true, cell: ({ call }) => html`<${Link} to=${["leases"]} query=${{ call }} class="mono">${call}</${Link}>` },
  { name: "Tool", cell: ({ tool }) => html`<${Name} text=${tool} />` },
  { name: "Outcome", cell: ({ outcome }) => html`<${State} name=${outcome} />` },
  { name: "Went to", cell: ({ to_node }) => html`<${NodeLink} id=${to_node} />` },
  { name: "Code", hint: "kept: it went on with the code that it began with. present: its new node has that code, or no other.", cell: ({ kept_code: kept }) => (kept ? "kept" : "present") },
  { name: "Epoch", number: true, hint: "Raised with each change of its owner", cell: ({ epoch }) => number(epoch) },
  { name: "Asked", number: true, hint: "When its client came back.", cell: ({ asked }) => html`<${At} at=${asked} />` },
  { name: "Claimed after", number: true, cell: ({ asked, claimed }) => between(asked, claimed) },
  { name: "Replayed in", number: true, cell: ({ claimed, replayed }) => between(claimed, replayed) },
  { name: "Resumed in", number: true, cell: ({ replayed, resumed }) => between(replayed, resumed) },
];

function Calls({ calls, of }) {
  return html`<${Table} label=${`Calls that ${of} held`} columns=${COLUMNS} rows=${calls} keyOf=${({ call, epoch, asked }) => `${call} ${epoch} ${asked}`} />
    ${calls.length === 100 && html`<p class="more">The newest 100 are shown.</p>`}`;
}

/**
 * One node: how it is, where its memory goes, when its loop stood, and what happened to it; or how it went.
 *
 * The law: its own answer is shown as new; where it doesn't answer, the page says that it shows its last heartbeat.
 */
import { Link } from "../lib/address.js";
import { part, useRead } from "../lib/api.js";
import { html } from "../lib/html.js";
import { useLive } from "../lib/live.js";
import { bytes, number, percent, plural, rate, seconds, span } from "../lib/words.js";
import { Departed } from "../parts/departed.js";
import { Drain, useDrain } from "../parts/drain.js";
import { Events } from "../parts/events.js";
import { History } from "../parts/history.js";
import { lateness } from "../parts/lag.js";
import { Callout, Empty, Loading, Problem } from "../parts/notice.js";
import { Card, Page } from "../parts/page.js";
import { LastStall, MemorySpent } from "../parts/spent.js";
import { Stat, Stats } from "../parts/stat.js";
import { State, stateOf } from "../parts/state.js";
import { Ago, At } from "../parts/time.js";

const EVERY = 2_000;
const SHOWN = 20;

const Back = () => html`<p class="back"><${Link} to=${["nodes"]}>Nodes</${Link}></p>`;

export default function Node({ about: id }) {
  const { nodes, departed } = useLive();
  if (nodes === null) return html`<${Page} title=${id} back=${html`<${Back} />`}><${Loading} what="the node" /></${Page}>`;
  const node = nodes.find(({ node_id }) => node_id === id);
  if (node) return html`<${Living} key=${node.boot} id=${id} node=${node} nodes=${nodes} />`;
  const gone = departed.filter(({ node_id }) => node_id === id);
  return gone.length > 0 ? html`<${Gone} id=${id} gone=${gone} />` : html`<${Missing} id=${id} />`;
}

/** It has a node lease. */
function Living({ id, node, nodes }) {
  const { data, error, again } = useRead(`nodes/${part(id)}`, {}, { every: EVERY });
  const drain = useDrain(nodes);
  const name = html`<bdi>${id}</bdi> <${State} name=${stateOf(node)} />`;
  return html`<${Page} title=${id} name=${name} back=${html`<${Back} />`} actions=${html`<${Actions} node=${node} onDrain=${drain.ask} />`}>
    ${drain.outcome}
    ${error && html`<${Silent} error=${error} node=${node} again=${again} known=${data !== null} />`}
    <${Numbers} node=${node} />
    <${History} params=${{ node: id }} charts=${CHARTS} />
    ${data && html`<${Spent} detail=${data} />`}
    <div class="columns even">
      <${Card} title="Facts"><${Facts} node=${node} sessions=${data?.sessions} /></${Card}>
      <${Card} title="Its last events"><${Happened} id=${id} /></${Card}>
    </div>
    ${drain.dialog}
  </${Page}>`;
}

const Actions = ({ node, onDrain }) => html`
  <${Link} to=${["leases"]} query=${{ node: node.node_id }}>Its calls</${Link}>
  <${Drain} node=${node} onDrain=${onDrain} />`;

/** It did not say how it is. */
function Silent({ error, node: { state, heartbeat_age: age, unanswered: seen, lives }, again, known }) {
  if (error.status === 0) return html`<${Problem} error=${error} again=${again}><p>What is shown may be old.</p></${Problem}>`;
  if (state !== "unreachable") return html`<${Callout} tone="warn" role="status" title="It doesn't say where its memory goes"><p>${error.message}</p></${Callout}>`;
  return html`<${Callout} tone="bad" title=${html`<span role="alert">It doesn't answer</span>`}>
    ${seen && html`<p>What this router saw: ${seen}.</p>`}
    <p>${lives ? "Its process runs, as a later heartbeat or answer shows: look at what lies between this router and it." : "Its process may be dead, or cut off: look at it and its log."} The numbers are those of its last heartbeat${typeof age === "number" ? `, ${span(age)} ago` : ""}${known ? "; its memory is what it said before" : ""}. If it is dead, its calls go on elsewhere once that lease has run out.</p>
  </${Callout}>`;
}

function Numbers({ node }) {
  const { node_id, parked, in_flight, frames, rss, memory_limit, loop_lag_p99, errors, rounds, handed_off } = node;
  return html`<${Stats} label="The node in numbers">
    <${Stat} label="Parked calls" value=${number(parked)} note="wait for answers" to=${[["leases"], { node: node_id, state: "parked" }]} />
    <${Stat} label="In flight" value=${number(in_flight)} note="requests now" />
    <${Stat} label="Leases" value=${number(frames)} note="frames it holds" to=${[["leases"], { node: node_id }]} />
    ${handed_off !== null && html`<${Stat} label="Handed off" value=${number(handed_off)} note="since it drains" tone="warn" />`}
    <${Stat} label="Memory" value=${bytes(rss)} note=${memory_limit ? `of ${bytes(memory_limit)}` : "no limit is set"} tone=${memory_limit && rss > 0.9 * memory_limit ? "warn" : undefined} />
    <${Stat} label="Loop lag p99" value=${seconds(loop_lag_p99)} note="last minute" tone=${lateness(loop_lag_p99)} title="By how much its event loop was late. All its calls wait meanwhile." />
    ${handed_off === null && html`<${Stat} label="Rounds" value=${number(rounds)} note="since its start" />`}
    <${Stat} label="Errors" value=${number(errors)} note="since its start" tone=${errors ? "warn" : undefined} title="Calls that ended by its own fault, and requests that the store didn't answer." />
  </${Stats}>`;
}

const CHARTS = [
  { label: "Rounds", series: [{ name: "per second", of: "rounds", hue: 2, area: true }], write: rate },
  { label: "Resume times", series: [{ name: "p50", of: "p50", hue: 1 }, { name: "p99", of: "p99", hue: 3 }], write: seconds, logarithmic: true },
  { label: "Parked calls", series: [{ name: "parked", of: "parked", hue: 1, area: true }], write: number, whole: true },
  { label: "Memory", series: [{ name: "in memory", of: "rss", hue: 4, area: true }], write: bytes },
  { label: "Loop busy", series: [{ name: "of its time", of: "busy", hue: 7, area: true }], write: (value) => percent(value, 0) },
  { label: "Loop lag", series: [{ name: "p99", of: "lag", hue: 3 }], write: seconds, logarithmic: true },
];

const Spent = ({ detail: { node, memory, tools } }) => html`<div class="columns even">
  <${Card} title="Where its memory goes"><${MemorySpent} memory=${memory} tools=${tools} /></${Card}>
  <${Card} title="When its loop last stood"><${LastStall} stall=${node.last_stall} /></${Card}>
</div>`;

function Facts({ node, sessions }) {
  const { address, pid, boot, incarnation, version, started, heartbeat_age, share } = node;
  const facts = [
    ["Address", address && html`<code>${address}</code>`],
    ["Process", pid && html`<span class="digits">${pid}</span>`],
    ["Started", started && html`<${At} at=${started} /> <span class="why"><${Ago} at=${started} /></span>`],
    ["Version", version],
    ["Boot", html`<code>${boot}</code>`],
    ["Incarnation", html`<code>${incarnation}</code>`],
    ["Heartbeat", typeof heartbeat_age === "number" && `${span(heartbeat_age)} ago`],
    ["Share of the ring", html`<${Link} to=${["ring"]} query=${{ node: node.node_id }}>${percent(share)}</${Link}>`],
    ["Sessions", typeof sessions === "number" ? `${number(sessions)} of 2025-era clients` : null],
  ];
  return html`<dl class="facts">${facts.map(([name, fact]) => html`<div key=${name}><dt>${name}</dt><dd>${fact || "–"}</dd></div>`)}</dl>`;
}

/** What the router remembers of it, and what has come since. */
function Happened({ id }) {
  const { events } = useLive();
  const { data } = useRead("events");
  const found = new Map();
  for (const event of [...events, ...(data?.events ?? [])]) if (event.node_id === id) found.set(event.id, event);
  const own = [...found.values()].sort((one, other) => other.at - one.at);
  if (own.length === 0) return html`<${Empty} title="Nothing has happened here">Takeovers, drains and what is done by hand are listed here.</${Empty}>`;
  return html`<${Events} events=${own.slice(0, SHOWN)} of=${id} />`;
}

/** It has no lease any more. */
function Gone({ id, gone }) {
  const { how, boot, detected, last_heartbeat: last, calls } = gone[0];
  const lost = how === "lost";
  return html`<${Page} title=${id} name=${html`<bdi>${id}</bdi> <${State} name=${how} />`} back=${html`<${Back} />`} lead=${html`boot <span class="mono">${boot}</span>`}>
    <${Callout} tone=${lost ? "bad" : "warn"} title=${html`${lost ? "It was lost" : "It has left"} <${Ago} at=${detected} />`}>
      ${lost
        ? html`<p>Its node lease ran out: this router found so at <${At} at=${detected} />, ${last === null ? "and no router saw it run out" : `${seconds(Math.max(0, detected - last))} after its last heartbeat`}. It had ${calls === null ? "an unknown number of calls" : plural(calls, "parked call")}.</p>
          <p>Each goes on at another node when its client comes back: <${Link} to=${["leases"]} query=${{ node: id, state: "orphaned" }}>those that still wait</${Link}>, <${Link} to=${["failovers"]}>those that were carried on</${Link}>. Calls of tools that are not re-entrant are lost, and their clients are told so.</p>`
        : html`<p>It drained, or gave its node lease back, at <${At} at=${detected} />. What it held was handed off: retries go on at other nodes. See <${Link} to=${["failovers"]}>Failovers</${Link}>.</p>`}
    </${Callout}>
    ${gone.length > 1 && html`<${Card} title="Its ends" note="in the last hour, the newest first"><${Departed} departed=${gone} /></${Card}>`}
    <${Card} title="Its last events"><${Happened} id=${id} /></${Card}>
  </${Page}>`;
}

const Missing = ({ id }) => html`<${Page} title=${id} name=${html`<bdi>${id}</bdi>`} back=${html`<${Back} />`}>
  <${Empty} title="No node of this name has a node lease">
    It may have gone more than an hour ago, or never have been. See <${Link} to=${["nodes"]}>all nodes</${Link}>, <${Link} to=${["failovers"]}>failovers</${Link}>, or <${Link} to=${["leases"]} query=${{ node: id }}>calls that were last there</${Link}>.
  </${Empty}>
</${Page}>`;

/**
 * What an operator has to know at the first glance: what needs somebody, else what mends itself, else that all is well.
 *
 * The law: it is one box, whatever is wrong. It is told aloud when it says something else, and not with each second by
 * which an age has grown. Of a fleet that is not heard of, nothing is said to be well.
 */
import { Link } from "../lib/address.js";
import { html, useEffect, useState } from "../lib/html.js";
import { useLive, useNow } from "../lib/live.js";
import { number, plural, seconds } from "../lib/words.js";
import { goneFrom } from "./departed.js";
import { LATE } from "./lag.js";
import { NodeLink } from "./name.js";
import { Callout } from "./notice.js";
import { begun } from "./told.js";

const MOST = 6;
/** For how long it is said of a node that it was lost, when it is back. */
const FRESH = 120;
const AGES = /\d+(\.\d+)? ?(ms|s|min|h|d)\b/g;

export function Attention() {
  const { overview, nodes, departed, events, link } = useLive();
  const now = useNow();
  if (link.state === "lost") return null;
  const needs = folded(overview.attention ?? [], nodes).map(({ text, more }) => ({
    text: more ? `${text}; ${more} more` : text,
    bad: true,
    said: html`<${About} text=${text} nodes=${nodes} />${more > 0 && html`. The same holds of ${plural(more, "other node")}.`}`,
  }));
  const found = [...needs, ...gone(goneFrom(departed, nodes)), ...late(nodes), ...back(nodes, events, now), ...waiting(overview)];
  return html`<${Box} found=${found} />`;
}

function Box({ found }) {
  const calm = found.every(({ mends }) => mends);
  const tone = found.some(({ bad }) => bad) ? "bad" : found.length ? "warn" : "good";
  const lines = found.slice(0, MOST).map(({ said }) => said);
  if (found.length > MOST) lines.push(html`And ${number(found.length - MOST)} more: see <${Link} to=${["nodes"]}>all nodes</${Link}>.`);
  if (calm) lines.push("Nothing needs you.");
  const aloud = `${found.map(({ text }) => text).join(" ")}${calm ? " Nothing needs you." : ""}`.replace(AGES, "");
  return html`<div class="attention">
    <${Aloud} text=${aloud} />
    <${Callout} tone=${tone}>${lines.length === 1 ? html`<p>${lines[0]}</p>` : html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>`}</${Callout}>
  </div>`;
}

/** Set a moment after it is there: what a region holds from its beginning is not told. */
function Aloud({ text }) {
  const [said, setSaid] = useState("");
  useEffect(() => setSaid(text), [text]);
  return html`<p class="unseen" role="status">${said}</p>`;
}

/** The node with whose name a text begins. */
function first(text, nodes) {
  const begins = nodes.map(({ node_id }) => node_id).filter((name) => text.startsWith(name) && /^[ ,:]/.test(text.slice(name.length)));
  return begins.sort((one, other) => other.length - one.length)[0];
}

/** What is said alike of several nodes is said of one, and of how many `more`. What is of no single node, as a silent store, comes before it. */
function folded(texts, nodes) {
  const found = new Map();
  for (const text of texts) {
    const id = first(text, nodes);
    const single = id !== undefined && text[id.length] === " ";
    const address = nodes.find(({ node_id }) => node_id === id)?.address;
    const alike = single ? text.slice(id.length).replace(address || id, "").replace(AGES, "") : text;
    const one = found.get(alike);
    found.set(alike, one ? { ...one, more: one.more + 1 } : { text, more: 0, single });
  }
  const all = [...found.values()];
  return [...all.filter(({ single }) => !single), ...all.filter(({ single }) => single)];
}

/** What the router says, with the node that it begins with as a link. */
function About({ text, nodes }) {
  const id = first(text, nodes);
  return id === undefined ? begun(text) : html`<${NodeLink} id=${id} />${text.slice(id.length)}`;
}

const named = (nodes) => (nodes.length > 3 ? plural(nodes.length, "node") : nodes.map(({ node_id }, n) => html`${n > 0 && (n === nodes.length - 1 ? " and " : ", ")}<${NodeLink} id=${node_id} />`));
const listed = (nodes) => nodes.map(({ node_id }) => node_id).join(", ");

function gone({ lost }) {
  if (lost.length === 0) return [];
  const [was, is, it] = lost.length === 1 ? ["was", "is", "it"] : ["were", "are", "them"];
  return [{ text: `${listed(lost)} lost`, said: html`${named(lost)} ${was} lost within the last hour and ${is} not back. Start ${it} again if nobody else does, and look at the log.` }];
}

function late(nodes) {
  return nodes.filter(({ state, loop_lag_p99: lag }) => state === "live" && lag >= LATE.bad).map((node) => ({
    text: `${node.node_id} was late`,
    said: html`<${NodeLink} id=${node.node_id} />: its event loop was late by ${seconds(node.loop_lag_p99)} in the last minute, and all its calls waited. A handler blocks it: its page says which.`,
  }));
}

/** Lost a moment ago, and here again: as another process, or the same one that had been held up. */
function back(nodes, events, now) {
  const lost = new Set(events.filter(({ kind, at }) => kind === "node_lost" && now - at < FRESH).map(({ node_id }) => node_id));
  const here = nodes.filter(({ node_id, state }) => lost.has(node_id) && state === "live");
  if (here.length === 0) return [];
  return [{ text: `${listed(here)} back`, mends: true, said: html`${named(here)} ${here.length === 1 ? "was lost and is" : "were lost and are"} back.` }];
}

function waiting({ orphaned }) {
  if (!orphaned) return [];
  const calls = html`<${Link} to=${["leases"]} query=${{ state: "orphaned" }}>${plural(orphaned, "orphaned call")}</${Link}>`;
  return [{ text: "Orphaned calls wait for their clients.", mends: true, said: html`${calls} ${orphaned === 1 ? "waits for its client" : "wait for their clients"}: another node carries each on, or tells that it is lost.` }];
}

/**
 * What an operator has to know at the first glance: what needs somebody, else what mends itself, else that all is well.
 *
 * The law: the router finds what needs somebody (`problems`); here it is only shown. It is one box, whatever is wrong. A
 * screen reader says it when it changes, and not with each second by which an age has grown. Of a fleet that is not heard
 * of, nothing is called well.
 */
import { Link } from "../lib/address.js";
import { html, useEffect, useState } from "../lib/html.js";
import { useLive, useNow } from "../lib/live.js";
import { number, plural } from "../lib/words.js";
import { NodeLink } from "./name.js";
import { Callout } from "./notice.js";
import { Named, sentence } from "./sentence.js";

const MOST = 6;
/** For how long a node that is back is shown as having been lost. */
const FRESH = 120;
const AGES = /\d+(\.\d+)? ?(ms|s|min|m|h|d)\b/g;

export function Attention() {
  const { overview, nodes, events, link } = useLive();
  const now = useNow();
  if (link.state === "lost") return null;
  const found = [...folded(overview.problems ?? []).map(needed), ...back(nodes, events, now), ...waiting(overview)];
  return html`<${Box} found=${found} />`;
}

function Box({ found }) {
  const calm = found.every(({ mends }) => mends);
  const tone = found.some(({ bad }) => bad) ? "bad" : found.length ? "warn" : "good";
  const lines = found.slice(0, MOST).map(({ line }) => line);
  if (found.length > MOST) lines.push(html`And ${number(found.length - MOST)} more: see <${Link} to=${["nodes"]}>all nodes</${Link}>.`);
  if (calm) lines.push("Nothing needs you.");
  const aloud = `${found.map(({ text }) => text).join(" ")}${calm ? " Nothing needs you." : ""}`.replace(AGES, "");
  return html`<div class="attention">
    <${Aloud} text=${aloud} />
    <${Callout} tone=${tone}>${lines.length === 1 ? html`<p>${lines[0]}</p>` : html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>`}</${Callout}>
  </div>`;
}

/** Set a moment after it is there: a screen reader says only what changes in a region. */
function Aloud({ text }) {
  const [message, setMessage] = useState("");
  useEffect(() => setMessage(text), [text]);
  return html`<p class="unseen" role="status">${message}</p>`;
}

/** Of a problem that several nodes have, one is shown, and how many `more` there are. */
function folded(problems) {
  const found = new Map();
  for (const problem of problems) {
    const alike = problem.node ? `${problem.severity} ${problem.kind} ${problem.tool}` : problem.text;
    const one = found.get(alike);
    found.set(alike, one ? { ...one, more: one.more + 1 } : { ...problem, more: 0 });
  }
  return [...found.values()];
}

function needed({ severity, text, next, node, link, more }) {
  const others = more > 0 && html` The same holds of ${plural(more, "other node")}.`;
  return {
    text: `${text}; ${next}${more ? `; ${more} more` : ""}`,
    bad: severity === "harm",
    line: html`<${Named} text=${text} node=${node} />. ${next && sentence(next)} <${More} link=${link} node=${node} />${others}`,
  };
}

/** Where there is more: a page, or the section of the runbook. The text has a link to the node's own page already. */
function More({ link, node }) {
  if (!link.startsWith("/dashboard/")) return link && html`<code>${link}</code>`;
  const { pathname, searchParams } = new URL(link, location.origin);
  const to = pathname.split("/").slice(2).map(decodeURIComponent);
  if (node && to[0] === "nodes") return null;
  return html`<${Link} to=${to} query=${Object.fromEntries(searchParams)}>Show ${to[0]}</${Link}>`;
}

const listed = (nodes) => nodes.map(({ node_id }) => node_id).join(", ");
const named = (nodes) => (nodes.length > 3 ? plural(nodes.length, "node") : nodes.map(({ node_id }, n) => html`${n > 0 && (n === nodes.length - 1 ? " and " : ", ")}<${NodeLink} id=${node_id} />`));

/** Lost a moment ago, and here again: as another process, or the same one that had been held up. */
function back(nodes, events, now) {
  const lost = new Set(events.filter(({ kind, at }) => kind === "node_lost" && now - at < FRESH).map(({ node_id }) => node_id));
  const here = nodes.filter(({ node_id, state }) => lost.has(node_id) && state === "live");
  if (here.length === 0) return [];
  return [{ text: `${listed(here)} back`, mends: true, line: html`${named(here)} ${here.length === 1 ? "was lost and is" : "were lost and are"} back.` }];
}

function waiting({ open: { orphaned } }) {
  if (!orphaned.count) return [];
  const calls = html`<${Link} to=${["leases"]} query=${{ state: "orphaned" }}>Orphaned calls</${Link}>`;
  return [{ text: "Orphaned calls wait for their clients.", mends: true, line: html`${calls}: ${orphaned.text}.` }];
}

/**
 * The trail of a call as a timeline: spans on lanes, one lane for each node, and marks between them.
 *
 * The law: nothing is guessed. A round began `ran` seconds before the step that ended it. Between rounds a call is parked
 * on the node that asked last. A node that claimed a call entered its round at once; if the next step is another claim, that
 * round never ended. A span says that no node held the frame only if there is evidence: a handoff, an eviction,
 * the last heartbeat of a lost node, or the present answer of the node.
 *
 * Spans are `{what: "round" | "parked" | "unheld" | "stuck", node, from, to, number, epoch, how}`, `how` what ended a round; marks
 * are `{what, node, at, from, epoch}`, `from` the node that a takeover came from. `number` is of the round; the first is
 * 1, and ends with the first questions. `unsure`: nobody holds the frame now, and nothing tells since when.
 */
import { failed } from "./words.js";

const ENDS = ["parked", "finished"];
const OPEN = ["open", "released"];

/** `view` is what the API says of the call; `events` are of it and of lost nodes, `now` is in seconds since 1970. */
export function story(view, { events = [], departed = [], now }) {
  const steps = view.trail;
  const gone = losses(events, departed);
  const rounds = done(steps, view.outcome);
  const present = running(view, rounds, now);
  const all = present ? [...rounds, present] : rounds;
  const spans = [...waits(steps, all, view, now).flatMap((wait) => parted(wait, gone)), ...all];
  const marks = [...marksOf(steps, view.outcome), ...answers(all), ...evictions(events, spans)];
  const lanes = [...new Set([...spans, ...marks].sort((one, other) => (one.from ?? one.at) - (other.from ?? other.at)).map(({ node }) => node))];
  const begin = Math.min(...spans.map(({ from }) => from), ...marks.map(({ at }) => at), view.created ?? now);
  const ended = OPEN.includes(view.record) || view.record === "none" ? null : (steps.at(-1)?.at ?? null);
  return { spans, marks: marks.sort((one, other) => one.at - other.at), lanes, begin, end: ended ?? Math.max(now, begin), ended: ended !== null, cutOff: isCutOff(steps) };
}

/** When nodes lost frames: what was dropped by hand, and what went with a node; the first that tells of it counts. */
function losses(events, departed) {
  const known = events.filter(({ kind }) => kind === "evicted" || kind === "node_lost").map(({ at, node_id: node }) => ({ node, at }));
  const left = departed.filter(({ how }) => how === "lost").map(({ node_id: node, last_heartbeat, detected }) => ({ node, at: last_heartbeat ?? detected }));
  return [...known, ...left].sort((one, other) => one.at - other.at);
}

/** A first step raises the round or the epoch by one; a later one stands where the steps before it are gone. */
const isCutOff = ([first]) => first !== undefined && first.round + first.epoch > 2;

/** The rounds that have ended. One can't begin before what came before it on its node. */
function done(steps, outcome) {
  const found = [];
  for (const { step, round, epoch, node_id: node, at, ran } of steps) {
    if (!ENDS.includes(step) || (step === "finished" && ran === 0)) continue;
    const from = Math.max(at - ran, found.at(-1)?.to ?? -Infinity);
    found.push({ what: "round", node, from, to: at, number: step === "parked" ? round : round + 1, epoch, how: step === "finished" && failed(outcome) ? "failed" : step });
  }
  return found;
}

/** The round that runs now. */
function running({ live, record, trail }, rounds, now) {
  if (live === null || live.state !== "running" || !(OPEN.includes(record) || record === "none")) return null;
  const since = (live.round > 0 ? (live.resumed ?? trail.at(-1)?.at) : live.began) ?? now;
  return { what: "round", node: live.node_id, from: Math.min(now, Math.max(since, rounds.at(-1)?.to ?? 0)), to: now, number: live.round + 1, epoch: live.epoch, how: "running" };
}

/** What is between the rounds. */
function waits(steps, rounds, view, now) {
  const found = [];
  steps.forEach(({ step, node_id: node, at, epoch, round }, n) => {
    if (["finished", "lost"].includes(step)) return;
    const busy = rounds.find(({ to }) => to > at);
    const until = Math.min(busy?.from ?? Infinity, steps[n + 1]?.at ?? now);
    if (until <= at) return;
    const held = n + 1 < steps.length || view.live !== null || view.record === "none";
    const unheld = step === "released" || !held;
    const nobody = view.outcome === "stuck" && n + 1 === steps.length ? "stuck" : "unheld";
    const span = { node, from: at, to: until, number: round, epoch, unsure: unheld && step !== "released" };
    const next = steps[n + 1]?.step ?? (view.outcome === "stuck" && "claimed");
    const cut = step === "claimed" && next === "claimed" ? { what: "round", how: "cut", number: round + 1 } : { what: "parked" };
    found.push({ ...span, ...(unheld ? { what: nobody } : cut), cut, nobody });
  });
  return found;
}

/** A wait in which its node lost the frame is two. */
function parted(wait, gone) {
  const { cut, nobody, ...span } = wait;
  const lost = gone.find(({ node, at }) => node === wait.node && at > wait.from && at < wait.to);
  return lost ? [{ ...span, ...cut, unsure: false, to: lost.at }, { ...span, what: nobody, how: undefined, unsure: false, from: lost.at }] : [span];
}

/** An end is drawn as what it was: a failure, a cancellation, or the handler's own. */
function marksOf(steps, outcome) {
  const end = failed(outcome) ? "failed" : outcome === "cancelled" ? outcome : "finished";
  return steps.flatMap(({ step, node_id: node, at, epoch, round }, n) => {
    const before = steps[n - 1];
    const mark = { node, at, epoch, round };
    if (step === "claimed") return [{ ...mark, what: before && before.node_id !== node ? "takeover" : "again", from_node: before?.node_id ?? "" }];
    if (step === "parked") return [{ ...mark, what: "asked" }];
    return [{ ...mark, what: step === "finished" ? end : step }];
  });
}

/** An answer came where a round after the first began. */
const answers = (rounds) => rounds.filter(({ number }) => number > 1).map(({ node, from, epoch, number }) => ({ what: "answered", node, at: from, epoch, round: number - 1 }));

const evictions = (events, spans) => events.filter(({ kind, node_id }) => kind === "evicted" && spans.some(({ node }) => node === node_id))
  .map(({ at, node_id: node, epoch }) => ({ what: "evicted", node, at, epoch }));

/** Texts for the trail of a call: a sentence for each span and mark, and for each step of its record. */
import { clock, OUTCOMES, seconds } from "./words.js";

/** The start, end and duration of a span. */
const when = ({ from, to }) => `${seconds(to - from)}, from ${clock(from)} to ${clock(to)}`;

const ROUNDS = {
  parked: (span) => `Round ${span.number} ran on ${span.node} for ${when(span)}, and asked.`,
  finished: (span) => `Round ${span.number} ran on ${span.node} for ${when(span)}, and the call ended.`,
  cut: (span) => `Round ${span.number} was entered on ${span.node} at ${clock(span.from)}, and never ended there.`,
  failed: (span) => `Round ${span.number} ran on ${span.node} for ${when(span)}, and the call failed.`,
  running: (span) => `Round ${span.number} runs on ${span.node}, for ${seconds(span.to - span.from)} by now.`,
};

const SENTENCES = {
  round: (span) => ROUNDS[span.how](span),
  parked: (span) => `Parked on ${span.node} for ${when(span)}: its frame waited for an answer.`,
  unheld: (span) => (span.unsure ? `Parked on ${span.node} at ${clock(span.from)}; no node holds its frame now, and since when is not known.` : `No node held its frame for ${when(span)}.`),
  stuck: (span) => (span.unsure ? `Stuck since it ended ${span.node}, which entered it at ${clock(span.from)}: nobody enters it again.` : `Stuck for ${when(span)}: it ended the process of its node too often, and nobody enters it again.`),
  asked: ({ node, at, round }) => `${node} asked its client, at the end of round ${round}, at ${clock(at)}.`,
  answered: ({ node, at }) => `Its client's answer came to ${node} at ${clock(at)}.`,
  takeover: ({ node, from_node, at, epoch }) => `${node} took it over from ${from_node || "another node"} at ${clock(at)}, and replayed it: epoch ${epoch}.`,
  again: ({ node, at, epoch }) => `${node} entered it again at ${clock(at)}, from its journal: epoch ${epoch}.`,
  released: ({ node, at }) => `${node} handed it off at ${clock(at)}: the next retry replays it elsewhere.`,
  evicted: ({ node, at }) => `${node} dropped its frame at ${clock(at)}: the next retry replays it.`,
  verified: ({ node, at, epoch }) => `${node} had it confirmed by the store at ${clock(at)}, after its lease had lapsed: epoch ${epoch}.`,
  healed: ({ node, at, epoch }) => `${node} wrote it whole at ${clock(at)}, over a store that had gone back: epoch ${epoch}.`,
  finished: ({ node, at }) => `It ended on ${node} at ${clock(at)}.`,
  failed: ({ node, at }) => `It failed on ${node} at ${clock(at)}.`,
  cancelled: ({ node, at }) => `An operator cancelled it on ${node} at ${clock(at)}.`,
  lost: ({ node, at }) => `${node} found it lost at ${clock(at)}: its frame was gone, and it is not re-entrant.`,
};

/** A span or mark of `story` in a sentence. */
export const described = (item) => SENTENCES[item.what](item);

/** The legend of a timeline: marks by name, with their shape and tone. */
export const MARKS = {
  asked: { label: "asked", tone: "idle" },
  answered: { label: "answered", tone: "idle" },
  takeover: { label: "taken over", tone: "warn" },
  again: { label: "entered again", tone: "warn" },
  released: { label: "handed off", tone: "warn" },
  evicted: { label: "evicted", tone: "warn" },
  verified: { label: "confirmed", tone: "warn" },
  healed: { label: "healed", tone: "warn" },
  finished: { label: "ended", tone: "good" },
  failed: { label: "failed", tone: "bad" },
  cancelled: { label: "cancelled", tone: "warn" },
  lost: { label: "lost", tone: "bad" },
};

/** The sentence for a step of a record; `before` is the step before it, `outcome` how its call ended. */
export function stepped({ step, node_id, kept_code }, before, outcome) {
  if (step === "finished" && OUTCOMES[outcome]) return `Ended: ${OUTCOMES[outcome].label}`;
  const code = kept_code ? ", with the code that it began with" : "";
  if (step === "claimed") return (before && before.node_id === node_id ? "Entered again, from its journal" : `Taken over${before ? ` from ${before.node_id}` : ""}, and replayed`) + code;
  return STEPS[step] ?? step;
}

const STEPS = {
  parked: "Asked, and parked",
  released: "Handed off",
  verified: "Confirmed after its lease had lapsed",
  healed: "Written whole over a store that had gone back",
  finished: "Ended",
  lost: "Found lost: not re-entrant, and its frame gone",
};

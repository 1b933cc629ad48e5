/** Formats numbers, times and names for the whole dashboard. An unknown value is an en dash, never a zero. */

export const NONE = "–";

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const known = (value) => typeof value === "number" && Number.isFinite(value);
/** Three significant digits: 0.824, 8.24, 82.4, 824. */
const figures = (value) => value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);

/** A count: 12,345. */
export const number = (value) => (known(value) ? WHOLE.format(value) : NONE);

/** A rate: 0.42, 8.1, 1,234. */
export const rate = (value) => (known(value) ? (value >= 100 ? WHOLE.format(value) : String(+value.toFixed(value < 10 ? 2 : 1))) : NONE);

/** Bytes, in units of 1024: 812 B, 4.1 KiB. */
export function bytes(value) {
  if (!known(value)) return NONE;
  if (value < 1024) return `${WHOLE.format(value)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length, Math.floor(Math.log2(value) / 10));
  const shown = value / 1024 ** power;
  return `${shown >= 99.95 ? WHOLE.format(shown) : shown.toFixed(1)} ${units[power - 1]}`;
}

/** A duration, given in seconds: 0.82 ms, 34.1 ms, 1.24 s, 3 min 20 s, 5 h 12 min, 3 d 4 h. */
export function seconds(value) {
  if (!known(value)) return NONE;
  if (value < 0.00995 && value > 0) return `${figures(value * 1000)} ms`;
  if (value < 0.9995) return value === 0 ? "0 s" : `${figures(value * 1000)} ms`;
  if (value < 59.95) return `${value.toFixed(value < 9.995 ? 2 : 1)} s`;
  return long(Math.round(value));
}

/** A span of time that passes while it is looked at, in whole seconds: 4 s, 3 min 20 s. */
export const span = (value) => (known(value) ? (value < 59.5 ? `${Math.max(0, Math.round(value))} s` : long(Math.round(value))) : NONE);

function long(whole) {
  const [days, hours] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24];
  const [minutes, rest] = [Math.floor(whole / 60) % 60, whole % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return `${minutes} min ${rest} s`;
}

/** A part of a whole, 0 to 1, as a percentage. */
export function percent(value, digits = 1) {
  if (!known(value)) return NONE;
  const shown = (value * 100).toFixed(digits);
  // Nearly all must not be shown as 100 %.
  return `${value < 1 && Number(shown) === 100 ? (100 - 10 ** -digits).toFixed(digits) : shown} %`;
}

/** A number with its noun: 1 call, 2 calls. */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** When something was, on this browser's clock: 14:03:07, with its date where that is another day. */
export function clock(at, today = new Date()) {
  if (!known(at)) return NONE;
  const when = new Date(at * 1000);
  const time = when.toLocaleTimeString("en-GB");
  return when.toDateString() === today.toDateString() ? time : `${when.toLocaleDateString("en-CA")} ${time}`;
}

/** How long ago: now, 12 s ago. */
export const ago = (at, now) => (known(at) ? (now - at < 1 ? "now" : `${span(now - at)} ago`) : NONE);

/** The first letters of a call's id, by which logs and terminals name it too. */
export const prefix = (call) => call.slice(0, 8);

/**
 * The labels, meanings and tones of states. Tones: good, idle (waits, as it should), busy (at work), warn (heals by
 * itself, or is intended), bad (needs an operator).
 */
export const STATES = {
  live: { tone: "good", means: "It renews its node lease and takes new calls." },
  draining: { tone: "warn", means: "It takes no new call, and hands off what others may carry on." },
  unreachable: { tone: "bad", means: "It has a node lease and doesn't answer this router: dead, or cut off. Its counts are its last heartbeat's." },
  late: { tone: "warn", means: "It has not renewed its node lease for long." },
  lapsed: { tone: "bad", means: "It couldn't renew its node lease: its calls wait until the store has confirmed them." },
  unheard: { label: "not heard of by the store, answering", tone: "warn", means: "No heartbeat of it can be written. It serves what needs no store; its parked calls wait in memory." },
  "other keys": { tone: "bad", means: "It has none of this fleet's keys: nothing is sent to it." },
  lost: { tone: "bad", means: "Its node lease ran out. Retries of its calls go elsewhere." },
  left: { tone: "idle", means: "It gave its node lease back, or drained to its end." },
  parked: { tone: "idle", means: "Its frame waits in memory for an answer." },
  running: { tone: "busy", means: "A round of it runs, or waits for the store." },
  asked: { tone: "idle", means: "It ended with questions." },
  ended: { tone: "good", means: "It ended with a result." },
  stopped: { tone: "idle", means: "You gave it up, and its request was cancelled." },
  orphaned: { tone: "warn", means: "Its node is gone, and its client has not come back yet." },
  paused: { tone: "warn", means: "New calls of it are refused; parked ones wait." },
  stuck: { tone: "bad", means: "Its handler killed its nodes too often: nobody enters it again." },
  open: { tone: "idle", means: "It goes on: an answer is awaited, or a round runs." },
  released: { tone: "warn", means: "It was handed off: its next retry replays it on another node." },
  done: { tone: "good", means: "It has ended; its outcome is kept for late duplicates." },
  none: { tone: "idle", means: "It has no record yet." },
  planned: { tone: "idle", means: "It drained: nobody waited for its node lease to run out." },
  recovered: { tone: "good", means: "It was replayed, and went on." },
  "under way": { tone: "busy", means: "It is being carried on." },
  diverged: { tone: "bad", means: "Its handler did something else than its journal says, and was stopped." },
  unreadable: { tone: "bad", means: "Its journal can't be read here." },
  failed: { tone: "bad", means: "It could not be carried on." },
  harmless: { tone: "good", means: "It lost no call and let no effect happen twice, under any condition." },
  harms: { tone: "bad", means: "Under some condition it lost calls, or let effects happen twice." },
  "not known": { tone: "warn", means: "It did no harm where it was looked at, and was not looked at everywhere." },
};

/** How calls end: labels, meanings and tones. The bad ones are those that an operator or an author has to look at. */
export const OUTCOMES = {
  completed: { label: "completed", tone: "good", means: "Its handler returned a result." },
  tool_error: { label: "tool error", tone: "bad", means: "The result of the tool is an error." },
  protocol_error: { label: "protocol error", tone: "bad", means: "Its client got an error of the protocol." },
  cancelled: { label: "cancelled", tone: "idle", means: "An operator ended it, or its client left before it had asked." },
  lost: { label: "lost", tone: "bad", means: "Its frame is gone, and its handler may not be entered again." },
  expired: { label: "expired", tone: "idle", means: "Its client did not come back while its token was valid." },
  diverged: { label: "diverged", tone: "bad", means: "The code that runs now can't continue it: it goes another way than its journal says." },
  stuck: { label: "stuck", tone: "bad", means: "Its handler killed its nodes too often: nobody enters it again." },
};

/** Whether a call that ended so failed. */
export const failed = (outcome) => OUTCOMES[outcome]?.tone === "bad";

/** The labels and tones of the kinds of events. */
export const KINDS = {
  node_joined: { label: "joined", tone: "good" },
  node_draining: { label: "draining", tone: "warn" },
  node_left: { label: "left", tone: "idle" },
  node_lost: { label: "node lost", tone: "bad" },
  takeover: { label: "takeover", tone: "warn" },
  recovered: { label: "recovered", tone: "good" },
  lost: { label: "call lost", tone: "bad" },
  stuck: { label: "stuck", tone: "bad" },
  diverged: { label: "diverged", tone: "bad" },
  fenced: { label: "fenced", tone: "warn" },
  evicted: { label: "evicted", tone: "idle" },
  refused: { label: "refused", tone: "warn" },
  cancelled: { label: "cancelled", tone: "idle" },
  drain: { label: "drain", tone: "warn" },
  undrained: { label: "drain undone", tone: "good" },
  paused: { label: "tool paused", tone: "bad" },
  resumed: { label: "tool resumed", tone: "good" },
  store_silent: { label: "store silent", tone: "bad" },
  store_back: { label: "store back", tone: "good" },
  store_emptied: { label: "store lost data", tone: "bad" },
  lease_lapsed: { label: "lease lapsed", tone: "bad" },
};

export const labelOf = (state) => STATES[state]?.label ?? state;
export const toneOf = (state) => STATES[state]?.tone ?? "idle";

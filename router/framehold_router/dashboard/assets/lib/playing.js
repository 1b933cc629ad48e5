/**
 * The call of the playground: its rounds, its open questions, and how it ended. It lives as long as the tab, so that one
 * may look at other pages between two rounds.
 *
 *   1. `begin` sends the first round; messages of the server are added to the round as they come
 *   2. the reply is a result or an error: the call has ended; or it has questions: they are open
 *   3. `reply` answers one question; when all have an answer the next round is sent, with the token of the last reply
 *   4. `stop` gives up the round that runs; `forget` gives up the call
 *
 * The law: what is kept is bounded: the newest steps, the newest messages of each, and the beginning of each long text.
 */
import { KINDS, round } from "./mcp.js";
import { shared } from "./signal.js";

/** Steps, messages of one step, and characters of one text that are kept. */
const STEPS = 40;
const MOST_MESSAGES = 200;
const TEXT = 20_000;
/** Characters of a token that are shown of it. */
const TOKEN = 48;
const CALL = /^h1\.([A-Za-z0-9-]{22,36})\./;

const playing = shared(null);
let under = null;
let last = 0;

/** The call, null before the first. */
export const usePlaying = () => playing.use();

/** A text that is not too long to be shown. */
export function cut(text) {
  return text.length > TEXT ? `${text.slice(0, TEXT)}\n… ${(text.length - TEXT).toLocaleString("en")} more characters are not shown` : text;
}

/** JSON to look at: a token in it is cut, and so is the whole. */
const written = (message) => cut(JSON.stringify(message, (key, value) => (key === "requestState" && value.length > TOKEN ? `${value.slice(0, TOKEN)}… (${value.length} characters)` : value), 2));

/** Change the call, unless another one has begun since. */
function change(id, how) {
  const call = playing.get();
  if (call?.id === id) playing.set({ ...call, ...how(call) });
}

/** Change the last round of the call. */
function changeRound(id, how) {
  change(id, ({ steps }) => {
    const at = steps.findLastIndex(({ what }) => what === "round");
    return { steps: steps.map((step, n) => (n === at ? { ...step, ...how(step) } : step)) };
  });
}

function added({ steps, dropped }, step) {
  const all = [...steps, step];
  return { steps: all.slice(-STEPS), dropped: dropped + Math.max(0, all.length - STEPS) };
}

/** Call something. `kind` and `name` say what, `params` are of the request, `schema` is of its arguments. */
export function begin(kind, name, params, schema) {
  forget();
  const id = ++last;
  playing.set({ id, kind, name, params, schema, steps: [], dropped: 0, rounds: 0, open: null, end: null, callId: null, node: null });
  send(id, {});
}

async function send(id, more) {
  const { kind, params, schema } = playing.get();
  const asked = (under = new AbortController());
  const began = performance.now();
  change(id, (call) => ({ ...added(call, blank(call)), rounds: call.rounds + 1, open: null }));
  const over = () => ({ took: (performance.now() - began) / 1000 });
  const watched = {
    schema,
    signal: asked.signal,
    onSent: (message) => changeRound(id, () => ({ sent: written(message) })),
    onHead: (head) => {
      changeRound(id, () => head);
      if (head.node) change(id, () => ({ node: head.node }));
    },
    onMessage: (message) => changeRound(id, (step) => received(step, message)),
    onReply: (message) => changeRound(id, () => ({ got: written(message) })),
    onAgain: (why) => changeRound(id, (step) => ({ again: { why, times: (step.again?.times ?? 0) + 1 } })),
  };
  try {
    const result = await round(KINDS[kind].method, { ...params, ...more }, watched);
    changeRound(id, () => ({ ...over(), state: result.resultType === "input_required" ? "asked" : result.isError ? "failed" : "ended" }));
    change(id, () => (result.resultType === "input_required" ? opened(result) : { end: { result } }));
  } catch (error) {
    changeRound(id, () => ({ ...over(), state: asked.signal.aborted ? "stopped" : "failed" }));
    change(id, () => ({ end: { error } }));
  }
}

const blank = ({ rounds }) => ({ what: "round", number: rounds + 1, at: Date.now() / 1000, state: "running", node: null, route: null, messages: [], missed: 0, progress: null, replies: [] });

/**
 * A round with one more message of its server: a log message, or how far it is.
 *
 * @param {{ messages: object[], missed: number }} round
 * @param {{ method: string, params?: any }} message
 */
function received({ messages, missed }, { method, params = {} }) {
  const logs = method === "notifications/message";
  if (!logs && method !== "notifications/progress") return {};
  const entry = logs ? { what: "log", level: String(params.level), logger: params.logger, text: worded(params.data) } : { what: "progress", done: params.progress, total: params.total, text: worded(params.message ?? "") };
  const all = [...messages, entry];
  const kept = { messages: all.slice(-MOST_MESSAGES), missed: missed + Math.max(0, all.length - MOST_MESSAGES) };
  return logs ? kept : { ...kept, progress: entry };
}

const worded = (data) => cut(typeof data === "string" ? data : JSON.stringify(data) ?? "");

/** What a reply with questions comes to. Without any it is a token alone: the next round is sent at once. */
function opened({ inputRequests, requestState }) {
  const questions = Object.entries(inputRequests ?? {}).map(([key, { method, params }]) => ({ key, method, params: params ?? {}, reply: null }));
  const token = requestState ?? null;
  const found = CALL.exec(token ?? "");
  if (questions.length === 0) queueMicrotask(next);
  return { open: { token, questions }, ...(found ? { callId: found[1] } : {}) };
}

/** Answer a question: `{action, content}`; null takes an answer back that was not sent yet. */
export function reply(key, answer) {
  const call = playing.get();
  if (!call?.open) return;
  const questions = call.open.questions.map((one) => (one.key === key ? { ...one, reply: answer } : one));
  playing.set({ ...call, open: { ...call.open, questions } });
  if (questions.every((one) => one.reply !== null)) next();
}

/** Send the next round, with the answers of this one. */
function next() {
  const { id, open } = playing.get();
  const replies = open.questions.map(({ key, params, reply: { action, content } }) => ({ key, message: worded(params.message ?? ""), action, content: content === undefined ? "" : worded(content) }));
  changeRound(id, () => ({ replies }));
  const answers = Object.fromEntries(open.questions.map((one) => [one.key, one.reply]));
  const token = open.token === null ? {} : { requestState: open.token };
  send(id, { ...(open.questions.length ? { inputResponses: answers } : {}), ...token });
}

/** Note that a node was killed between two rounds. */
export function killed(node) {
  const call = playing.get();
  if (call) playing.set({ ...call, ...added(call, { what: "killed", node, at: Date.now() / 1000 }) });
}

/** Give up the round that runs: its request is cancelled. */
export const stop = () => under?.abort();

/** Give up the call: nothing of it is kept here. What it asked waits at its node until its token expires. */
export function forget() {
  playing.set(null);
  stop();
}

/**
 * The one connection that follows the fleet: by server-sent events, or by polling if they don't come.
 *
 *   1. connecting: the page requests the stream, and waits for its first message
 *   2. live: messages come; if none comes for SILENT ms, the connection is ended
 *   3. the stream ends, or no message came: it is requested once more; after that polling: overview, nodes and events
 *      are read every POLL ms, and the stream is requested again every RETRY ms
 *   4. lost: polling fails too; the last data stay and are marked as old; polling continues
 *   5. paused: the page is hidden, and all requests stop; when it is visible again, step 1 follows
 *   6. locked: the router needs its admin token first
 */
import { BASE, headers, learn, lock, read, useAccess } from "./api.js";
import { useEffect, useMemo, useState } from "./html.js";
import { limit, wait } from "./limit.js";
import { messages } from "./messages.js";
import { shared } from "./signal.js";

const FIRST = 4_000;
const SILENT = 8_000;
const POLL = 2_000;
const RETRY = 15_000;
const EVENTS = 200;

const NOTHING = { overview: null, nodes: null, departed: [], events: [], heard: null };
const UNSEEN = { count: 0, at: null, text: "not looked up yet" };
const UNCOUNTED = { held: UNSEEN, asleep: UNSEEN, handed_off: UNSEEN, orphaned: UNSEEN, total: 0, lost_last_hour: 0 };
const fleet = shared(NOTHING);
const link = shared({ state: "connecting", since: Date.now() });
let ahead = 0;
let run = null;

function say(state) {
  if (link.get().state !== state) link.set({ state, since: Date.now() });
}

/** Seconds since 1970 on the router's clock, computed from its last message. */
export const now = () => Date.now() / 1000 + ahead;

/** A router of another release may send fewer fields: missing ones are unknown. */
function took(name, data) {
  const last = { ...fleet.get(), heard: Date.now() };
  if (name === "overview") {
    if (typeof data.at === "number") ahead = data.at - Date.now() / 1000;
    const overview = { nodes: {}, failing: [], open: UNCOUNTED, ...data };
    fleet.set({ ...last, overview, events: merged(data.events ?? [], last.events) });
  } else if (name === "nodes" && Array.isArray(data.nodes)) {
    fleet.set({ ...last, nodes: data.nodes, departed: data.departed ?? [] });
  } else if (name === "event" && typeof data.at === "number") {
    fleet.set({ ...last, events: merged([data], last.events) });
  }
}

/** Events of both, each once, the newest first. */
function merged(some, others) {
  const found = new Map();
  for (const event of [...some, ...others]) found.set(`${event.node_id} ${event.id}`, event);
  return [...found.values()].sort((one, other) => other.at - one.at || (other.id > one.id ? 1 : -1)).slice(0, EVENTS);
}

/** Read the stream until it ends. Returns whether at least one message came. */
async function follow(signal) {
  const end = limit(FIRST, signal);
  let heard = false;
  try {
    // By this header the router knows that the request lasts, and may end it for another client.
    const sent = { ...headers(), Accept: "text/event-stream" };
    const response = await fetch(`${BASE}stream`, { headers: sent, signal: end.signal });
    if (response.status === 401) lock();
    if (!response.ok) return false;
    for await (const events of messages(response.body)) {
      for (const { name, data } of events) took(name, data);
      if (events.length) {
        heard = true;
        say("live");
      }
      if (heard) end.again(SILENT);
    }
  } catch {
    // The stream broke or was given up; both end it.
  } finally {
    end.stop();
  }
  return heard;
}

async function poll(signal) {
  try {
    const [overview, nodes, { events }] = await Promise.all(
      ["overview", "nodes", "events"].map((path) => read(path, {}, signal)),
    );
    took("overview", { ...overview, events });
    took("nodes", nodes);
    say("polling");
  } catch {
    if (!signal.aborted) say("lost");
  }
}

async function keep(signal) {
  if (!(await learn(signal))) return;
  while (!signal.aborted) {
    // A stream that worked is requested once more before polling: the router may just have been replaced.
    while (!signal.aborted && (await follow(signal))) {
      if (!signal.aborted) say("connecting");
      await wait(500, signal);
    }
    const until = performance.now() + RETRY;
    while (performance.now() < until && !signal.aborted) {
      await poll(signal);
      await wait(POLL, signal);
    }
  }
}

function begin() {
  end();
  if (document.hidden) {
    say("paused");
    return;
  }
  say("connecting");
  run = new AbortController();
  keep(run.signal);
}

function end() {
  run?.abort();
  run = null;
}

/** Follow the fleet for as long as the component is mounted. Exactly one component of the page uses it. */
export function useFollowing() {
  const { locked, signedIn } = useAccess();
  useEffect(() => {
    if (locked) say("locked");
    else begin();
    const seen = () => !locked && begin();
    document.addEventListener("visibilitychange", seen);
    return () => {
      document.removeEventListener("visibilitychange", seen);
      end();
    };
  }, [locked, signedIn]);
}

/** The last data of the fleet, when they came (`heard`, in ms; null: never), and the state of the connection. */
export function useLive() {
  return { ...fleet.use(), link: link.use() };
}

/** The names of all nodes, and of the tools that they have; both empty until they are known. */
export function useNames() {
  const { nodes } = fleet.use();
  return useMemo(() => {
    const known = nodes ?? [];
    return { nodes: known.map(({ node_id }) => node_id), tools: [...new Set(known.flatMap(({ tools }) => tools ?? []))].sort() };
  }, [nodes]);
}

/** The router's time, again and again: what shows an age is drawn anew with it. */
export function useNow(every = 1000) {
  const [at, setAt] = useState(now());
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setAt(now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return at;
}

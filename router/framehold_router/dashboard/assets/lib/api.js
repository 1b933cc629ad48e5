/**
 * Requests to this router: reads, actions, and the access that it requires.
 *
 * The law: the token is in this tab's memory and session storage, and is sent only in the header of requests to this
 * router. An action is sent once: if it is not answered, whether it was done is unknown.
 */
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { limit } from "./limit.js";
import { search } from "./search.js";
import { shared } from "./signal.js";

/** Where the API is. */
export const BASE = "/api/v1/";
const STORAGE_KEY = "framehold-admin-token";
/** Milliseconds after which a request without an answer fails. */
const LIMITS = { GET: 10_000, POST: 30_000 };
/** A token that a router can have, and a header can carry. */
const TOKEN = /^[!-~]+$/;

/** The error of a request. `status` is 0 if the router did not answer; the message can be shown to the user. */
export class Trouble extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const access = shared({ token: remembered(), tokenSet: null, acts: null, locked: false, asked: false, playground: "off" });

/** What this tab has signed in with, or begins with. */
function remembered() {
  const given = linked();
  if (given === null) return storage()?.getItem(STORAGE_KEY) ?? null;
  storage()?.setItem(STORAGE_KEY, given);
  return given;
}

/** A token may come in the fragment of a link that `framehold up` prints; no server sees it, and it doesn't stay. */
function linked() {
  // In a fragment a plus is a plus, not a blank.
  const given = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B")).get("token");
  if (given !== null) history.replaceState(null, "", location.pathname + location.search);
  return given !== null && TOKEN.test(given) ? given : null;
}

/** Such a link loads nothing anew in a tab that shows its page already. A wrong token changes nothing there. */
addEventListener("hashchange", () => {
  const given = linked();
  if (given !== null) signIn(given).catch(() => {});
});

/** The storage of this tab for the token; null if the browser allows none. */
function storage() {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}

/** Headers of a request to this router; `given` is a token to try. */
export function headers(given = access.get().token) {
  // With the second header the browser's own prompt for a password stays away: the page asks by itself.
  const sent = { Accept: "application/json", "X-Requested-With": "framehold" };
  return given ? { ...sent, Authorization: `Bearer ${given}` } : sent;
}

/** Reads need a token that is not here. */
export const lock = () => access.set({ ...access.get(), locked: true });

/**
 * @param {"GET" | "POST"} method
 * @param {string} path
 * @param {{ params?: object, body?: unknown, signal?: AbortSignal, token?: string }} [more]
 */
async function ask(method, path, { params = {}, body, signal, token } = {}) {
  const more = body === undefined ? {} : { "Content-Type": "application/json" };
  const end = limit(LIMITS[method], signal);
  let response, answer;
  try {
    response = await fetch(BASE + path + search(params), {
      method,
      signal: end.signal,
      headers: { ...headers(token), ...more },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    answer = parsed(await response.text());
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Trouble(0, "This router doesn't answer: it may be down, or out of reach.");
  } finally {
    end.stop();
  }
  if (response.ok && answer !== null) return answer;
  if (response.status === 401 && method === "GET") lock();
  throw new Trouble(response.status, answer?.error ?? `The router answered ${response.status}, and gave no reason.`);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The answer to `GET /api/v1/{path}`. Throws Trouble. */
export const read = (path, params, signal) => ask("GET", path, { params, signal });

/** Send an action; returns what was done, in a sentence. Throws Trouble. */
export const act = async (path, body) => (await ask("POST", path, { body })).done;

/** Look up where a token goes. It is sent in the body, because URLs are logged. Throws Trouble. */
export const lookup = (token) => ask("POST", "lookup", { body: { token } });

/** A part of a path, however odd. */
export const part = encodeURIComponent;

/** Ask what access this router requires; returns whether this page may read. Without an answer it tries to read. */
export async function learn(signal) {
  const found = await ask("GET", "access", { signal }).catch(() => null);
  if (signal.aborted) return false;
  const now = access.get();
  access.set({ ...now, ...(found && learnt(found)), asked: true });
  return !access.get().locked;
}

/** What the router said of the access of this page. */
function learnt({ token_set: tokenSet, token_right: acts, may_read: reads, playground = "off" }) {
  return { tokenSet, acts, locked: !reads, playground };
}

/** Use this token from now on; `acting`: for an action. Throws Trouble if it is wrong, or does not do for that. */
export async function signIn(token, acting = false) {
  const found = TOKEN.test(token) ? await ask("GET", "access", { token }) : null;
  if (!found?.token_set || !found.may_read) throw new Trouble(401, "That is not this router's admin token.");
  if (acting && !found.token_right) throw new Trouble(403, "That is this router's read token: it shows, and does nothing.");
  storage()?.setItem(STORAGE_KEY, token);
  access.set({ ...access.get(), ...learnt(found), token, asked: true });
}

/** Forget the token. */
export function signOut() {
  storage()?.removeItem(STORAGE_KEY);
  access.set({ ...access.get(), token: null, acts: null, locked: access.get().tokenSet === true });
}

/**
 * `asked`: whether the router was asked what it wants; `tokenSet`: whether it has a token (null: not known); `acts`:
 * whether ours is the admin token (null: not known); `locked`: whether nothing is shown without one; `playground`: "off", "call" (the
 * dashboard calls tools) or "kill" (and kills nodes).
 */
export function useAccess() {
  const { token, tokenSet, acts, locked, asked, playground } = access.use();
  return { asked, tokenSet, acts, locked, playground, signedIn: Boolean(token) && !locked, signIn, signOut };
}

/**
 * Reads a path of the API: at once, again when the parameters change, and every so many ms while the page is visible.
 * The last answer stays until the next one comes, also if a request fails (`error`). `at` is the time of the answer in ms;
 * `of` are its parameters, and `stale` says that they differ from the present ones. One request is under way at a time: a
 * new request cancels the one before.
 */
export function useRead(path, params = {}, { every = null } = {}) {
  const [state, setState] = useState({ data: null, error: null, failed: null, at: null, of: null });
  const { token, locked } = access.use();
  const of = JSON.stringify([path, params]);
  const now = useRef(() => {});
  useEffect(() => {
    if (locked) return undefined;
    const asking = repeated((signal) => read(path, params, signal), every, {
      received: (data) => setState({ data, error: null, failed: null, at: Date.now(), of }),
      failed: (error) => setState((last) => ({ ...last, error, failed: of, data: last.of === of ? last.data : null })),
    });
    now.current = asking.look;
    const seen = () => (document.hidden ? asking.rest() : every !== null && asking.look());
    document.addEventListener("visibilitychange", seen);
    asking.look();
    return () => {
      asking.end();
      now.current = () => {};
      document.removeEventListener("visibilitychange", seen);
    };
  }, [of, every, token, locked]);
  const again = useCallback(() => now.current(), []);
  const { data, at, of: answered } = state;
  const error = state.failed === of ? state.error : null;
  return { data, at, of: answered, error, stale: data !== null && answered !== of, again };
}

/** Polls: `look` sends a request now and then every so many ms; `rest` stops. */
function repeated(ask, every, { received, failed }) {
  let [under, timer] = [null, null];
  const look = async () => {
    end();
    const { signal } = (under = new AbortController());
    try {
      const data = await ask(signal);
      if (!signal.aborted) received(data);
    } catch (error) {
      if (!signal.aborted) failed(error);
    }
    if (every !== null && !document.hidden && !signal.aborted) timer = setTimeout(look, every);
  };
  const rest = () => clearTimeout(timer);
  const end = () => {
    rest();
    under?.abort();
  };
  return { look, rest, end };
}

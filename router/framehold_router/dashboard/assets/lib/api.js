/**
 * Asks this router: reads, actions, and what it wants to see first.
 *
 * The law: the admin token is in this tab's memory and session storage, and goes nowhere but into the header of requests
 * to this router. An action is sent once: of one that was not answered nobody knows whether it was done.
 */
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { limit } from "./limit.js";
import { search } from "./search.js";
import { shared } from "./signal.js";

/** Where the API is. */
export const BASE = "/api/v1/";
const KEPT = "framehold-admin-token";
/** Milliseconds after which a router that has taken a request, and says nothing, is as good as gone. */
const LIMITS = { GET: 10_000, POST: 30_000 };
/** A token that a router can have, and a header can carry. */
const TOKEN = /^[!-~]+$/;

/** Why there is no answer. `status` is 0 where the router did not answer at all; the message is fit to be shown. */
export class Trouble extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const access = shared({ token: remembered(), tokenSet: null, locked: false, asked: false });

/** A token may come in the fragment of a link that `framehold up` prints; no server sees it, and it doesn't stay. */
function remembered() {
  // A plus is one here, and no blank.
  const given = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B")).get("token");
  if (given !== null) history.replaceState(null, "", location.pathname + location.search);
  if (given === null || !TOKEN.test(given)) return kept()?.getItem(KEPT) ?? null;
  kept()?.setItem(KEPT, given);
  return given;
}

/** Where this tab keeps it; a browser may be told to keep nothing. */
function kept() {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}

/** Headers of a request to this router; `given` is a token to try. */
export function headers(given = access.get().token) {
  // With the second header the browser's own prompt for a password stays away: the page asks by itself.
  const said = { Accept: "application/json", "X-Requested-With": "framehold" };
  return given ? { ...said, Authorization: `Bearer ${given}` } : said;
}

/** Reads need a token that is not here. */
export const lock = () => access.set({ ...access.get(), locked: true });

async function ask(method, path, { params = {}, body, signal, token } = {}) {
  const more = body === undefined ? {} : { "Content-Type": "application/json" };
  const end = limit(LIMITS[method], signal);
  let response, said;
  try {
    response = await fetch(BASE + path + search(params), {
      method,
      signal: end.signal,
      headers: { ...headers(token), ...more },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    said = parsed(await response.text());
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Trouble(0, "This router doesn't answer: it may be down, or out of reach.");
  } finally {
    end.stop();
  }
  if (response.ok && said !== null) return said;
  if (response.status === 401 && method === "GET") lock();
  throw new Trouble(response.status, said?.error ?? `The router answered ${response.status}, and said nothing more.`);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** What the router says to `GET /api/v1/{path}`. Raises Trouble. */
export const read = (path, params, signal) => ask("GET", path, { params, signal });

/** Have something done; what was done, in a sentence. Raises Trouble. */
export const act = async (path) => (await ask("POST", path)).done;

/** Where a token goes. It is in the body: a URL is logged. Raises Trouble. */
export const lookup = (token) => ask("POST", "lookup", { body: { token } });

/** A part of a path, however odd. */
export const part = encodeURIComponent;

/** Learn what this router wants; whether it lets this page read. One that doesn't answer is asked all the same. */
export async function learn(signal) {
  const found = await ask("GET", "access", { signal }).catch(() => null);
  if (signal.aborted) return false;
  const now = access.get();
  const learnt = found && { tokenSet: found.token_set, locked: found.token_set && !found.token_right };
  access.set({ ...now, ...learnt, asked: true });
  return !access.get().locked;
}

/** Show this token from now on. Raises Trouble where it isn't the one. */
export async function signIn(token) {
  const right = TOKEN.test(token) && (await ask("GET", "access", { token })).token_right;
  if (!right) throw new Trouble(401, "That is not this router's admin token.");
  kept()?.setItem(KEPT, token);
  access.set({ token, tokenSet: true, locked: false, asked: true });
}

/** Forget the token. */
export function signOut() {
  kept()?.removeItem(KEPT);
  access.set({ ...access.get(), token: null, locked: access.get().tokenSet === true });
}

/**
 * `asked`: whether the router was asked what it wants; `tokenSet`: whether it has an admin token (null: not known);
 * `locked`: whether it must be shown first.
 */
export function useAccess() {
  const { token, tokenSet, locked, asked } = access.use();
  return { asked, tokenSet, locked, signedIn: Boolean(token) && !locked, signIn, signOut };
}

/**
 * What the router says to a read, and again with other parameters, and every so many ms while the page can be seen.
 * The last answer stays until the next is here, also when an asking fails (`error`). `at` is when it came, in ms; `of`
 * says which it answers, and `stale` that they are others than those that are asked for now. One asking is under way at a
 * time: a new one takes the place of the one before, whose answer would be older.
 */
export function useRead(path, params = {}, { every = null } = {}) {
  const [state, setState] = useState({ data: null, error: null, failed: null, at: null, of: null });
  const { token, locked } = access.use();
  const of = JSON.stringify([path, params]);
  const now = useRef(() => {});
  useEffect(() => {
    if (locked) return undefined;
    const asking = repeated((signal) => read(path, params, signal), every, {
      told: (data) => setState({ data, error: null, failed: null, at: Date.now(), of }),
      failed: (error) => setState((last) => ({ ...last, error, failed: of, data: last.of === of ? last.data : null })),
    });
    now.current = asking.look;
    const seen = () => (document.hidden ? asking.rest() : every !== null && asking.look());
    document.addEventListener("visibilitychange", seen);
    asking.look();
    return () => {
      asking.end();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [of, every, token, locked]);
  const again = useCallback(() => now.current(), []);
  const { data, at, of: answered } = state;
  const error = state.failed === of ? state.error : null;
  return { data, at, of: answered, error, stale: data !== null && answered !== of, again };
}

/** Asks when told to `look`, and then every so many ms, until told to `rest`. */
function repeated(ask, every, { told, failed }) {
  let [under, timer] = [null, null];
  const look = async () => {
    end();
    const { signal } = (under = new AbortController());
    try {
      const data = await ask(signal);
      if (!signal.aborted) told(data);
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

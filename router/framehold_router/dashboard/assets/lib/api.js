/**
 * Asks this router: reads, actions, and what it wants to see first.
 *
 * The law: the admin token is in this tab's memory and session storage, and goes nowhere but into the header of requests
 * to this router. An action is sent once: of one that was not answered nobody knows whether it was done.
 */
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { shared } from "./signal.js";

const BASE = "/api/v1/";
const KEPT = "framehold-admin-token";

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
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return sessionStorage.getItem(KEPT);
  sessionStorage.setItem(KEPT, given);
  history.replaceState(null, "", location.pathname + location.search);
  return given;
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
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(given).toString();
  const more = body === undefined ? {} : { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(BASE + path + (search && `?${search}`), {
      method,
      signal,
      headers: { ...headers(token), ...more },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble(0, "This router doesn't answer: it may be down, or out of reach.");
  }
  const said = await response.json().catch(() => null);
  if (response.ok && said !== null) return said;
  if (response.status === 401 && method === "GET") lock();
  throw new Trouble(response.status, said?.error ?? `The router answered ${response.status}, and said nothing more.`);
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
export async function learn() {
  const found = await ask("GET", "access").catch(() => null);
  const now = access.get();
  const learnt = found && { tokenSet: found.token_set, locked: found.token_set && !found.token_right };
  access.set({ ...now, ...learnt, asked: true });
  return !access.get().locked;
}

/** Show this token from now on. Raises Trouble where it isn't the one. */
export async function signIn(token) {
  const found = await ask("GET", "access", { token });
  if (!found.token_right) throw new Trouble(401, "That is not this router's admin token.");
  sessionStorage.setItem(KEPT, token);
  access.set({ token, tokenSet: true, locked: false, asked: true });
}

/** Forget the token. */
export function signOut() {
  sessionStorage.removeItem(KEPT);
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
 * The last answer stays until the next is here (`busy` meanwhile), also when an asking fails (`error`). `stale`: the
 * answer is to other parameters than those that are asked for now.
 */
export function useRead(path, params = {}, { every = null } = {}) {
  const [state, setState] = useState({ data: null, error: null, busy: true, at: null, of: null });
  const { token, locked } = access.use();
  const of = JSON.stringify([path, params]);
  const now = useRef(() => {});
  useEffect(() => {
    if (locked) return undefined;
    const end = new AbortController();
    let timer = null;
    const look = async () => {
      clearTimeout(timer);
      setState((last) => ({ ...last, busy: true }));
      try {
        const data = await read(path, params, end.signal);
        setState({ data, error: null, busy: false, at: Date.now(), of });
      } catch (error) {
        if (end.signal.aborted) return;
        setState((last) => ({ ...last, error, busy: false, data: last.of === of ? last.data : null }));
      }
      if (every !== null && !document.hidden && !end.signal.aborted) timer = setTimeout(look, every);
    };
    now.current = look;
    const seen = () => (document.hidden ? clearTimeout(timer) : every !== null && look());
    document.addEventListener("visibilitychange", seen);
    look();
    return () => {
      end.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [of, every, token, locked]);
  const again = useCallback(() => now.current(), []);
  return { ...state, stale: state.data !== null && state.of !== of, again };
}

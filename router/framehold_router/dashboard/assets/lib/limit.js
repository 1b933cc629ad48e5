/**
 * An abort signal that fires after a time limit, or when another signal fires, whichever is first.
 *
 * The law: after it has fired, no timer and no listener on the other signal is left.
 */

/** `signal` is the abort signal; `stop()` fires it now, `again(ms)` sets a new time limit. */
export function limit(ms, outer) {
  const own = new AbortController();
  let timer = null;
  const stop = () => {
    clearTimeout(timer);
    outer?.removeEventListener("abort", stop);
    own.abort();
  };
  const again = (later) => {
    clearTimeout(timer);
    if (!own.signal.aborted) timer = setTimeout(stop, later);
  };
  again(ms);
  outer?.addEventListener("abort", stop);
  if (outer?.aborted) stop();
  return { signal: own.signal, stop, again };
}

/** Wait until the time is up, or the signal fires. */
export const wait = (ms, outer) =>
  new Promise((done) => {
    const { signal } = limit(ms, outer);
    if (signal.aborted) done();
    else signal.addEventListener("abort", done);
  });

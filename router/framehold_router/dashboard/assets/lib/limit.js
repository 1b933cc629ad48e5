/**
 * An end that comes when time is up, or with another end, whichever is first.
 *
 * The law: when it has come nothing of it is left, neither a timer nor a listener on the other end.
 */

/** `signal` tells of it; `stop()` has it come now, `again(ms)` at another time. */
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

/** Until time is up, or that end has come. */
export const wait = (ms, outer) =>
  new Promise((done) => {
    const { signal } = limit(ms, outer);
    if (signal.aborted) done();
    else signal.addEventListener("abort", done);
  });

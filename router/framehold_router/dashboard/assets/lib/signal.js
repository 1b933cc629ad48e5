/**
 * A value that several parts of the page share; it notifies them when it changes.
 *
 * The law: a value is replaced, never modified; each listener is called once for each new value.
 */
import { useEffect, useState } from "./html.js";

/** A shared value: `get()`, `set(value)`, and `use()` for components, which are drawn again for each new value. */
export function shared(first) {
  let value = first;
  const listeners = new Set();
  const get = () => value;
  const set = (next) => {
    if (Object.is(next, value)) return;
    value = next;
    for (const listener of [...listeners]) listener();
  };
  const listen = (listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  const use = () => {
    const [, draw] = useState(0);
    useEffect(() => {
      let seen = value;
      const look = () => {
        if (Object.is(seen, value)) return;
        seen = value;
        draw((count) => count + 1);
      };
      const leave = listen(look);
      look();
      return leave;
    }, []);
    return value;
  };
  return { get, set, listen, use };
}

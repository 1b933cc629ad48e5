/**
 * Keys that act on the whole page: one alone, or `g` and then a letter.
 *
 * The law: a key that is typed into a field, or pressed with a modifier or in a dialog, is left to the browser.
 */
import { useEffect, useRef } from "./html.js";

/** Milliseconds in which the letter follows the `g`. */
const FOLLOWS = 1500;
const FIELDS = "input, textarea, select, [contenteditable]";

/** Listen for keys while the component is drawn. `actions` has a function for each key: "/" or "g n". */
export function useKeys(actions) {
  const present = useRef(actions);
  present.current = actions;
  useEffect(() => {
    let went = -FOLLOWS;
    const pressed = (event) => {
      const { key, target, timeStamp } = event;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || target.closest?.(FIELDS) || document.querySelector("dialog[open]")) return;
      const name = timeStamp - went < FOLLOWS ? `g ${key}` : key;
      went = key === "g" && name === "g" ? timeStamp : -FOLLOWS;
      const act = present.current[name];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

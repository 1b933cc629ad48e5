/** How late a node's event loop is, and whether that is too late. */
import { html } from "../lib/html.js";
import { seconds } from "../lib/words.js";

/** A lag that people feel, and one beyond which a node lease is at risk; in seconds. */
export const LATE = { warn: 0.1, bad: 1 };

/** The tone of a lag; undefined where it is as it should be. */
export const lateness = (lag) => (lag >= LATE.bad ? "bad" : lag >= LATE.warn ? "warn" : undefined);

export const Lag = ({ value }) => html`<span class=${lateness(value) && `late ${lateness(value)}`}>${seconds(value)}</span>`;

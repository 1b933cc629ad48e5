/** An instant, in full where one points at it. */
import { html } from "../lib/html.js";
import { useNow } from "../lib/live.js";
import { ago, clock, NONE } from "../lib/words.js";

const full = (at) => new Date(at * 1000).toISOString();

/** At what time: 14:03:07. */
export const At = ({ at }) => (at ? html`<time datetime=${full(at)} title=${full(at)}>${clock(at)}</time>` : NONE);

/** How long ago. */
export function Ago({ at }) {
  const now = useNow();
  return at ? html`<time datetime=${full(at)} title=${full(at)}>${ago(at, now)}</time>` : NONE;
}

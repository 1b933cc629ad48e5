/** What of its memory limit a process has. */
import { html } from "../lib/html.js";
import { bytes, NONE } from "../lib/words.js";
import { Meter } from "./bar.js";

/** Above this part of its limit a node drops frames, and above that one there is nearly no room to. */
const FULL = { warn: 0.8, bad: 0.9 };

/** In bytes. */
export function Memory({ rss, limit }) {
  if (typeof rss !== "number") return NONE;
  if (!limit) return bytes(rss);
  const part = rss / limit;
  const [whole, unit] = bytes(limit).split(" ");
  const [own, same] = bytes(rss).split(" ");
  const tone = part >= FULL.bad ? "bad" : part >= FULL.warn ? "warn" : "accent";
  return html`<span class="memory"><span>${same === unit ? own : bytes(rss)} <span class="of">of ${whole} ${unit}</span></span>
    <${Meter} value=${rss} most=${limit} tone=${tone} /></span>`;
}

/** Parts of a whole: as one bar with its legend, or as a short bar beside a number. */
import { html } from "../lib/html.js";

/** A short bar: `value` of `most`, both in the same unit. */
export const Meter = ({ value, most = 1, tone = "accent" }) => html`<span class="meter" aria-hidden="true">
  <span class=${`fill ${tone}`} style=${{ width: `${most > 0 ? Math.min(100, (100 * (value ?? 0)) / most) : 0}%` }} />
</span>`;

/** One bar of several parts: `{name, value, text, hue, means}`; `hue` is a colour of the scale, 1 to 8. `whole` is all of it. */
export function Parts({ label, parts, whole }) {
  const all = whole ?? parts.reduce((sum, { value }) => sum + value, 0);
  const width = (value) => ({ width: `${all > 0 ? (100 * value) / all : 0}%` });
  return html`<div class="parts">
    <div class="track" role="img" aria-label=${`${label}: ${parts.map(({ name, text }) => `${name} ${text}`).join(", ")}`}>
      ${parts.filter(({ value }) => value > 0).map(({ name, value, text, hue }) => html`<span class=${`hue${hue}`} style=${width(value)} title=${`${name}: ${text}`} />`)}
    </div>
    <ul class="legend">
      ${parts.map(({ name, text, hue, means }) => html`<li title=${means}><span class=${`key hue${hue}`} aria-hidden="true" />${name} <b>${text}</b></li>`)}
    </ul>
  </div>`;
}

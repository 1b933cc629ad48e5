/** How far a number is from what it should be: to the right of the middle what is too much, to the left what is too little. */
import { html } from "../lib/html.js";
import { NONE } from "../lib/words.js";

/** `value` is a part of the ideal: 0.1 is a tenth too much; `most` is where the bar ends. */
export function Divergence({ value, most }) {
  if (value === null) return NONE;
  const width = `${Math.min(50, (50 * Math.abs(value)) / most)}%`;
  return html`<span class="divergence">
    <span class="scale" aria-hidden="true"><span class=${value < 0 ? "under" : "over-ideal"} style=${{ width }} /></span>
    <span class="figure">${signed(value)}</span>
  </span>`;
}

/** A relative difference with its sign: +7.3 %, −2.0 %. */
export function signed(value) {
  const shown = (Math.abs(value) * 100).toFixed(1);
  return `${Number(shown) === 0 ? "±" : value < 0 ? "−" : "+"}${shown} %`;
}

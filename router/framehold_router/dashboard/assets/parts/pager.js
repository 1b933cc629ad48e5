/**
 * Which part of a list is shown, and the way to the others.
 *
 * The law: the list is asked for by cursors, so a page is found without counting what stands before it. The number of its
 * first row is kept beside the cursor; calls come and go meanwhile, so it is about right. A button that can't be used
 * now stays where it is and keeps the focus.
 */
import { html } from "../lib/html.js";
import { SIZES } from "../lib/paging.js";
import { number } from "../lib/words.js";

/** What is shown of how many: `from` is the number of the first, null where nobody counted. */
export function part({ from, count, total }) {
  if (count === 0) return `None of ${number(total)}`;
  if (from === null) return `${number(count)} of ${number(total)}, further on`;
  return `${number(from)}–${number(from + count - 1)} of ${number(Math.max(total, from + count - 1))}`;
}

export function Pager({ label, shown, size, onSize, first, previous, next }) {
  const choose = (event) => onSize(Number(event.currentTarget.value));
  return html`<div class="pager" role="group" aria-label=${label}>
    <p class="shown">${shown}</p>
    <label>Rows
      <select onChange=${choose}>${SIZES.map((each) => html`<option value=${each} selected=${each === size}>${each}</option>`)}</select>
    </label>
    <${Turn} label="First page" act=${first}>First</${Turn}>
    <${Turn} label="Previous page" act=${previous}>Previous</${Turn}>
    <${Turn} label="Next page" act=${next}>Next</${Turn}>
  </div>`;
}

/** `act` is null where there is no such page. */
const Turn = ({ label, act, children }) => html`<button type="button" aria-label=${label} aria-disabled=${act ? undefined : "true"} onClick=${() => act?.()}>${children}</button>`;

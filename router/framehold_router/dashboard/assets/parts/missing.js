/**
 * What was not measured: its place says so, and why.
 *
 * The law: a reason is in reach of everybody. It is in the cell for who listens or points, and below the table for who
 * looks; equal ones have one number.
 */
import { html } from "../lib/html.js";

function numberOf(why, notes) {
  if (!notes.includes(why)) notes.push(why);
  return notes.indexOf(why) + 1;
}

/**
 * The place of something without a value; `what` names it where that isn't plain. `notes` are the reasons of its table so
 * far, by their numbers: a function and no component, so that all are there before the table is drawn.
 */
export const missing = (why, notes, what = "") => html`<span class="missing" title=${why}>${what && `${what} `}not available<sup aria-hidden="true">${numberOf(why, notes)}</sup><span class="unseen">(${why})</span></span>`;

/** All of them, below their table. */
export const Reasons = ({ notes }) => notes.length > 0 && html`<ol class="reasons" aria-label="Why it is not available">${notes.map((why) => html`<li>${why}</li>`)}</ol>`;

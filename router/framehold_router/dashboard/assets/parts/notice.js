/** What stands where there is nothing to show, or something is wrong: what it is, and what to do. */
import { html } from "../lib/html.js";
import { Mark } from "./state.js";

/** There is nothing, and that is so. */
export const Empty = ({ title, children }) => html`<div class="empty"><p class="title">${title}</p>${children && html`<p>${children}</p>`}</div>`;

/** It is not here yet. */
export const Loading = ({ what = "the fleet" }) => html`<div class="empty" role="status"><p>Asking for ${what} …</p></div>`;

/** Something needs to be known, or done. */
export const Callout = ({ tone = "warn", title, children, role }) => html`<div class=${`callout ${tone}`} role=${role}>
  <${Mark} tone=${tone} />
  <div>${title && html`<p class="title">${title}</p>`}${children}</div>
</div>`;

/** An answer did not come. */
export const Problem = ({ error, again, children }) => html`<${Callout} tone="bad" role="alert" title=${title(error)}>
  <p>${error.message}</p>${children}
  ${again && html`<p><button type="button" onClick=${again}>Try again</button></p>`}
</${Callout}>`;

/** Above what an answer said, once it can't be read again (`error`). */
export const LastAnswer = ({ error, again }) => error && html`<${Problem} error=${error} again=${again}><p>What is shown is its last answer.</p></${Problem}>`;

function title({ status }) {
  if (status === 0) return "No answer";
  return status === 404 ? "Not found" : "This could not be shown";
}

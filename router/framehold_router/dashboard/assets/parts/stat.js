/** One number that matters, with its name and its unit, and a sentence below where it needs one. */
import { Link } from "../lib/address.js";
import { html } from "../lib/html.js";
import { Mark } from "./state.js";

/** `to` makes it a link to where there is more ([path, query]); `tone` says that it is more than a number. */
export function Stat({ label, value, note, tone, to, title }) {
  const inside = html`
    <dt>${label}</dt>
    <dd class="figure">${tone && tone !== "idle" && html`<${Mark} tone=${tone} />`}${value}
      ${to && html`<${Link} to=${to[0]} query=${to[1]} class="over" aria-label=${`${label}: ${value}`} />`}</dd>
    ${note && html`<dd class="note" title=${typeof note === "string" ? note : undefined}>${note}</dd>`}`;
  return html`<div class=${`stat ${tone ?? ""}`} title=${title}>
    ${inside}
  </div>`;
}

/** Several of them, in a row that wraps; `size` is "large" for the few that decide, "small" for many beside them. */
export const Stats = ({ children, label, size = "" }) => html`<dl class=${`stats ${size}`} aria-label=${label}>${children}</dl>`;

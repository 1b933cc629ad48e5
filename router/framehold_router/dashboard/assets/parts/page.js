/** The frame of a page: its heading, which is focused when one comes to it, a sentence, and what can be done. */
import { html, useEffect, useRef } from "../lib/html.js";

/** `title` is also the window's; `name` is what the heading shows, where it is more than a text. */
export function Page({ title, name = title, lead, actions, children, back }) {
  const own = useRef(null);
  useEffect(() => {
    document.title = `${title} · Framehold`;
  }, [title]);
  return html`<div class="page">
    <header class="head">
      <div>${back}<h1 ref=${own} tabindex="-1">${name}</h1>${lead && html`<p class="lead">${lead}</p>`}</div>
      ${actions && html`<div class="buttons">${actions}</div>`}
    </header>
    ${children}
  </div>`;
}

/** A part of a page with a heading of its own. */
export const Card = ({ title, note, actions, children, wide, label }) => html`<section class=${`card ${wide ? "across" : ""}`} aria-label=${label ?? title}>
  ${title && html`<header><h2>${title}</h2>${note && html`<p>${note}</p>`}${actions}</header>`}
  ${children}
</section>`;

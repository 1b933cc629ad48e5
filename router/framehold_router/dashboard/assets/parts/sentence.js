/** A text of the API as a sentence of the page: it begins with a capital, and a node that it names is a link. */
import { html } from "../lib/html.js";
import { NodeLink } from "./name.js";

/** With a capital. */
export const begun = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** With a capital, and a full stop. */
export const sentence = (text) => `${begun(text)}${/[.!?]$/.test(text) ? "" : "."}`;

/** Whether a text names a node. */
export const names = (text, node) => Boolean(node) && text.includes(node);

/** A text with the node that it names as a link to it. */
export function Named({ text, node }) {
  const place = names(text, node) ? text.indexOf(node) : -1;
  if (place < 0) return begun(text);
  const before = text.slice(0, place);
  return html`${begun(before)}<${NodeLink} id=${node} />${text.slice(place + node.length)}`;
}

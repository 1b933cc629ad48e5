/** A text of the API as a sentence of the page: it begins with a capital, and a node that it names is a link. */
import { html } from "../lib/html.js";
import { NodeLink } from "./name.js";

/** With a capital. */
export const begun = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** With a capital, and a full stop. */
export const sentence = (text) => `${begun(text)}${/[.!?]$/.test(text) ? "" : "."}`;

/** What a node's name is made of. */
const LETTER = /[\w-]/;

/** Where a text names a node, and no other whose name has this one in it; -1 if nowhere. */
function placeOf(text, node) {
  let place = node ? text.indexOf(node) : -1;
  while (place >= 0 && [place - 1, place + node.length].some((at) => LETTER.test(text.charAt(at)))) place = text.indexOf(node, place + 1);
  return place;
}

/** Whether a text names a node. */
export const names = (text, node) => placeOf(text, node) >= 0;

/** A text with the node that it names as a link to it. */
export function Named({ text, node }) {
  const place = placeOf(text, node);
  if (place < 0) return begun(text);
  const before = text.slice(0, place);
  return html`${begun(before)}<${NodeLink} id=${node} />${text.slice(place + node.length)}`;
}

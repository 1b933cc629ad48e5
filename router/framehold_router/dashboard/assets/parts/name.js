/**
 * Names as others gave them: of nodes, tools, functions.
 *
 * The law: a name is any text. It stands apart from the text round it, so that its direction is its own, and is cut where
 * it is too long; in full it is where one points at it.
 */
import { Link } from "../lib/address.js";
import { html } from "../lib/html.js";

/** A name. */
export const Name = ({ text, mono }) => html`<bdi class=${mono ? "cut mono" : "cut"} title=${text}>${text}</bdi>`;

/** A node's name, and the way to its page. */
export const NodeLink = ({ id, ...more }) => html`<${Link} to=${["nodes", id]} class="cut" title=${id} dir="auto" ...${more}>${id}</${Link}>`;

/** Nodes that did not answer, and whose part of a list is missing. */
import { html } from "../lib/html.js";
import { useLive } from "../lib/live.js";
import { number, plural } from "../lib/words.js";
import { NodeLink } from "./name.js";
import { Callout } from "./notice.js";

/** `missing` are their names; `node` is the node that alone was asked for, if any. */
export function Silent({ missing, node }) {
  const { nodes } = useLive();
  const unknown = nodes !== null && node && !nodes.some(({ node_id }) => node_id === node);
  const silent = unknown ? missing.filter((name) => name !== node) : missing;
  if (silent.length === 0) return null;
  return html`<${Callout} title=${`${plural(silent.length, "node")} did not answer`}>
    <p>Their calls are not among these:${" "}
      ${silent.slice(0, 10).map((name, n) => html`${n > 0 && ", "}<${NodeLink} id=${name} />`)}
      ${silent.length > 10 && ` and ${number(silent.length - 10)} more`}</p>
  </${Callout}>`;
}

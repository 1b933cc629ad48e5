/** What happened, the newest first: when, what, where, and what follows, in a sentence. */
import { Link } from "../lib/address.js";
import { html } from "../lib/html.js";
import { NodeLink } from "./name.js";
import { Empty } from "./notice.js";
import { Kind } from "./state.js";
import { At } from "./time.js";
import { Named, names } from "./sentence.js";

/** `of` is the node that all of them are of, where the page is about it. */
export function Events({ events, of }) {
  if (events.length === 0) {
    return html`<${Empty} title="Nothing has happened">Nodes that come and go, takeovers and what is done by hand are listed here.</${Empty}>`;
  }
  return html`<ol class="events">${events.map((event) => html`<${Event} key=${`${event.node_id} ${event.id}`} of=${of} ...${event} />`)}</ol>`;
}

function Event({ at, kind, node_id, call, tool, text, of }) {
  return html`<li>
    <${At} at=${at} /><${Kind} name=${kind} />
    <p><${Named} text=${text} node=${node_id} />${" "}
      <span class="of">
        ${node_id && node_id !== of && !names(text, node_id) && html`<${NodeLink} id=${node_id} />`}
        ${call && html`<${Link} to=${["leases"]} query=${{ call }}>call ${call}</${Link}>`}
        ${tool && html`<span>${tool}</span>`}
      </span>
    </p>
  </li>`;
}

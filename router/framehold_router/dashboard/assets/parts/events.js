/** What happened, the newest first: when, what, where, and what follows, in a sentence. */
import { Link } from "../lib/address.js";
import { html } from "../lib/html.js";
import { Empty } from "./notice.js";
import { Kind } from "./state.js";
import { At } from "./time.js";

export function Events({ events }) {
  if (events.length === 0) {
    return html`<${Empty} title="Nothing has happened">Nodes that come and go, takeovers and what is done by hand are told here.</${Empty}>`;
  }
  return html`<ol class="events">${events.map((event) => html`<${Event} key=${`${event.node_id} ${event.id}`} ...${event} />`)}</ol>`;
}

function Event({ at, kind, node_id, call, tool, text }) {
  return html`<li>
    <${At} at=${at} /><${Kind} name=${kind} />
    <p>${linked(text, node_id)}
      <span class="of">
        ${call && html`<${Link} to=${["leases"]} query=${{ call }}>call ${call}</${Link}>`}
        ${tool && html`<span>${tool}</span>`}
      </span>
    </p>
  </li>`;
}

/** A sentence, with the node that it names as a link to it; beside it where it names none. */
function linked(text, node) {
  if (!node) return text;
  const link = html`<${Link} to=${["nodes", node]}>${node}</${Link}>`;
  const place = text.indexOf(node);
  return place < 0 ? html`${text} ${link}` : html`${text.slice(0, place)}${link}${text.slice(place + node.length)}`;
}

/**
 * The rounds of a call: which node served each, the messages of the server meanwhile, what it asked, and what went over the wire.
 *
 * The law: names and messages are the server's, and are shown as text.
 */
import { html, useState } from "../lib/html.js";
import { clock, number, plural, seconds } from "../lib/words.js";
import { NodeLink } from "./name.js";
import { Mark, State } from "./state.js";
import { Empty } from "./notice.js";

const ROUTES = {
  takeover: { tone: "warn", label: "takeover", means: "Its process was gone: this node carried the call on, and entered its handler again." },
  lease: { tone: "idle", label: "by its lease", means: "Another node passed it on to the one that holds the call." },
};

/** All steps of a call. */
export function Steps({ call: { steps, dropped } }) {
  if (steps.length === 0) return html`<${Empty} title="No round yet" />`;
  return html`
    ${dropped > 0 && html`<p class="note inside">${plural(dropped, "earlier step")} no longer kept here.</p>`}
    <ol class="steps">${steps.map((step) => (step.what === "killed" ? html`<${Killed} key=${step.at} step=${step} />` : html`<${Round} key=${step.number} step=${step} />`))}</ol>`;
}

const Killed = ({ step: { node, at } }) => html`<li class="killed">
  <p class="line"><${Mark} tone="bad" /><b>You killed <bdi>${node}</bdi></b><span class="why">${clock(at)}</span></p>
</li>`;

function Round({ step }) {
  const { number: which, node, route, kept, state, took, again, progress } = step;
  const way = ROUTES[route];
  return html`<li>
    <p class="line"><b>Round ${which}</b> <${State} name=${state} />
      ${node ? html`<${NodeLink} id=${node} />` : html`<span class="why">${state === "running" ? "" : "no node named"}</span>`}
      ${way && html`<span class=${`state ${way.tone}`} title=${way.means}><${Mark} tone=${way.tone} />${way.label}</span>`}
      ${kept && html`<span class="why" title="The code that the call began with, not the present one">kept code</span>`}
      ${took !== undefined && html`<span class="took">${seconds(took)}</span>`}</p>
    ${again && html`<p class="note">${again.why} The same request was sent again ${again.times === 1 ? "once" : `${number(again.times)} times`}.</p>`}
    ${state === "running" && progress && html`<${Progress} progress=${progress} />`}
    <${Messages} step=${step} />
    ${step.replies.map((one) => html`<p class="reply" key=${one.key}><span class="asks" dir="auto">${one.message}</span> <b>${ACTIONS[one.action]}</b>${one.content && html` <code>${one.content}</code>`}</p>`)}
    ${step.sent && html`<${Wire} step=${step} />`}
  </li>`;
}

const ACTIONS = { accept: "accepted", decline: "declined", cancel: "cancelled" };

/** How far the round that runs is. */
const Progress = ({ progress: { done, total, text } }) => html`<p class="progress"><progress aria-label="Progress" max=${total} value=${total === undefined ? undefined : done} />${" "}
  <span class="why">${far({ done, total })}${text && `: ${text}`}</span></p>`;

const far = ({ done, total }) => `${number(done)}${total === undefined ? "" : ` of ${number(total)}`}`;

/** Its log messages and progress. */
function Messages({ step: { messages, missed } }) {
  if (messages.length === 0) return null;
  return html`<ul class="message-lines" aria-label="Messages of the server">
    ${missed > 0 && html`<li class="why">${plural(missed, "earlier message")} no longer kept here</li>`}
    ${messages.map((one) => html`<li class=${one.what === "log" ? one.level : "progress-line"}>
      <span class="level">${one.what === "log" ? one.level : "progress"}</span>
      <span class="words" dir="auto">${one.what === "log" ? `${one.logger ? `${one.logger}: ` : ""}${one.text}` : `${far(one)}${one.text ? `: ${one.text}` : ""}`}</span>
    </li>`)}
  </ul>`;
}

/** Both messages, written when they are wanted. */
function Wire({ step: { sent, got } }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>On the wire</summary>
    ${open && html`<p class="note">POST /mcp</p><pre class="text" tabindex="0">${sent}</pre>`}
    ${open && got && html`<p class="note">The reply</p><pre class="text" tabindex="0">${got}</pre>`}
  </details>`;
}

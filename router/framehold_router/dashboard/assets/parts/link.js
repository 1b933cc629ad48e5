/** Whether what is shown is the present: in words, which screen readers announce when they change. */
import { html } from "../lib/html.js";
import { useNow } from "../lib/live.js";
import { clock, span } from "../lib/words.js";
import { Callout } from "./notice.js";
import { Mark } from "./state.js";

const STATES = {
  connecting: { tone: "idle", label: "Connecting", means: "The stream of changes is asked for." },
  live: { tone: "good", label: "Live", means: "Changes are shown as they come." },
  polling: { tone: "warn", label: "Polling", means: "The stream doesn't come through: asked every 2 s instead." },
  paused: { tone: "idle", label: "Paused", means: "Nothing is asked while this page is hidden." },
  lost: { tone: "bad", label: "Disconnected", means: "The router doesn't answer. What is shown is old." },
  locked: { tone: "warn", label: "Signed out", means: "This router wants its admin token." },
};

export function LinkState({ link: { state, since } }) {
  useNow();
  const { tone, label, means } = STATES[state];
  return html`<p class=${`link ${tone}`} title=${means}>
    <${Mark} tone=${tone} /><span role="status">${label}</span>
    ${state === "lost" && html`<span class="for">for ${span((Date.now() - since) / 1000)}</span>`}
  </p>`;
}

/** Above each page where the router is silent: who looks at a wall sees no small word at its foot. */
export function Old({ link: { state }, heard }) {
  if (state !== "lost") return null;
  return html`<div class="old"><${Callout} tone="bad" role="alert" title="This router doesn't answer">
    <p>${heard ? `What is shown is old: it was so until ${clock(heard / 1000)}.` : "Nothing is known of the fleet yet."} It is asked again every 2 s. Look whether its process runs, and whether it can be reached from here. Nodes and calls go on without it; clients that come through it wait, or are refused.</p>
  </${Callout}></div>`;
}

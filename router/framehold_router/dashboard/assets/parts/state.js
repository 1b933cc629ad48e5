/** A state, as a word with a shape and a colour: never by colour alone. */
import { html } from "../lib/html.js";
import { KINDS, OUTCOMES, STATES, labelOf } from "../lib/words.js";

/** One shape for each tone, in a box of 10 by 10. */
const SHAPES = {
  good: html`<circle cx="5" cy="5" r="4" fill="currentColor" />`,
  idle: html`<circle cx="5" cy="5" r="3.4" fill="none" stroke="currentColor" stroke-width="1.6" />`,
  busy: html`<path d="M2.200 1v8L9 5z" fill="currentColor" />`,
  warn: html`<path d="M5 .6 9.600 9H.4z" fill="currentColor" />`,
  bad: html`<path d="M1 1h8v8H1z" fill="currentColor" />`,
};

/** The shape of a tone, where a word stands beside it. */
export const Mark = ({ tone }) => html`<svg class=${`mark ${tone}`} viewBox="0 0 10 10" aria-hidden="true">${SHAPES[tone]}</svg>`;

/** A state by its name; `label` says it otherwise, and `plain` leaves its colour out. */
export function State({ name, label = labelOf(name), plain = false }) {
  const { tone: own = "idle", means } = STATES[name] ?? {};
  const tone = plain ? "idle" : own;
  return html`<span class=${`state ${tone}`} title=${means}><${Mark} tone=${tone} />${label}</span>`;
}

/** How a call ended. */
export function Outcome({ name }) {
  const { tone = "idle", label = name, means } = OUTCOMES[name] ?? {};
  return html`<span class=${`state ${tone}`} title=${means}><${Mark} tone=${tone} />${label}</span>`;
}

/** Seconds without a heartbeat that no usual FRAMEHOLD_LEASE_TTL explains. */
export const SILENT = 15;

/** The state of a node. One that says "live" and has not renewed its lease for long is late. One whose lease is not valid
 * because the store takes no writes is not heard of by the store. */
export function stateOf({ state, store, heartbeat_age: age }) {
  if (state === "lapsed" && ["full", "refuses", "silent"].includes(store)) return "unheard";
  return state === "live" && age >= SILENT ? "late" : state;
}

/** The kind of an event. */
export function Kind({ name }) {
  const { tone = "idle", label = name } = KINDS[name] ?? {};
  return html`<span class=${`state ${tone}`}><${Mark} tone=${tone} />${label}</span>`;
}

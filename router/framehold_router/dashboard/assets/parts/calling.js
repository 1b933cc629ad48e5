/**
 * The call of the playground as it stands: the round that runs, the questions that are open or the end, and below them all
 * its rounds and its journal.
 *
 * The law: when questions or the end come, their heading gets the focus, unless the user is elsewhere by then.
 */
import { Link } from "../lib/address.js";
import { part, useRead } from "../lib/api.js";
import { html, useEffect, useLayoutEffect, useRef } from "../lib/html.js";
import { forget, killed, stop } from "../lib/playing.js";
import { plural, prefix } from "../lib/words.js";
import { Journal } from "./journal.js";
import { Kill } from "./kill.js";
import { NodeLink } from "./name.js";
import { Empty, LastAnswer } from "./notice.js";
import { Card } from "./page.js";
import { Questions } from "./question.js";
import { End } from "./result.js";
import { Steps } from "./rounds.js";

const OPEN = 2_000;

/** `call` is what the playground calls, null before the first. */
export function Present({ call }) {
  if (call === null) {
    return html`<${Card} label="The call"><${Empty} title="Nothing is called yet">
      Choose what to call, fill in its form, and press Call. Its questions come here.
    </${Empty}></${Card}>`;
  }
  return html`<div class="side-by" key=${call.id}>
    <${Now} call=${call} />
    <${Card} title="Rounds" note=${`${plural(call.rounds, "round")} so far`}><${Steps} call=${call} /></${Card}>
    ${call.callId && html`<${Record} call=${call} />`}
  </div>`;
}

/** What stands first: what is awaited of whom. */
function phaseOf({ open, end, rounds }) {
  if (end !== null) return ["end", end.error ? "The call came to no result" : end.result.isError ? "The tool failed" : "The call has ended"];
  if (open === null || open.questions.length === 0) return ["runs", `Round ${rounds} runs …`];
  return [`asks ${rounds}`, open.questions.length === 1 ? "It asks" : `It asks ${open.questions.length} questions`];
}

function Now({ call }) {
  const { name, open, end, callId } = call;
  const [phase, title] = phaseOf(call);
  const own = useRef(null);
  useLayoutEffect(() => {
    const { activeElement: now } = document;
    const lost = now === document.body || now === null;
    const near = now?.id === "call" || own.current.contains(now);
    if (document.querySelector("dialog[open]") === null && (lost || (phase !== "runs" && near))) own.current.querySelector("h2").focus();
  }, [phase]);
  return html`<section class="card now" aria-label="The call" ref=${own} aria-busy=${phase === "runs" ? "true" : undefined}>
    <header><h2 tabindex="-1">${title}</h2><p class="cut" dir="auto" title=${name}>${name}</p></header>
    <p class="unseen" role="status">${title}</p>
    <div class="body">
      ${open !== null && html`<${Questions} key=${phase} questions=${open.questions} />`}
      ${end !== null && html`<${End} end=${end} />`}
      ${end?.result?.isError && callId && html`<${Raised} id=${callId} />`}
      <div class="where"><p><${Where} call=${call} /></p><div class="buttons"><${Ways} call=${call} phase=${phase} /></div></div>
    </div>
  </section>`;
}

/** Whether the node that held the call last was killed from here, and no answer was sent since. */
const wasKilled = ({ steps }) => steps.at(-1)?.what === "killed";

/** Whether the round that runs is the first after a kill, and no node has answered it yet. */
const waitsForLease = ({ steps }) => steps.at(-2)?.what === "killed" && steps.at(-1).state === "running" && !steps.at(-1).node;

function Where({ call }) {
  const { node, open, end, callId } = call;
  const id = callId && html`, call <${Link} class="mono" to=${["calls", callId]} title=${callId}>${prefix(callId)}</${Link}>`;
  if (node === null) return html`<span class="why">No response has named a node yet</span>${id}`;
  const which = html`<${NodeLink} id=${node} />`;
  if (waitsForLease(call)) return html`It waits until the lease of ${which} has run out${id}`;
  if (wasKilled(call)) return html`${which} held it${id}. Answer, and it goes on elsewhere.`;
  return html`${end ? "Ended on" : open ? "Held by" : "Last at"} ${which}${id}`;
}

function Ways({ call, phase }) {
  const leave = () => {
    forget();
    document.getElementById("call")?.focus();
  };
  return html`
    ${phase === "runs" && html`<button type="button" onClick=${stop}>Stop waiting</button>`}
    ${call.open !== null && html`<${Kill} node=${call.node} gone=${wasKilled(call)} onKilled=${killed} />`}
    <button type="button" onClick=${leave}>${call.end === null ? "Give it up" : "Clear"}</button>`;
}

/** Where an error was raised, which its client does not see. */
function Raised({ id }) {
  const { data } = useRead(`leases/${part(id)}`);
  return data?.error ? html`<p class="note">The fleet says: <code class="cut">${data.error}</code>${data.place && html`, raised at <code class="cut">${data.place}</code>`}. Its text is in the log of ${data.node_id ? html`<${NodeLink} id=${data.node_id} />` : "its node"}.</p>` : null;
}

/** What the fleet has of the call. A journal is dropped when its call ends: then it is shown as it was before. */
function Record({ call: { callId, end, rounds, open } }) {
  const { data, error, again } = useRead(`leases/${part(callId)}`, {}, { every: end === null ? OPEN : null });
  const last = useRef(null);
  if (data?.journal.length) last.current = data;
  useEffect(() => again(), [rounds, open !== null]);
  const all = html`<${Link} to=${["calls", callId]}>Its timeline</${Link}>`;
  const view = last.current ?? data;
  if (view === null) return html`<${Card} title="Journal" actions=${all}><${Empty} title=${error ? "Its record can't be read now" : "Asking for its record …"}>${error?.message}</${Empty}></${Card}>`;
  // That a record is no longer there is no news once its call has ended.
  const late = error?.status === 404 ? null : error;
  return html`<${LastAnswer} error=${late} again=${again} /><${Journal} view=${view} actions=${all} past=${end !== null} />`;
}

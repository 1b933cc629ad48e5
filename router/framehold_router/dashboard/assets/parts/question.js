/**
 * A question of a call, and the three ways to answer it: accept, decline, cancel.
 *
 * The law: an address that a server wants visited is shown whole, and is a link only to a page of the web; it opens in a
 * tab of its own that knows nothing of this one. Nothing is opened by itself.
 */
import { html, useLayoutEffect, useRef } from "../lib/html.js";
import { reply } from "../lib/playing.js";
import { fieldsOf } from "../lib/schema.js";
import { Fields, useForm } from "./form.js";
import { Callout } from "./notice.js";

const WEB = ["http:", "https:"];
const ACTIONS = { accept: "Accepted", decline: "Declined", cancel: "Cancelled" };

/** The open questions of a call. With several the answers leave together, when each has one. */
export function Questions({ questions }) {
  const left = questions.filter((one) => one.reply === null).length;
  return html`<div class="questions">
    ${questions.length > 1 && html`<p class="note" role="status">${left} of ${questions.length} still to answer. The answers leave together.</p>`}
    ${questions.map((one, n) => html`<${Question} key=${one.key} question=${one} id=${`question-${n}`} />`)}
  </div>`;
}

function Question({ question, id }) {
  const { key, method, params } = question;
  if (question.reply !== null) return html`<${Answered} question=${question} />`;
  if (method !== "elicitation/create") return html`<${Callout} tone="warn"><p>The server asks for <code>${method}</code>, which this page has not offered. It can't be answered here.</p></${Callout}>`;
  const Asks = params.mode === "url" ? Visit : Form;
  return html`<${Asks} name=${key} params=${params} id=${id} />`;
}

const Message = ({ text, id }) => html`<p class="message" id=${id} dir="auto">${typeof text === "string" ? text : ""}</p>`;

/** Answered, while others are not. Its form had the focus, and is gone. */
function Answered({ question: { key, params, reply: { action } } }) {
  const own = useRef(null);
  useTaking(own);
  return html`<div class="question answered" ref=${own}>
    <${Message} text=${params.message} />
    <p><b>${ACTIONS[action]}</b> <button type="button" class="quiet" onClick=${() => reply(key, null)}>Change</button></p>
  </div>`;
}

/** Takes the focus that was lost with what stood here before, for the first control of an element: before anything is
 *  painted, so that no key is lost. */
function useTaking(own) {
  useLayoutEffect(() => {
    if (document.activeElement === document.body) own.current.querySelector("input, select, textarea, button").focus();
  }, []);
}

const Others = ({ name }) => html`
  <button type="button" onClick=${() => reply(name, { action: "decline" })}>Decline</button>
  <button type="button" onClick=${() => reply(name, { action: "cancel" })}>Cancel</button>`;

function Form({ name, params, id }) {
  const form = useForm(fieldsOf(params.requestedSchema));
  const own = useRef(null);
  useTaking(own);
  const accept = (event) => {
    event.preventDefault();
    const content = form.read();
    if (content !== null) reply(name, { action: "accept", content });
  };
  return html`<form class="question" ref=${own} novalidate aria-labelledby=${id} onSubmit=${accept}>
    <${Message} id=${id} text=${params.message} />
    <${Fields} form=${form} id=${id} />
    <div class="buttons"><button type="submit" class="act">Accept</button><${Others} name=${name} /></div>
  </form>`;
}

function Visit({ name, params: { message, url }, id }) {
  const text = String(url);
  const web = URL.canParse(text) && WEB.includes(new URL(text).protocol);
  return html`<div class="question" role="group" aria-labelledby=${id}>
    <${Message} id=${id} text=${message} />
    <p>It wants you to visit${" "}
      ${web ? html`<a class="address" href=${text} target="_blank" rel="noopener noreferrer">${text}<span class="unseen"> (opens in a new tab)</span></a>` : html`<code class="address">${text}</code>`}</p>
    ${web ? html`<p class="note">The address is the server's. Look at it before you open it. Accept when you have been there, or mean to go.</p>` : html`<p class="note">This is no address of the web, so it is no link.</p>`}
    <div class="buttons"><button type="button" class="act" onClick=${() => reply(name, { action: "accept" })}>Accept</button><${Others} name=${name} /></div>
  </div>`;
}

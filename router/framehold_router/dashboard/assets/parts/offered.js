/** What a fleet serves: tools, prompts, resources and templates; one of them is chosen, and called with the form of its schema. */
import { html, useCallback, useEffect, useState } from "../lib/html.js";
import { KINDS, offered } from "../lib/mcp.js";
import { begin } from "../lib/playing.js";
import { fieldOf, fieldsOf } from "../lib/schema.js";
import { expanded, variables } from "../lib/template.js";
import { number } from "../lib/words.js";
import { Fields, useForm } from "./form.js";
import { Empty } from "./notice.js";
import { Card } from "./page.js";

const LABELS = { tool: ["Tool", "Tools"], prompt: ["Prompt", "Prompts"], resource: ["Resource", "Resources"], template: ["Template", "Templates"] };

/** What is served, asked for once, and again by `again`. */
export function useOffered() {
  const [state, setState] = useState({ data: null, error: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const asking = new AbortController();
    offered(asking.signal).then(
      (data) => asking.signal.aborted || setState({ data, error: null }),
      (error) => asking.signal.aborted || setState((last) => ({ ...last, error })),
    );
    return () => asking.abort();
  }, [turn]);
  const again = useCallback(() => setTurn((last) => last + 1), []);
  return { ...state, again };
}

const nameOf = { tool: (one) => one.name, prompt: (one) => one.name, resource: (one) => one.uri, template: (one) => one.uriTemplate };

const asText = (name, about, required) => fieldOf(name, { type: "string", ...about }, required);

/** The fields of one, and the request that their values make. */
const SHAPES = {
  tool: { fields: (one) => fieldsOf(one.inputSchema), params: (one, values) => ({ name: one.name, arguments: values }), schema: (one) => one.inputSchema },
  prompt: { fields: (one) => (one.arguments ?? []).map(({ name, title, description, required }) => asText(name, { title, description }, Boolean(required))), params: (one, values) => ({ name: one.name, arguments: values }) },
  resource: { fields: () => [], params: (one) => ({ uri: one.uri }) },
  template: { fields: (one) => variables(one.uriTemplate).map(({ name, required }) => asText(name, {}, required)), params: (one, values) => ({ uri: expanded(one.uriTemplate, values) }) },
};

/** The choice, and the form of what is chosen. `kind` and `name` are what the address has. */
export function Choose({ offered: all, kind: wanted, name, onChoose, again, call }) {
  const kinds = Object.keys(KINDS).filter((one) => all[one].length > 0);
  if (kinds.length === 0) {
    return html`<${Card} label="What is served"><${Empty} title="This server shows nothing that can be called">
      It may show its tools only to users that it knows. <button type="button" onClick=${again}>Refresh the list</button>
    </${Empty}></${Card}>`;
  }
  const kind = kinds.includes(wanted) ? wanted : kinds[0];
  const chosen = all[kind].find((one) => nameOf[kind](one) === name) ?? all[kind][0];
  const reload = html`<button type="button" class="quiet" onClick=${again} title="Ask the server again what it has">Refresh the list</button>`;
  return html`<${Card} title="What to call" actions=${reload}><div class="body">
    ${kinds.length > 1 && html`<div class="toggles" role="group" aria-label="Kind">${kinds.map((one) => html`<button type="button" key=${one} class="toggle" aria-pressed=${one === kind ? "true" : "false"} onClick=${() => onChoose(one)}>${LABELS[one][1]} ${number(all[one].length)}</button>`)}</div>`}
    <div class="asked"><label for="what-to-call">${LABELS[kind][0]}</label>
      <select id="what-to-call" onChange=${(event) => onChoose(kind, event.currentTarget.value)}>
        ${all[kind].map((one) => html`<option key=${nameOf[kind](one)} value=${nameOf[kind](one)} selected=${one === chosen}>${titled(kind, one)}</option>`)}
      </select></div>
    <${One} key=${`${kind} ${nameOf[kind](chosen)} ${JSON.stringify(chosen.inputSchema ?? null)}`} kind=${kind} one=${chosen} call=${call} />
  </div></${Card}>`;
}

function titled(kind, one) {
  const [name, title] = [nameOf[kind](one), one.title ?? one.annotations?.title ?? (kind === "resource" || kind === "template" ? one.name : "")];
  return title && title !== name ? `${title} (${name})` : name;
}

function One({ kind, one, call }) {
  const { fields, params, schema } = SHAPES[kind];
  const form = useForm(fields(one));
  const start = (event) => {
    event.preventDefault();
    const values = form.read();
    if (values !== null) begin(kind, nameOf[kind](one), params(one, values), schema?.(one));
  };
  const open = call !== null && call.end === null;
  return html`<form class="calls" novalidate onSubmit=${start}>
    ${one.description && html`<p class="message" dir="auto">${one.description}</p>`}
    ${form.fields.length === 0 && html`<p class="note">It takes no arguments.</p>`}
    <${Fields} form=${form} id="argument" />
    <div class="buttons"><button type="submit" class="act" id="call">Call</button></div>
    ${open && html`<p class="note">Another call is open. This page leaves it then; what it asked stays at its node until its token expires.</p>`}
  </form>`;
}

/**
 * What a call came to: the result of a tool, a prompt or a resource, or an error.
 *
 * The law: all of it is shown as text, whatever it says that it is. Images and other bytes are named, and not shown.
 */
import { html } from "../lib/html.js";
import { cut } from "../lib/playing.js";
import { bytes, plural } from "../lib/words.js";
import { Callout } from "./notice.js";

/** Parts of a result that are shown. */
const MOST = 50;

const Text = ({ children }) => html`<pre class="text" dir="auto" tabindex="0">${cut(children)}</pre>`;
const Json = ({ value }) => html`<${Text}>${JSON.stringify(value, null, 2)}</${Text}>`;

/** Bytes of a text in base64, about. */
const sized = (text) => bytes(Math.floor((String(text ?? "").length * 3) / 4));

/** One block of content. */
function Block({ block }) {
  const { type } = block ?? {};
  if (type === "text") return html`<${Text}>${String(block.text)}</${Text}>`;
  if (type === "image" || type === "audio") return html`<p class="note">${type}: ${block.mimeType}, ${sized(block.data)}; not shown</p>`;
  if (type === "resource_link") return html`<p>A link to <code class="cut">${block.uri}</code></p>`;
  if (type === "resource") return html`<${Contents} contents=${[block.resource]} />`;
  return html`<${Json} value=${block} />`;
}

/** The first of a list, and how many there are more. */
const first = (items, draw) => html`${items.slice(0, MOST).map(draw)}${items.length > MOST && html`<p class="note">${plural(items.length - MOST, "more part")} not shown</p>`}`;

const Contents = ({ contents }) => first(contents, (one) => html`<div class="content">
  <p class="note"><code class="cut">${one?.uri}</code>${one?.mimeType && ` ${one.mimeType}`}${one?.blob !== undefined && `, ${sized(one.blob)}; not shown`}</p>
  ${one?.text !== undefined && html`<${Text}>${String(one.text)}</${Text}>`}
</div>`);

const Messages = ({ messages }) => first(messages, (one) => html`<div class="content"><p class="note">${one?.role}</p><${Block} block=${one?.content} /></div>`);

const list = (value) => (Array.isArray(value) ? value : []);

function Body({ result }) {
  const { content, structuredContent, messages, contents } = result;
  if (Array.isArray(messages)) return html`<${Messages} messages=${messages} />`;
  if (Array.isArray(contents)) return html`<${Contents} contents=${contents} />`;
  return html`
    ${first(list(content), (block) => html`<${Block} block=${block} />`)}
    ${structuredContent !== undefined && html`<details><summary>Structured content</summary><${Json} value=${structuredContent} /></details>`}
    ${list(content).length === 0 && structuredContent === undefined && html`<p class="note">It has no content.</p>`}`;
}

/** The end of a call. */
export function End({ end: { result, error } }) {
  if (error) return html`<${Callout} tone="bad" title="The call came to no result"><p>${error.message}</p>${error.code !== null && error.code !== undefined && html`<p class="note">JSON-RPC error ${error.code}</p>`}</${Callout}>`;
  if (result.isError) return html`<${Callout} tone="bad" title="The tool reports an error"><${Body} result=${result} /></${Callout}>`;
  return html`<div class="content"><${Body} result=${result} /></div>`;
}

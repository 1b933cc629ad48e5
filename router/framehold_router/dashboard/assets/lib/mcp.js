/**
 * A client of MCP, revision 2026-07-28: requests to the `/mcp` of this router. Nothing is kept between two requests.
 *
 * The law: the admin token is not sent, because the server of the tools must not see it. A request that a server may have
 * received is sent again only if it has a `requestState`: a server runs that round once, however often it arrives.
 */
import { wait } from "./limit.js";
import { messages, object } from "./messages.js";

const URL_PATH = "/mcp";
const VERSION = "2026-07-28";
const META = "io.modelcontextprotocol/";
/** What this client can be asked. */
const CAPABILITIES = { elicitation: { form: {}, url: {} } };
/** Statuses of a server, or of what stands before it, that may answer later. */
const AWAY = [502, 503, 504];
/** Milliseconds: for how long a round is tried again, the first pause, and the longest one. */
const PATIENCE = 30_000;
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 2_000;
/** Pages of a list at most. */
const PAGES = 20;
/** What can be called, by kind: the method of the call, and of the list; the key of its items there. */
export const KINDS = {
  tool: { method: "tools/call", lists: "tools/list", key: "tools", has: "tools" },
  prompt: { method: "prompts/get", lists: "prompts/list", key: "prompts", has: "prompts" },
  resource: { method: "resources/read", lists: "resources/list", key: "resources", has: "resources" },
  template: { method: "resources/read", lists: "resources/templates/list", key: "resourceTemplates", has: "resources" },
};

let last = 0;

/** The error of a request. `code` is of JSON-RPC, null without one; `away` says that the same request may succeed later,
 * `after` in how many ms at least. */
export class McpError extends Error {
  constructor(text, { code = null, away = false, after = 0 } = {}) {
    super(text);
    Object.assign(this, { code, away, after });
  }
}

/** A header's value: as it is, or in base64 where a header can't carry it. */
function carried(text) {
  if (/^[ -~]*$/.test(text) && text === text.trim() && !/^=\?base64\?.*\?=$/.test(text)) return text;
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}?=`;
}

/** Headers for the arguments whose schema has `x-mcp-header`. */
function mirrored(schema, values, found = {}) {
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    const value = values?.[name];
    const scalar = ["string", "number", "boolean"].includes(typeof value);
    if (typeof field?.["x-mcp-header"] === "string" && scalar) found[`Mcp-Param-${field["x-mcp-header"]}`] = carried(String(value));
    if (typeof value === "object") mirrored(field, value, found);
  }
  return found;
}

/** The JSON-RPC message of a request, as it is sent. */
function written(method, params) {
  const id = ++last;
  const meta = { [`${META}protocolVersion`]: VERSION, [`${META}clientInfo`]: { name: "framehold-playground", version: "1" }, [`${META}clientCapabilities`]: CAPABILITIES };
  // Log messages and progress come with the response of the round that they belong to.
  const wanted = Object.values(KINDS).some((kind) => kind.method === method) ? { [`${META}logLevel`]: "debug", progressToken: id } : {};
  return { jsonrpc: "2.0", id, method, params: { ...params, _meta: { ...meta, ...wanted } } };
}

/**
 * Send one request once; returns its result. `onSent` gets the message, `onHead` the node that answers and the way to it,
 * `onMessage` each notification, `onReply` the reply. `schema` is of the arguments. Throws McpError.
 *
 * @typedef {(what: any) => void} Watch
 * @param {string} method
 * @param {any} params
 * @param {{ schema?: object, signal?: AbortSignal, onSent?: Watch, onHead?: Watch, onMessage?: Watch, onReply?: Watch }} [more]
 */
async function send(method, params, { schema, signal, onSent, onHead, onMessage, onReply } = {}) {
  const message = written(method, params);
  onSent?.(message);
  const name = params.name ?? params.uri;
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": method,
    ...(name === undefined ? {} : { "Mcp-Name": carried(name) }),
    ...mirrored(schema, params.arguments),
  };
  let response, reply;
  try {
    response = await fetch(URL_PATH, { method: "POST", headers, body: JSON.stringify(message), signal, credentials: "omit" });
    onHead?.(headOf(response));
    reply = await read(response, onMessage);
  } catch {
    if (signal?.aborted) throw new McpError("You stopped it. Its request was cancelled.");
    throw new McpError("The connection broke before the answer was there.", { away: true });
  }
  onReply?.(reply ?? { status: response.status });
  if (reply?.result) return reply.result;
  throw refusal(response, reply?.error);
}

const headOf = ({ headers }) => ({ node: headers.get("framehold-node"), route: headers.get("framehold-route"), kept: headers.get("framehold-code") === "kept" });

/** The reply of a response: its JSON, or the last message of its event stream; null if it has none. */
async function read(response, onMessage) {
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return object(await response.text());
  for await (const batch of messages(response.body)) {
    for (const { data } of batch) {
      if (data.method === undefined) return data;
      onMessage?.(data);
    }
  }
  throw new Error("the stream ended without a reply");
}

function refusal({ status, headers }, error) {
  const asked = Number(headers.get("Retry-After")) || Number(error?.data?.retryAfter) || 0;
  const away = AWAY.includes(status) || Number.isFinite(error?.data?.retryAfter);
  if (status === 401 || status === 403) return new McpError(`The server refuses this page (${status}): ${error?.message ?? "it wants its users to sign in, which this page can't do"}`, { code: error?.code });
  return new McpError(error?.message ?? `The server answered ${status}, and gave no reason.`, { code: error?.code ?? null, away, after: asked * 1000 });
}

/** Send one round of a call; one with a `requestState` is sent again while its server is away. `onAgain` gets why. Options
 * as for `send`. Throws McpError. */
export async function round(method, params, { onAgain, ...options }) {
  const end = performance.now() + PATIENCE;
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    try {
      return await send(method, params, options);
    } catch (error) {
      const before = Math.max(pause, error.after);
      if (options.signal.aborted || !error.away || !params.requestState || performance.now() + before > end) throw error;
      onAgain?.(error.message);
      await wait(before, options.signal);
    }
  }
}

/** All that the server has, by kind. Throws McpError. */
export async function offered(signal) {
  const { capabilities = {} } = await send("server/discover", {}, { signal });
  const kinds = Object.entries(KINDS);
  const lists = await Promise.all(kinds.map(([, { lists: method, key, has }]) => (capabilities[has] ? listed(method, key, signal) : [])));
  return Object.fromEntries(kinds.map(([kind], n) => [kind, lists[n]]));
}

async function listed(method, key, signal) {
  const found = [];
  let cursor;
  for (let page = 0; page < PAGES; page += 1) {
    const answer = await send(method, cursor === undefined ? {} : { cursor }, { signal });
    found.push(...(Array.isArray(answer[key]) ? answer[key] : []));
    cursor = answer.nextCursor;
    if (typeof cursor !== "string") break;
  }
  return found;
}

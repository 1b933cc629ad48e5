/**
 * A list as a file.
 *
 * The law: it is fetched as every other read, with the admin token in its header, and saved by the browser: a plain link
 * would bring no token, and a URL may hold none. Where a page says that it lacks something, so is said of the file.
 */
import { decoded } from "../lib/address.js";
import { BASE, headers, lock } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { search } from "../lib/search.js";
import { number } from "../lib/words.js";
import { Name } from "./name.js";

const KINDS = { csv: "text/csv", json: "application/json" };

/** Where the file is, for as long as the browser needs to take it up. */
const KEPT = 10_000;

/** Of so many nodes that did not answer the names are shown. */
const NAMED = 5;

async function answered(url, kind) {
  const response = await fetch(url, { headers: { ...headers(), Accept: KINDS[kind] } });
  if (response.status === 401) lock();
  if (response.ok) return response;
  const reply = await response.json().catch(() => null);
  throw new Error(reply?.error ?? `The router answered ${response.status}.`);
}

/**
 * A list to its end: one that comes in pages is asked for page after page, and `tell` hears how many there are. `missing`
 * are the nodes that did not answer to some page, `stale` says that the store could not be read for one.
 */
async function fetched(path, params, kind, tell) {
  const place = (after) => BASE + path + search({ ...params, format: kind === "csv" ? "csv" : null, after });
  const [read, whole] = kind === "csv" ? [table, tables] : [document_, documents];
  const pages = [];
  let [count, after] = [0, null];
  do {
    const page = await read(await answered(place(after), kind));
    pages.push(page);
    [count, after] = [count + page.count, page.next];
    if (after) tell(count);
  } while (after);
  const lacks = { missing: [...new Set(pages.flatMap(({ missing }) => missing))].sort(), stale: pages.some(({ stale }) => stale) };
  return { ...lacks, file: new Blob([whole(pages.map(({ body }) => body), lacks)], { type: KINDS[kind] }) };
}

/** A page of CSV; headers say where the next one is, and what it lacks. */
async function table(response) {
  const body = await response.text();
  const [, next] = /<([^>]+)>; rel="next"/.exec(response.headers.get("Link") ?? "") ?? [];
  const missing = response.headers.get("Missing-Nodes")?.split(",").map(decoded) ?? [];
  return { body, missing, stale: response.headers.has("Stale"), count: body.split("\r\n").length - 2, next: next && new URL(next, location.href).searchParams.get("after") };
}

/** The heads of columns stand once, above all. */
const tables = (pages) => pages.map((page, n) => (n === 0 ? page : page.slice(page.indexOf("\r\n") + 2))).join("");

async function document_(response) {
  const body = await response.json();
  return { body, missing: body.missing ?? [], stale: body.stale === true, count: body.items?.length ?? 0, next: body.next };
}

function documents(pages, { missing, stale }) {
  const [first, ...others] = pages;
  if (others.length === 0) return JSON.stringify(first);
  const lacks = { ...(first.missing && { missing }), ...("stale" in first && { stale }) };
  return JSON.stringify({ ...first, items: pages.flatMap(({ items }) => items), next: null, ...lacks });
}

/** Save what the router says to a read as `{name}-{when}.{kind}`. Returns what it lacks. */
async function download(path, params, name, kind, tell) {
  const { file, ...lacks } = await fetched(path, params, kind, tell);
  const url = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name}-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}Z.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT);
  return lacks;
}

const Lacks = ({ missing, stale }) => html`
  ${missing.length > 0 && html`Not whole: ${missing.slice(0, NAMED).map((name, n) => html`${n > 0 && ", "}<${Name} text=${name} />`)}${missing.length > NAMED && ` and ${number(missing.length - NAMED)} more`} did not answer.${" "}`}
  ${stale && "Not whole: the store can't be read, so calls that ended since it last could may be missing."}`;

/** Two buttons: the list at `path` with `params` as CSV, and as JSON. `what` names it. */
export function Downloads({ path, params = {}, name = `framehold-${path}`, what = path }) {
  const [message, setMessage] = useState(/** @type {import("preact").ComponentChild} */ (""));
  const save = async (kind) => {
    setMessage("");
    try {
      const lacks = await download(path, params, name, kind, (count) => setMessage(`${number(count)} read …`));
      setMessage(html`<${Lacks} ...${lacks} />`);
    } catch (error) {
      setMessage(`Not saved: ${error instanceof TypeError ? "this router doesn't answer" : error.message}`);
    }
  };
  return html`<span class="downloads" role="group" aria-label=${`Save ${what}`}>
    <span role="status" class="problem">${message}</span>
    <button type="button" onClick=${() => save("csv")} aria-label=${`Save ${what} as CSV`} title=${`Save ${what} as a table for spreadsheets`}>CSV</button>
    <button type="button" onClick=${() => save("json")} aria-label=${`Save ${what} as JSON`} title=${`Save ${what} as the API tells them`}>JSON</button>
  </span>`;
}

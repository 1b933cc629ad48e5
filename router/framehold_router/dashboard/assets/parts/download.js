/**
 * A list as a file.
 *
 * The law: it is fetched as every other read, with the admin token in its header, and saved by the browser: a plain link
 * would bring no token, and a URL may hold none.
 */
import { BASE, headers, lock } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { search } from "../lib/search.js";
import { number } from "../lib/words.js";

const KINDS = { csv: "text/csv", json: "application/json" };

/** Where the file is, for as long as the browser needs to take it up. */
const KEPT = 10_000;

async function answered(url, kind) {
  const response = await fetch(url, { headers: { ...headers(), Accept: KINDS[kind] } });
  if (response.status === 401) lock();
  if (response.ok) return response;
  const reply = await response.json().catch(() => null);
  throw new Error(reply?.error ?? `The router answered ${response.status}.`);
}

/** A list to its end: one that comes in pages is asked for page after page, and `tell` hears how many there are. */
async function fetched(path, params, kind, tell) {
  const place = (after) => BASE + path + search({ ...params, format: kind === "csv" ? "csv" : null, after });
  const [read, whole] = kind === "csv" ? [table, tables] : [document_, documents];
  const pages = [];
  let [count, after] = [0, null];
  do {
    const page = await read(await answered(place(after), kind));
    pages.push(page.body);
    [count, after] = [count + page.count, page.next];
    if (after) tell(count);
  } while (after);
  return new Blob([whole(pages)], { type: KINDS[kind] });
}

/** A page of CSV; where it has a next one a header says so. */
async function table(response) {
  const body = await response.text();
  const [, next] = /<([^>]+)>; rel="next"/.exec(response.headers.get("Link") ?? "") ?? [];
  return { body, count: body.split("\r\n").length - 2, next: next && new URL(next, location.href).searchParams.get("after") };
}

/** The heads of columns stand once, above all. */
const tables = (pages) => pages.map((page, n) => (n === 0 ? page : page.slice(page.indexOf("\r\n") + 2))).join("");

async function document_(response) {
  const body = await response.json();
  return { body, count: body.items?.length ?? 0, next: body.next };
}

function documents(pages) {
  const [first, ...others] = pages;
  if (others.length === 0) return JSON.stringify(first);
  return JSON.stringify({ ...first, items: [first, ...others].flatMap(({ items }) => items), next: null });
}

/** Save what the router says to a read as `{name}-{when}.{kind}`. */
export async function download(path, params, name, kind, tell = () => {}) {
  const url = URL.createObjectURL(await fetched(path, params, kind, tell));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name}-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}Z.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT);
}

/** Two buttons: the list at `path` with `params` as CSV, and as JSON. `what` names it. */
export function Downloads({ path, params = {}, name = `framehold-${path}`, what = path }) {
  const [message, setMessage] = useState("");
  const save = async (kind) => {
    setMessage("");
    try {
      await download(path, params, name, kind, (count) => setMessage(`${number(count)} read …`));
      setMessage("");
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

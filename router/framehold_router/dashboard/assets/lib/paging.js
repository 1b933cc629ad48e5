/**
 * The way through a list that is asked for by cursors, a page at a time.
 *
 * The law: the place is in the address, as `after` and `from`. Only one page is ever asked for.
 */
import { setQuery } from "./address.js";
import { read } from "./api.js";
import { useEffect, useState } from "./html.js";

/** What an address says of the first page. */
export const BEGIN = { after: undefined, from: undefined };

/** How many rows a page may have. */
export const SIZES = [50, 100, 200];
const USUAL = 100;

const sizeOf = (text) => (SIZES.includes(Number(text)) ? Number(text) : USUAL);

/** The parameters with which a list is requested, from the query of the address. `filters` are the names of its filters. */
export function wanted(query, filters) {
  const names = [...filters, "sort", "descending", "after"];
  return { ...Object.fromEntries(names.map((name) => [name, query[name]])), limit: sizeOf(query.limit) };
}

const keyOf = (path, params) => JSON.stringify([path, params]);

/** Ended calls come with the newest first unless they are asked for otherwise; all other lists with the least. */
export const isDescending = (path, { descending }) => (path === "calls" ? descending !== "false" : descending === "true");

/** The cursor before that of a page, by what was asked for: of pages that were come to by Next. */
const earlier = new Map();

async function back(path, params) {
  const known = earlier.get(keyOf(path, params));
  if (known !== undefined) return known;
  // Read backwards from where this page begins: what ends that page is the cursor of the one before.
  const turned = { ...params, descending: String(!isDescending(path, params)) };
  return (await read(path, turned)).next ?? "";
}

/** The pager of a list. `path` is the list in the API, `params` is what it was asked for; `data` is its answer. */
export function usePages(path, query, params, { data, stale }) {
  const [error, setError] = useState(null);
  const size = params.limit;
  const from = query.from ? Math.max(1, Number.parseInt(query.from, 10) || 1) : params.after ? null : 1;
  const next = () => {
    earlier.set(keyOf(path, { ...params, after: data.next }), params.after ?? "");
    setQuery({ after: data.next, from: from === null ? undefined : from + data.items.length });
  };
  // It is of the page that could not be left; one that is come to by any way has none.
  useEffect(() => setError(null), [keyOf(path, params)]);
  const previous = async () => {
    setError(null);
    try {
      const after = await back(path, params);
      setQuery({ after, from: after && from !== null ? Math.max(1, from - size) : undefined });
    } catch (trouble) {
      setError(trouble);
    }
  };
  const settled = data !== null && !stale;
  return {
    error,
    from,
    size,
    first: params.after ? () => setQuery(BEGIN) : null,
    previous: settled && params.after ? previous : null,
    next: settled && data.next ? next : null,
    onSize: (limit) => setQuery({ ...BEGIN, limit: limit === USUAL ? undefined : limit }),
  };
}

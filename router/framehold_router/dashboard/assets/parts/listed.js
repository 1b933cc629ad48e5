/**
 * A list that is requested a page at a time: its rows between its pagers, and what stands there without them.
 *
 * The law: a screen reader announces how much is shown once for each filter and page, not with every answer.
 */
import { go, Link, setQuery } from "../lib/address.js";
import { html, useEffect, useState } from "../lib/html.js";
import { BEGIN } from "../lib/paging.js";
import { Callout, Empty, Loading, Problem } from "./notice.js";
import { Card } from "./page.js";
import { Pager, part } from "./pager.js";
import { Silent } from "./silent.js";

/** The number of rows above which a second pager stands below them. */
const MANY = 20;

/**
 * The list at `path`. `found` is what `useRead` gives for it, `pages` what `usePages` gives; `rows(data, stale)` draws the
 * rows of an answer.
 */
export function Listed({ path, label, query, found, pages, rows }) {
  const { data, error, again } = found;
  return html`
    ${(error ?? pages.error) && html`<${Problem} error=${error ?? pages.error} again=${error ? again : pages.previous}>
      ${error?.status === 400 && html`<p><${Link} to=${[path]}>Show all ${path}</${Link}></p>`}
    </${Problem}>`}
    ${data !== null && html`<${OnePage} label=${label} query=${query} found=${found} pages=${pages} rows=${rows} />`}
    ${data === null && !error && html`<${Loading} what=${`the ${path}`} />`}`;
}

function OnePage({ label, query, found: { data, stale, of }, pages, rows }) {
  const { items, total, missing = [] } = data;
  const shown = part({ from: pages.from, count: items.length, total });
  const [announced, setAnnounced] = useState("");
  useEffect(() => setAnnounced(`${shown} shown`), [of]);
  const pager = (name) => html`<${Pager} label=${name} shown=${shown} ...${pages} />`;
  return html`
    <p class="unseen" role="status">${announced}</p>
    <${Silent} missing=${missing} node=${query.node} />
    ${data.stale && html`<${Callout} title="The store can't be read"><p>Calls may be missing that ended since it last could.</p></${Callout}>`}
    <${Card} label=${label}>
      ${pager("Pages")}
      ${rows(data, stale)}
      ${items.length > MANY && pager("Pages, below")}
    </${Card}>`;
}

/** A button that opens the list at `path` without its filters, whose names are `filters`. */
export function DropFilters({ path, query, filters }) {
  const none = Object.fromEntries(filters.map((name) => [name, undefined]));
  return html`<button type="button" onClick=${() => go([path], { ...query, ...BEGIN, ...none })}>Drop the filters</button>`;
}

/** Stands on a page that has no rows, because the calls on it have gone since its link was made. */
export const NothingAfter = () => html`<${Empty} title="Nothing comes after"><button type="button" onClick=${() => setQuery(BEGIN)}>Go to the first page</button></${Empty}>`;

/**
 * A table. Columns are objects: `name` its head, `cell(row)` what stands in it, `number` whether it is aligned by its
 * digits, `sort` the name of an order that the head offers, `hint` what the head means, `head` whether it names the row.
 */
import { html } from "../lib/html.js";

export function Table({ label, columns, rows, keyOf, order, onOrder, empty, rowClass }) {
  return html`<div class="wide" role="region" aria-label=${label} tabindex="0">
    <table>
      <caption class="unseen">${label}</caption>
      <thead><tr>${columns.map((column) => html`<${Head} column=${column} order=${order} onOrder=${onOrder} />`)}</tr></thead>
      <tbody>
        ${rows.map((row) => html`<tr key=${keyOf(row)} class=${rowClass?.(row)}>${columns.map((column) => cell(column, row))}</tr>`)}
        ${rows.length === 0 && html`<tr class="none"><td colspan=${columns.length}>${empty}</td></tr>`}
      </tbody>
    </table>
  </div>`;
}

function cell({ number, head, cell: inside, name }, row) {
  const kind = number ? "number" : undefined;
  return head
    ? html`<th scope="row" class=${kind} data-name=${name}>${inside(row)}</th>`
    : html`<td class=${kind} data-name=${name}>${inside(row)}</td>`;
}

function Head({ column: { name, number, sort, hint }, order, onOrder }) {
  const kind = number ? "number" : undefined;
  if (!sort || !onOrder) return html`<th scope="col" class=${kind} title=${hint}>${name}</th>`;
  const here = order?.by === sort;
  const way = here ? (order.descending ? "descending" : "ascending") : undefined;
  const turn = () => onOrder({ by: sort, descending: here ? !order.descending : false });
  return html`<th scope="col" class=${kind} aria-sort=${way} title=${hint}>
    <button type="button" class="order" onClick=${turn}>${name}<span class="way" aria-hidden="true">${here ? (order.descending ? "▼" : "▲") : "↕"}</span></button>
  </th>`;
}

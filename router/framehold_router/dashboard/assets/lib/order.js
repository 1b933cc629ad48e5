/**
 * Sorts rows in the order that the URL names, for tables whose rows are all loaded.
 *
 * The law: unknown values come last in both directions; equal rows keep their order.
 */
import { setQuery, useAddress } from "./address.js";

const WORDS = new Intl.Collator("en", { numeric: true });

function compared(one, other) {
  return typeof one === "string" ? WORDS.compare(one, other) : one - other;
}

/** Rows by `value`, which gives a text or a number of each, or null. */
function ordered(rows, value, descending) {
  const way = descending ? -1 : 1;
  const known = rows.filter((row) => value(row) !== null && value(row) !== undefined);
  const others = rows.filter((row) => value(row) === null || value(row) === undefined);
  return [...known.sort((one, other) => way * compared(value(one), value(other))), ...others];
}

/** `order` and `onOrder` of a table, and `inOrder(rows)`. Columns with `sort` have `value(row)`; the first is usual. */
export function useOrder(columns) {
  const { query } = useAddress();
  const sorts = columns.filter(({ sort }) => sort);
  const column = sorts.find(({ sort }) => sort === query.sort) ?? sorts[0];
  const descending = query.descending === "true";
  const onOrder = ({ by, descending: down }) =>
    setQuery({ sort: by === sorts[0].sort ? undefined : by, descending: down || undefined });
  const inOrder = (rows) => ordered(rows, column.value, descending);
  return { order: { by: column.sort, descending }, onOrder, inOrder };
}

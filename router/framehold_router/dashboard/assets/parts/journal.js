/**
 * The journal of a call: what a replay is fed with.
 *
 * The law: values are sealed; kinds, keys and sizes are all that is known of them here.
 */
import { html } from "../lib/html.js";
import { bytes, NONE, number, plural } from "../lib/words.js";
import { Name } from "./name.js";
import { Empty } from "./notice.js";
import { Card } from "./page.js";
import { Table } from "./table.js";

const ENTRIES = [
  { name: "Entry", cell: ({ n }) => number(n) },
  { name: "Kind", cell: ({ kind }) => kind },
  { name: "Key", head: true, cell: ({ key }) => html`<${Name} text=${key} mono />` },
  { name: "Round", number: true, cell: ({ round }) => number(round) },
  { name: "Lane", hint: "Which of its parallel parts wrote it", cell: ({ lane }) => html`<${Name} text=${lane || NONE} mono />` },
  { name: "Bytes", number: true, hint: "Of its value, sealed", cell: ({ bytes: size }) => bytes(size) },
];

/** `view` is what the API says of the call; `actions` stand in the head; `past` says that the call has
 * ended since. */
export function Journal({ view: { journal, record }, actions, past = false }) {
  const ended = ["done", "lost"].includes(record);
  const why = ended ? "It was dropped when the call ended." : "Nothing was asked or recorded yet.";
  const size = journal.reduce((sum, entry) => sum + entry.bytes, 0);
  const note = journal.length && past ? "As it was before the call ended, when it was dropped." : journal.length ? `${plural(journal.length, "entry", "entries")}, ${bytes(size)} of values, which are sealed. A replay is fed with them.` : "";
  return html`<${Card} title="Journal" note=${note} actions=${actions}>
    <${Table} label="Journal" columns=${ENTRIES} rows=${journal} keyOf=${({ n }) => n} empty=${html`<${Empty} title="No journal is kept">${why}</${Empty}>`} />
  </${Card}>`;
}

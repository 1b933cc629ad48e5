/** What each option costs, and whom it harms, as a run of `framehold bench tradeoff` measured it. */
import { useRead } from "../lib/api.js";
import { html } from "../lib/html.js";
import { harmsOf, madeOf, MEANS, rowsOf } from "../lib/options.js";
import { measured, plural } from "../lib/words.js";
import { Copy } from "../parts/copy.js";
import { Downloads } from "../parts/download.js";
import { missing, Reasons } from "../parts/missing.js";
import { Name } from "../parts/name.js";
import { Empty, Loading, Problem } from "../parts/notice.js";
import { Card, Page } from "../parts/page.js";
import { State } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { begun, quoted, sentence } from "../parts/sentence.js";

const TITLE = "Trade-off";
const LEAD = "The ways to keep a call between its rounds, each under the same load and the same faults.";
/** A report changes when somebody has measured again. */
const EVERY = 30_000;

export default function Tradeoff() {
  const { data, error, again } = useRead("tradeoff", {}, { every: EVERY });
  // Where the report has gone, nothing says that what was read before is still so.
  if (error?.status === 404) return html`<${Page} title=${TITLE} lead=${LEAD}><${None} error=${error} again=${again} /></${Page}>`;
  if (data === null) return html`<${Page} title=${TITLE} lead=${LEAD}>${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} what="the trade-off" />`}</${Page}>`;
  return html`<${Page} title=${TITLE} lead=${LEAD} actions=${html`<${Downloads} path="tradeoff" what="the trade-off" />`}>
    ${error && html`<${Problem} error=${error} again=${again}><p>What is shown is the report that was read last.</p></${Problem}>`}
    <${Harms} report=${data} />
    ${data.conditions.map((condition, at) => html`<${Condition} key=${condition} report=${data} condition=${condition} first=${at === 0} />`)}
    <${Origin} report=${data} />
  </${Page}>`;
}

/** No report is no fault: what it takes to have one. */
const None = ({ error, again }) => html`<${Card} label="No report"><${Empty} title="There is no report to show">
  ${quoted(sentence(error.message))}${" "}<button type="button" onClick=${again}>Look again</button>
</${Empty}></${Card}>`;

/** Who loses a call, or lets an effect happen twice: a row for each option, a column for each condition. */
function Harms({ report }) {
  const notes = [];
  const rows = harmsOf(report).map((row) => ({ ...row, under: row.under.map((one) => done(one, notes)) }));
  const columns = [
    { name: "Option", head: true, cell: ({ option }) => html`<${Name} text=${option} />${MEANS.has(option) && html`<span class="below">${MEANS.get(option)}</span>`}` },
    { name: "Verdict", hint: "Over all conditions. An option that was not looked at everywhere is not cleared.", cell: ({ verdict }) => html`<${State} name=${verdict} />` },
    ...report.conditions.map((condition, at) => ({ name: begun(condition), hint: condition, cell: ({ under }) => under[at] })),
  ];
  return html`<${Card} title="Who loses a call, or lets an effect happen twice" note="Shares are of the calls that the fault could reach. An option that was not looked at everywhere is not cleared.">
    <div class="measured"><${Table} label="Harm by option and condition" columns=${columns} rows=${rows} keyOf=${({ option }) => option} /></div>
    <${Reasons} notes=${notes} />
  </${Card}>`;
}

/** What an option did to its callers under one condition. */
function done({ lost, repeated }, notes) {
  if (lost.missing !== undefined && lost.missing === repeated.missing) return missing(lost.missing, notes);
  const lines = [harm(lost, "lost", "calls lost", notes), harm(repeated, "repeated", "repeated effects", notes)].filter(Boolean);
  return lines.length ? lines : "none";
}

/** A harm as the share of the calls that could be hit, with the counts below it; nothing where there was none. */
function harm({ number: share, missing: why, beside }, what, name, notes) {
  if (why !== undefined) return html`<span class="line">${missing(why, notes, name)}</span>`;
  if (share === 0) return null;
  return html`<span class="line late bad">${measured(share)}\u00a0% ${what}</span>${beside && html`<span class="line">${beside}</span>`}`;
}

/** All that was measured under one condition: a line for each metric, a column for each option. */
function Condition({ report, condition, first }) {
  const notes = [];
  const rows = rowsOf(report, condition).map((row) => ({ ...row, cells: row.values.map((value) => figure(value, notes)) }));
  const columns = [
    { name: "Metric", head: true, cell: ({ label, folded }) => html`<bdi class="label">${begun(label)}</bdi>${folded && html`<span class="below">${folded}</span>`}` },
    ...report.options.map((option, at) => ({ name: option, hint: option, number: true, cell: ({ cells }) => cells[at] })),
  ];
  return html`<${Card} title=${html`<${Name} text=${begun(condition)} />`} label=${`Measured under ${condition}`} note=${first ? "nothing is disturbed" : undefined}>
    <div class="measured"><${Table} label=${`Measured under ${condition}`} columns=${columns} rows=${rows} keyOf=${({ name }) => name} /></div>
    <${Reasons} notes=${notes} />
  </${Card}>`;
}

function figure(value, notes) {
  if (value.missing !== undefined) return missing(value.missing, notes);
  const parts = value.beside || madeOf(value.parts);
  return html`${measured(value.number)}${parts && html`<span class="below">${parts}</span>`}`;
}

/** Where the figures are from, so that somebody can measure them again. */
function Origin({ report: { command, commit, started, machine, options, conditions } }) {
  const facts = Object.entries({ started, commit, ...machine }).map(([name, text]) => html`<div><dt><${Name} text=${name} /></dt><dd>${text}</dd></div>`);
  return html`<${Card} title="How it was measured" note=${`${plural(options.length, "option")} under ${plural(conditions.length, "condition")}`}>
    <dl class="facts">
      <div><dt>command</dt><dd><code>${command}</code> <${Copy} text=${command} what="the command" /></dd></div>
      ${facts}
    </dl>
  </${Card}>`;
}

/**
 * One call: what will become of it, its rounds across nodes, and what its record holds, without questions and answers.
 *
 * The law: all is read from its record and from its owner, anew while it goes on; nothing here needs its contents.
 */
import { Link } from "../lib/address.js";
import { part, useRead } from "../lib/api.js";
import { html, useMemo, useState } from "../lib/html.js";
import { useLive, useNow } from "../lib/live.js";
import { stepped } from "../lib/telling.js";
import { story } from "../lib/trail.js";
import { clock, failed, NONE, number, OUTCOMES, plural, prefix, seconds, span } from "../lib/words.js";
import { Copy } from "../parts/copy.js";
import { Journal } from "../parts/journal.js";
import { Name, NodeLink } from "../parts/name.js";
import { Callout, Empty, Loading, Problem } from "../parts/notice.js";
import { Buttons, OnCall } from "../parts/oncall.js";
import { Card, Page } from "../parts/page.js";
import { OnTool, PauseButton } from "../parts/pause.js";
import { Outcome, State } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { Timeline } from "../parts/timeline.js";
import { Ago, At } from "../parts/time.js";

const OPEN = 2_000;
const ENDED = 15_000;
const WHOLE = /^[A-Za-z0-9-]{22,36}$/;

const Back = ({ ended }) => html`<p class="back"><${Link} to=${ended ? ["calls"] : ["leases"]}>${ended ? "Calls" : "Leases"}</${Link}></p>`;

export default function Call({ about }) {
  return WHOLE.test(about) ? html`<${One} id=${about} />` : html`<${Beginning} text=${about} />`;
}

/** Not a whole id: what is likely meant. */
const Beginning = ({ text }) => html`<${Page} title="Call" back=${html`<${Back} />`}>
  <${Card}><${Empty} title=${html`<bdi class="cut mono">${text}</bdi> is no whole call id`}>
    A call's id has 22 to 36 letters, digits and hyphens; logs and tables show its first eight.${" "}
    <${Link} to=${["leases"]} query=${{ call: text.slice(0, 64) }}>Find the calls whose ids begin so</${Link}>
  </${Empty}></${Card}>
</${Page}>`;

function One({ id }) {
  const [open, setOpen] = useState(true);
  const { data, error, again } = useRead(`leases/${part(id)}`, {}, { every: open ? OPEN : ENDED });
  const [asked, setAsked] = useState(null);
  const [ofTool, setOfTool] = useState(null);
  const [done, setDone] = useState("");
  const goesOn = data === null || (["open", "released", "none"].includes(data.record) && !(data.record === "none" && data.outcome));
  if (goesOn !== open) setOpen(goesOn);
  const finished = (sentence) => {
    setAsked(null);
    setOfTool(null);
    setDone(sentence);
    again();
  };
  const call = data && { ...data, state: data.live?.state ?? "", node_id: data.live?.node_id ?? data.node_id, entries: data.journal.length };
  return html`<${Page} title=${`Call ${prefix(id)}`} name=${html`Call <span class="mono">${prefix(id)}</span>`} back=${html`<${Back} ended=${!goesOn} />`} lead=${data?.fate}
    actions=${call && html`<${PauseButton} tool=${call.tool} onAsk=${setOfTool} />${goesOn && html`<${Buttons} call=${call} onAsk=${setAsked} />`}`}>
    <div role="status">${done && html`<${Callout} tone="good"><p>${done}</p></${Callout}>`}</div>
    ${error && html`<${Unknown} error=${error} id=${id} again=${again} known=${data !== null} />`}
    ${data === null && !error && html`<${Loading} what="the call" />`}
    ${data !== null && failed(data.outcome) && html`<${Failure} view=${data} />`}
    ${data !== null && html`<${Facts} view=${data} /><${Trail} view=${data} /><${Journal} view=${data} />`}
    ${asked && call && html`<${OnCall} what=${asked} call=${call} onDone=${finished} onClose=${() => setAsked(null)} />`}
    ${ofTool && call && html`<${OnTool} what=${ofTool} tool=${call.tool} onDone=${finished} onClose=${() => setOfTool(null)} />`}
  </${Page}>`;
}

function Unknown({ error, id, again, known }) {
  if (error.status !== 404) return html`<${Problem} error=${error} again=${again} />`;
  if (known) return html`<${Callout} title="It is no longer kept"><p>Its record has expired since this page was opened. What stands here is the last that was known.</p></${Callout}>`;
  return html`<${Card}><${Empty} title="Nobody knows this call">
    It asked nothing, or it ended or expired and its record is no longer kept. Its node's log and the events name it by
    its first eight letters, <span class="mono">${prefix(id)}</span>. <${Link} to=${["leases"]} query=${{ call: prefix(id) }}>Find calls whose ids begin so</${Link}>${" "}
    <button type="button" onClick=${again}>Look again</button>
  </${Empty}></${Card}>`;
}

/** What went wrong, before all else. */
const Failure = ({ view: { outcome, error, place, node_id: node } }) => html`<${Callout} tone="bad" title=${`It ended: ${OUTCOMES[outcome].label}`}>
  ${error ? html`<p><code class="cut">${error}</code>${place && html`, raised at <code class="cut">${place}</code>`}. Its text is in the log of ${node ? html`<${NodeLink} id=${node} />` : "its node"}.</p>` : html`<p>${OUTCOMES[outcome].means}</p>`}
</${Callout}>`;

const fact = (name, value, hint) => html`<div title=${hint}><dt>${name}</dt><dd>${value}</dd></div>`;

function Facts({ view }) {
  const now = useNow();
  const { live, record, cause, created, expires } = view;
  const until = live?.expires;
  return html`<${Card} title="What it is">
    <dl class="facts many body">
      ${fact("Tool", html`<${Name} text=${view.tool} />`)}
      ${fact("Method", html`<${Name} text=${view.method || NONE} mono />`)}
      ${fact("Frame", live ? html`<span title=${live.phase}><${State} name=${live.state} /></span>` : "no node holds one")}
      ${fact("Ended", view.outcome ? html`<${Outcome} name=${view.outcome} />` : NONE, "How it ended")}
      ${fact("Record", html`<${State} name=${record} plain=${failed(view.outcome)} />${cause && cause !== view.outcome && html` <span class="why">${cause}</span>`}`)}
      ${fact("Owner", view.node_id ? html`<${NodeLink} id=${view.node_id} />` : "nobody")}
      ${fact("Re-entrant", view.reentrant ? "yes" : "no", "Whether its handler may be entered again, from its journal")}
      ${fact("Round", number(view.round), "How often it has asked")}
      ${fact("Epoch", number(view.epoch), "Raised with each change of its owner")}
      ${fact("Attempts", number(view.attempts), "How often in a row its owner died while it ran")}
      ${fact("Strategy", view.strategy)}
      ${fact("Created", created ? html`<${At} at=${created} /> <span class="why"><${Ago} at=${created} /></span>` : NONE)}
      ${fact("Token expires", until ? html`<${At} at=${until} /> <span class="why">${until > now ? `in ${span(until - now)}` : "over"}</span>` : NONE)}
      ${fact("Kept until", expires ? html`<${At} at=${expires} />` : NONE, "For late duplicates; it outlives the token")}
      ${view.trace_url && fact("Trace", html`<a href=${view.trace_url} rel="noreferrer" target="_blank">of its last round</a>`)}
      <div class="double"><dt>Call id</dt><dd><span class="mono">${view.call_id}</span> <${Copy} text=${view.call_id} what="call id" /></dd></div>
    </dl>
  </${Card}>`;
}

/** A row for each step, with what lies between it and the one before. */
const STEPS = [
  { name: "At", cell: ({ at }) => html`<${At} at=${at} />` },
  { name: "After", number: true, hint: "Since the step before", cell: ({ after }) => (after === null ? NONE : seconds(after)) },
  { name: "Step", head: true, cell: ({ sentence }) => html`<bdi>${sentence}</bdi>` },
  { name: "Node", cell: ({ node_id }) => html`<${NodeLink} id=${node_id} />` },
  { name: "Round", number: true, cell: ({ round }) => number(round) },
  { name: "Epoch", number: true, cell: ({ epoch, moved }) => html`<span class=${moved ? "soon" : undefined}>${number(epoch)}</span>` },
  { name: "Ran", number: true, hint: "For how long the round that ended here had run", cell: ({ ran }) => (ran > 0 ? seconds(ran) : NONE) },
];

function Trail({ view }) {
  const { events, departed } = useLive();
  const now = useNow();
  const own = useMemo(() => events.filter(({ call, kind }) => call === prefix(view.call_id) || kind === "node_lost"), [events, view.call_id]);
  const goesOn = ["open", "released", "none"].includes(view.record);
  const tale = useMemo(() => story(view, { events: own, departed, now }), [view, own, departed, goesOn ? now : null]);
  const rows = view.trail.map((step, n) => {
    const before = view.trail[n - 1];
    return { ...step, sentence: stepped(step, before, view.outcome), after: before ? Math.max(0, step.at - before.at) : null, moved: before && before.epoch !== step.epoch };
  });
  const note = html`${plural(rows.length, "step")} on ${plural(tale.lanes.length, "node")}. Questions and answers are sealed; sizes only.`;
  return html`<${Card} title="Timeline" note=${rows.length ? note : "Questions and answers are sealed; sizes only."}>
    ${tale.cutOff && html`<${Callout} tone="idle"><p>Its beginning is no longer here: a record keeps the newest 64 steps. The first that is left is of ${clock(rows[0].at)}.</p></${Callout}>`}
    ${tale.spans.length > 0 && html`<${Timeline} story=${tale} />`}
    <${Table} label="Steps" columns=${STEPS} rows=${rows} keyOf=${({ step, round, epoch }) => `${step} ${round} ${epoch}`}
      empty=${html`<${Empty} title="No steps are kept">${unkept(view)}</${Empty}>`} />
  </${Card}>`;
}

function unkept({ record, strategy, outcome }) {
  if (record === "none") return outcome ? "It asked nothing, or its record is no longer kept." : "It has not asked anything yet.";
  return strategy === "replay" ? "Its client keeps it, in its token." : "Its record has none.";
}

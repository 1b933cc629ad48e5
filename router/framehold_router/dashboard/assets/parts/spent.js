/** Where a node's memory goes, and its loop's time. */
import { html } from "../lib/html.js";
import { bytes, number, percent, plural, seconds, span } from "../lib/words.js";
import { Meter, Parts } from "./bar.js";
import { Name } from "./name.js";
import { Empty } from "./notice.js";
import { Table } from "./table.js";
import { At } from "./time.js";

const MEMORY = {
  "at start": { hue: 8, label: "at its start" },
  frames: { hue: 1, label: "frames" },
  other: { hue: 7, label: "other" },
};

/** The colours of the loop's parts; the order is the router's. */
const LOOP = { idle: 8, handlers: 1, Framehold: 2, "MCP SDK": 4, "JSON and pydantic": 3, "HTTP server": 7, store: 5, other: 6 };

/** A bar of parts, with marks at some places of the same scale: `{at, name}`. */
function Marked({ marks, whole, ...parts }) {
  return html`<div class="marked">
    <${Parts} ...${parts} whole=${whole} />
    ${marks.map(({ at, kind }) => html`<span key=${kind} class=${`limit ${kind}`} aria-hidden="true" style=${{ left: `${Math.min(100, (100 * at) / whole)}%` }} />`)}
  </div>`;
}

/** `memory` and `tools` as the API has them. */
export function MemorySpent({ memory, tools }) {
  if (memory === null) return html`<${Empty} title="It doesn't say">Nodes of this release do, and where the system tells what a process has in memory.</${Empty}>`;
  const { resident, limit, high } = memory;
  const marks = [...(high ? [{ at: high, kind: "high" }] : []), ...(limit ? [{ at: limit, kind: "most" }] : [])];
  const parts = memory.parts.map(({ name, bytes: value, count, estimated }) => {
    const { hue = 6, label = name } = MEMORY[name] ?? {};
    return { name: count === null ? label : `${label} (${number(count)})`, value, text: `${estimated ? "about " : ""}${bytes(value)}`, hue };
  });
  return html`<div class="spent">
    <p class="says"><b>${bytes(resident)}</b> ${limit ? `of ${bytes(limit)}, ${percent(resident / limit, 0)}` : "in memory; no limit is set"}</p>
    <${Marked} label="Memory" parts=${parts} marks=${marks} whole=${Math.max(resident, limit ?? 0) * (limit ? 1.02 : 1)} />
    ${limit && html`<p class="note">
      ${high && html`<span class="tick high" aria-hidden="true" />Above ${bytes(high)} frames of re-entrant tools are dropped, those first that were parked the longest. `}
      <span class="tick most" aria-hidden="true" />Its limit is ${bytes(limit)}.
    </p>`}
  </div>
  <div class="by-tool"><${Table} label="Frames by tool" columns=${TOOLS} rows=${tools} keyOf=${({ tool }) => tool} empty=${html`<${Empty} title="It holds no frames" />`} /></div>`;
}

const TOOLS = [
  { name: "Tool", head: true, cell: ({ tool }) => html`<${Name} text=${tool} />` },
  { name: "Frames", number: true, cell: ({ frames }) => number(frames) },
  { name: "Parked", number: true, cell: ({ parked }) => number(parked) },
  { name: "Running", number: true, cell: ({ running }) => number(running) },
  { name: "Journals", number: true, hint: "The size of their journals in the store.", cell: ({ journal_bytes: size }) => bytes(size) },
  { name: "Memory", number: true, hint: "About: each frame counts as much as any other. Unknown until the node has measured a frame, which needs a memory limit and 300 frames.", cell: ({ bytes: weight }) => (weight === null ? "–" : `≈ ${bytes(weight)}`) },
];

/** `loop` as the API has it. */
export function LoopSpent({ loop }) {
  if (loop === null) return html`<${Empty} title="It doesn't say">Nodes of this release do.</${Empty}>`;
  const { samples, parts, busy, hot, lag_p50, lag_p99, lag_max } = loop;
  if (samples === 0) return html`<${Empty} title="It begins to look">The first figures are here in a second or two.</${Empty}>`;
  const shown = parts.map(({ name, share }) => ({ name, value: share, text: percent(share), hue: LOOP[name] ?? 6 }));
  return html`<div class="spent">
    <p class="says"><b>${percent(busy)}</b> busy<span class="lag" title="By how much it was late, in the last minute">lag p50 <b>${seconds(lag_p50)}</b> p99 <b>${seconds(lag_p99)}</b> most <b>${seconds(lag_max)}</b></span></p>
    <${Parts} label="Loop time" parts=${shown} whole=${1} />
    <p class="note">A sampler in the node looks at the loop some ten times a second while this page is open, which costs it a little of its time, and ends half a minute after. So far: ${plural(samples, "look")} over ${span(loop.seconds)}.</p>
  </div>
  <div class="hottest"><${Table} label="Hottest functions" columns=${HOT} rows=${hot} keyOf=${({ where }) => where} empty=${html`<${Empty} title="It was never seen busy" />`} /></div>`;
}

/** The last time that the loop stood, whoever looked then: for how long, in what, and the stack that stood there. */
export function LastStall({ stall }) {
  if (!stall) return null;
  const { at, seconds: stood, tool, where, stack } = stall;
  return html`<div class="spent stall">
    <p class="says">It last stood for <b>${seconds(stood)}</b> at <${At} at=${at} />${tool && html`, in <${Name} text=${tool} />`}${!where && ": its process was stopped, or got no processor"}.</p>
    ${stack.length > 0 && html`<ol aria-label="What stood there, the innermost first">${stack.map((place) => html`<li><${Name} text=${place} mono /></li>`)}</ol>`}
  </div>`;
}

const HOT = [
  { name: "Hottest functions", head: true, cell: ({ where }) => html`<${Name} text=${where} mono />` },
  { name: "Of the busy time", number: true, cell: ({ share }) => html`${percent(share)}<${Meter} value=${share} />` },
];

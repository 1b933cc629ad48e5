/** Where a node's memory goes, and how its loop last stood. */
import { html } from "../lib/html.js";
import { bytes, number, percent, seconds } from "../lib/words.js";
import { Parts } from "./bar.js";
import { Name } from "./name.js";
import { Empty } from "./notice.js";
import { Table } from "./table.js";
import { At } from "./time.js";

const MEMORY = {
  "at start": { hue: 8, label: "at its start" },
  frames: { hue: 1, label: "frames" },
  other: { hue: 7, label: "other" },
};

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

/** The last time that the loop stood, whoever looked then: for how long, in what, and the stack that stood there. */
export function LastStall({ stall }) {
  if (!stall) return html`<${Empty} title="It never stood">A loop that is late by more than a second is listed here, with what stood there.</${Empty}>`;
  const { at, seconds: stood, tool, where, stack } = stall;
  return html`<div class="spent stall">
    <p class="says">It last stood for <b>${seconds(stood)}</b> at <${At} at=${at} />${tool && html`, in <${Name} text=${tool} />`}${!where && ": its process was stopped, or got no processor"}.</p>
    ${stack.length > 0 && html`<ol aria-label="What stood there, the innermost first">${stack.map((place) => html`<li><${Name} text=${place} mono /></li>`)}</ol>`}
  </div>`;
}

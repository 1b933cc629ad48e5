/**
 * Figures over time, as the routers keep them: of the fleet, of a node, or of a tool; with marks of what happened.
 *
 * The law: the range is in the address, so a link and Back keep it. Charts begin where the range begins, whenever the page
 * was opened. Where nothing is known there is a gap.
 */
import { setQuery, useAddress } from "../lib/address.js";
import { useRead } from "../lib/api.js";
import { html, useMemo, useState } from "../lib/html.js";
import { KINDS, plural, span } from "../lib/words.js";
import { Chart } from "./chart.js";
import { Events } from "./events.js";
import { Toggles } from "./filters.js";
import { Callout, LastAnswer, Loading, Problem } from "./notice.js";
import { Card } from "./page.js";
import { At } from "./time.js";

const EVERY = 10_000;
const RANGES = { "15m": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h" };
const USUAL = "1h";
/** Marks that are nearer to each other than this part of the range are one. */
const NEAR = 0.012;

/**
 * `charts` are what `Chart` takes, without samples and marks. `params` says what the figures are of: `{node}`, `{tool}`, or
 * nothing for the whole fleet.
 */
export function History({ charts, params = {} }) {
  const { query } = useAddress();
  const range = RANGES[query.range] ? query.range : USUAL;
  const { data, error, again } = useRead("history", { ...params, range }, { every: EVERY });
  const samples = useMemo(() => sampled(data), [data]);
  const ranges = Object.entries(RANGES).map(([name, label]) => ({
    label,
    on: name === range,
    title: `The last ${label}`,
    turn: () => setQuery({ range: name === USUAL ? undefined : name }),
  }));
  if (error?.status === 404) return html`<${Callout} tone="idle"><p>${error.message}</p></${Callout}>`;
  if (error && data === null) return html`<${Problem} error=${error} again=${again} />`;
  if (data === null) return html`<${Loading} what="its history" />`;
  return html`<section class="history" aria-label="History">
    <div class="ranges"><h2>Over time</h2><${Toggles} label="Time range" choices=${ranges} /></div>
    <${LastAnswer} error=${error} again=${again} />
    <${Marks} data=${data} />
    <div class="trends">${charts.map((chart) => html`<${Card} key=${chart.label} label=${`${chart.label} over time`}><${Chart} ...${chart} samples=${samples} marks=${data.marks} /></${Card}>`)}</div>
  </section>`;
}

/** A sample for each slot: its series by their names, and when the slot ends. */
function sampled(data) {
  if (data === null) return [];
  const names = Object.keys(data.series);
  const count = Math.max(0, ...names.map((name) => data.series[name].length));
  const at = (slot) => data.start + (slot + 1) * data.step;
  return Array.from({ length: count }, (_, slot) => ({ at: at(slot), ...Object.fromEntries(names.map((name) => [name, data.series[name][slot]])) }));
}

const TONES = ["bad", "warn", "good", "idle"];
const toneOf = ({ kind }) => (kind === "deployed" ? "busy" : (KINDS[kind]?.tone ?? "idle"));
const worst = (marks) => TONES.find((tone) => marks.some((mark) => toneOf(mark) === tone)) ?? "busy";

/** What happened, at its place in the range. Marks that are close are one button; it says which they are. */
function Marks({ data: { marks, start, step, series } }) {
  const [shown, setShown] = useState(null);
  const slots = Math.max(1, ...Object.values(series).map((values) => values.length));
  const whole = slots * step;
  const groups = [];
  for (const mark of marks) {
    const place = Math.min(1, Math.max(0, (mark.at - start) / whole));
    if (groups.length && place - groups.at(-1).place < NEAR) groups.at(-1).marks.push(mark);
    else groups.push({ place, marks: [mark], key: `${mark.at} ${mark.kind}` });
  }
  const open = groups.find(({ key }) => key === shown);
  if (groups.length === 0) return null;
  return html`<div class="marks">
    <ol aria-label="What happened">${groups.map(({ place, marks: here, key }) => {
      const kinds = [...new Set(here.map(({ kind }) => KINDS[kind]?.label ?? kind))].join(", ");
      const label = `${here.length > 1 ? `${plural(here.length, "event")}: ` : ""}${kinds}, ${span(start + whole - here[0].at)} ago`;
      return html`<li key=${key} style=${{ left: `${place * 100}%` }}>
        <button type="button" class=${`happened ${worst(here)}`} title=${label} aria-label=${label} aria-expanded=${key === shown ? "true" : "false"} onClick=${() => setShown(key === shown ? null : key)} />
      </li>`;
    })}</ol>
    ${open && html`<${Card} label="What happened then">
      ${open.marks.filter(({ event }) => event === null).map(({ at, text }) => html`<p class="deployed"><${At} at=${at} /> ${text}</p>`)}
      ${open.marks.some(({ event }) => event !== null) && html`<${Events} events=${open.marks.filter(({ event }) => event !== null).map(({ event }) => event)} />`}
    </${Card}>`}
  </div>`;
}

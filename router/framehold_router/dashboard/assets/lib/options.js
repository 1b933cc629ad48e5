/**
 * What the report of the trade-off says of each option: the parts of a metric as one value, and whom an option harms.
 *
 * The law: a value counts only if all its parts were measured, and an option is cleared only where it was looked at. What
 * has no value is `{ missing }`, with the reason; whatever the report measured is shown, also what has no name here.
 */
import { measured } from "./words.js";

const PLACES = ["node", "router", "store"];
const sum = (values) => values.reduce((total, value) => total + value, 0);
const most = (values) => Math.max(...values);

/** Rows, in this order: the metric's name, what it is called, and how its parts make one number. */
const METRICS = [
  { name: "calls_lost", label: "Calls lost" },
  { name: "duplicate_effects", label: "Duplicate effects" },
  { name: "calls_per_second", label: "Calls per second" },
  { name: "p50_ms", label: "Latency p50", fold: most, folded: "slowest round" },
  { name: "p99_ms", label: "Latency p99", fold: most, folded: "slowest round" },
  { name: "cpu_us", label: "CPU per call", fold: sum, folded: "node + router + store" },
  { name: "wire_bytes", label: "Sent and received", fold: sum, folded: "all rounds" },
  { name: "token_bytes", label: "Token", fold: most, folded: "largest" },
  { name: "store_ops", label: "Store operations per call" },
  { name: "bytes_per_parked_call", label: "Memory per parked call" },
  { name: "reexecutions", label: "Handler re-executions" },
  { name: "seconds_to_recover", label: "Time to recover" },
];
/** Units that a label must say; of the others its words do. */
const UNITS = { ms: "ms", s: "s", us: "µs", bytes: "bytes" };

const ROUND = /^(.+)_round_(\d+)$/;

/** Which metric a name of the report is of, and which part of it. */
function placeOf(name) {
  const round = ROUND.exec(name);
  if (round) return { metric: round[1], part: `round ${round[2]}`, at: Number(round[2]) };
  const at = PLACES.findIndex((place) => name === `cpu_us_${place}`);
  return at < 0 ? { metric: name, part: "", at: 0 } : { metric: "cpu_us", part: PLACES[at], at };
}

/** What an option did under a condition, by metric: its parts in their order. */
function grouped(report, option, condition) {
  const metrics = report.cells.find((cell) => cell.option === option && cell.condition === condition)?.metrics ?? {};
  const found = new Map();
  for (const [name, { value, unit, missing }] of Object.entries(metrics)) {
    const { metric, part, at } = placeOf(name);
    found.set(metric, [...(found.get(metric) ?? []), { part, at, value, unit, missing }].sort((one, other) => one.at - other.at));
  }
  return found;
}

function valueOf(parts, { fold }) {
  if (!parts) return { missing: "the run did not report it" };
  const gaps = parts.filter(({ missing }) => missing !== undefined);
  if (gaps.length) return { missing: [...new Set(gaps.map(({ part, missing }) => (part ? `${part}: ${missing}` : missing)))].join("; ") };
  // A metric that has no name here, and comes by round, has no number of its own.
  const number = parts.length === 1 ? parts[0].value : fold?.(parts.map(({ value }) => value));
  return { number, unit: parts[0].unit, parts };
}

/** What a value is made of: by round its numbers, else each with its name. */
export function madeOf(parts) {
  if (parts.length < 2) return "";
  if (parts.every(({ part }) => part.startsWith("round "))) return parts.map(({ value }) => measured(value)).join(" · ");
  return parts.map(({ part, value }) => `${measured(value)} ${part}`).join(" + ");
}

/** A row for each metric: its label, and a value for each option. */
export function rowsOf(report, condition) {
  const of = report.options.map((option) => grouped(report, option, condition));
  const known = new Set(METRICS.map(({ name }) => name));
  const others = [...new Set(report.cells.flatMap(({ metrics }) => Object.keys(metrics).map((name) => placeOf(name).metric)))].filter((name) => !known.has(name));
  return [...METRICS, ...others.map((name) => ({ name, label: name.replaceAll("_", " ") }))].map((metric) => {
    const values = of.map((groups) => valueOf(groups.get(metric.name), metric));
    const unit = UNITS[values.find((value) => value.unit !== undefined)?.unit];
    return { ...metric, label: unit ? `${metric.label}, ${unit}` : metric.label, values };
  });
}

/** For each option, the calls that it lost and the effects that happened twice, under each condition. */
export function harmsOf(report) {
  return report.options.map((option) => {
    const under = report.conditions.map((condition) => {
      const groups = grouped(report, option, condition);
      return { lost: valueOf(groups.get("calls_lost"), { fold: sum }), twice: valueOf(groups.get("duplicate_effects"), { fold: sum }) };
    });
    const all = under.flatMap(({ lost, twice }) => [lost, twice]);
    const harms = all.some(({ number }) => number > 0);
    const unknown = all.some(({ missing }) => missing !== undefined);
    return { option, under, verdict: harms ? "harms" : unknown ? "not known" : "harmless" };
  });
}

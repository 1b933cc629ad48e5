/**
 * The figures of each option in the trade-off report: the parts of a metric as one value, and the harm of an option.
 *
 * The law: a value counts only if all its parts were measured; "no harm" is shown only if harm was measured. A missing
 * value is `{ missing }` with the reason. Every metric of the report is shown, also one without a label here.
 */
import { measured } from "./words.js";

const PLACES = ["node", "router", "store"];
const sum = (values) => values.reduce((total, value) => total + value, 0);
const most = (values) => Math.max(...values);

/**
 * Rows, in this order: the metric's name, what it is called, and how its parts make one number: their sum by default.
 *
 * @type {{ name: string, label: string, folded?: string, fold?: (values: number[]) => number }[]}
 */
const METRICS = [
  { name: "calls_lost", label: "Calls lost" },
  { name: "lost_share", label: "Share of calls lost" },
  { name: "duplicate_effects", label: "Duplicate effects" },
  { name: "repeated_share", label: "Share with a repeated effect" },
  { name: "cpu_us", label: "CPU per call", folded: "all processes" },
  { name: "calls_per_second", label: "Calls per second" },
  { name: "wait_p50_ms", label: "Wait of a call, median" },
  { name: "wait_p99_ms", label: "Wait of a call, p99" },
  { name: "wait_longest_ms", label: "Longest wait of a call" },
  { name: "seconds_to_recover", label: "Time to recover" },
  { name: "p50_ms", label: "Latency p50", fold: most, folded: "slowest round" },
  { name: "p99_ms", label: "Latency p99", fold: most, folded: "slowest round" },
  { name: "wire_bytes", label: "Sent and received", folded: "all rounds" },
  { name: "token_bytes", label: "Token", fold: most, folded: "largest" },
  { name: "store_ops", label: "Store operations per call" },
  { name: "bytes_per_parked_call", label: "Memory per parked call" },
  { name: "reexecutions", label: "Handler re-executions" },
];
/** Units that a label must say; of the others its words do. */
const UNITS = new Map([["ms", "ms"], ["s", "s"], ["us", "µs"], ["bytes", "bytes"], ["%", "%"]]);

/** What the options are, by the names that runs give them. */
export const MEANS = new Map([
  ["H-hold", "awaits its answers; the frame is held"],
  ["H-replay", "awaits its answers; the journal is in the token"],
  ["E", "returns its questions; effects after the answers"],
  ["E naive", "returns its questions; an effect before the first"],
  ["F", "as E naive, the effect under a mark in the token"],
  ["G", "named steps, their data in the token"],
  ["A", "as E, for clients of 2025: asked on a held stream"],
]);

const KNOWN = new Set(METRICS.map(({ name }) => name));
const PART = /^(.+)_(?:round_(\d+)|(node|router|store))$/;

/** Which metric a name of the report is of, and which part of it: a round, a process, or all of it. */
function placeOf(name) {
  const [, metric, round, place] = PART.exec(name) ?? [];
  if (!KNOWN.has(metric)) return { metric: name, part: "", at: 0 };
  return round ? { metric, part: `round ${round}`, at: Number(round) } : { metric, part: place, at: PLACES.indexOf(place) };
}

/** What an option did under a condition, by metric: its parts in their order. */
function grouped(report, option, condition) {
  const metrics = report.cells.find((cell) => cell.option === option && cell.condition === condition)?.metrics ?? {};
  const found = new Map();
  for (const [name, { value, unit, missing, beside }] of Object.entries(metrics)) {
    const { metric, ...place } = placeOf(name);
    found.set(metric, [...(found.get(metric) ?? []), { ...place, value, unit, missing, beside }]);
  }
  return found;
}

/** One metric of a cell. Where it has parts they count, and not the whole beside them. `beside`: the counts of a share. */
function valueOf(found = [], fold = sum) {
  if (found.length === 0) return { missing: "the run did not report it" };
  const split = found.filter(({ part }) => part).sort((one, other) => one.at - other.at);
  const parts = split.length ? split : found;
  const gaps = parts.filter(({ missing }) => missing !== undefined);
  if (gaps.length) return { missing: [...new Set(gaps.map(({ part, missing }) => (part ? `${part}: ${missing}` : missing)))].join("; ") };
  const beside = parts.length === 1 ? parts[0].beside : "";
  return { number: fold(parts.map(({ value }) => value)), unit: parts[0].unit, parts, beside };
}

/** What a value is made of: by round its numbers, else each with its name. A line ends after a dot, or before a plus. */
export function madeOf(parts) {
  if (parts.length < 2) return "";
  if (parts.every(({ part }) => part.startsWith("round "))) return parts.map(({ value }) => measured(value)).join("\u00a0· ");
  return parts.map(({ part, value }) => `${measured(value)}\u00a0${part}`).join(" +\u00a0");
}

/** A row for each metric: its label, and a value for each option. */
export function rowsOf(report, condition) {
  const of = report.options.map((option) => grouped(report, option, condition));
  const all = report.cells.flatMap(({ metrics }) => Object.keys(metrics).map((name) => placeOf(name).metric));
  const others = [...new Set(all)].filter((name) => !KNOWN.has(name));
  /** @type {typeof METRICS} */
  const metrics = [...METRICS, ...others.map((name) => ({ name, label: name.replaceAll("_", " ") }))];
  return metrics.map((metric) => {
    const values = of.map((groups) => valueOf(groups.get(metric.name), metric.fold));
    const unit = UNITS.get(values.find((value) => value.unit !== undefined)?.unit);
    return { ...metric, label: unit ? `${metric.label}, ${unit}` : metric.label, values };
  });
}

/** For each option, the share of calls that it lost, and of those that had an effect twice, under each condition. */
export function harmsOf(report) {
  return report.options.map((option) => {
    const under = report.conditions.map((condition) => {
      const groups = grouped(report, option, condition);
      return { lost: valueOf(groups.get("lost_share")), repeated: valueOf(groups.get("repeated_share")) };
    });
    const all = under.flatMap(({ lost, repeated }) => [lost, repeated]);
    const harms = all.some(({ number }) => number > 0);
    const unknown = all.some(({ missing }) => missing !== undefined);
    return { option, under, verdict: harms ? "harms" : unknown ? "not known" : "harmless" };
  });
}

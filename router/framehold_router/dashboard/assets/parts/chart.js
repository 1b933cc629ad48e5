/**
 * Lines over time, drawn by uPlot. The newest values stand beside the heading as text, so nobody needs the picture.
 *
 * The law: it is drawn anew with each sample and never built anew, but for another size or another colour scheme.
 */
import { html, useEffect, useRef } from "../lib/html.js";
import uPlot from "uplot";

/** Steps of counts: between 0 and 1 there is nothing. */
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
const HOUR = 3600;

/** Colours of the present scheme, as the style sheet says them. */
function ink(element) {
  const probe = (name) => {
    // light-dark() is resolved by the browser where it is used, not where it is read.
    element.style.color = `var(${name})`;
    const found = getComputedStyle(element).color;
    element.style.color = "";
    return found;
  };
  return { soft: probe("--soft"), line: probe("--line"), hue: (n) => probe(`--hue${n}`) };
}

/**
 * The whole range, whatever is known of it.
 *
 * @returns {[number, number]}
 */
function within({ data }) {
  const [times] = data;
  return times.length ? [times[0], times.at(-1)] : [0, HOUR];
}

/**
 * From 0 to a little more than the greatest value; on a logarithmic axis whole powers of ten.
 *
 * @returns {(plot: object, low: number, high: number) => [number, number]}
 */
function reach(logarithmic) {
  if (!logarithmic) return (_, low, high) => [0, high > 0 ? high * 1.15 : 1];
  return (_, low, high) => (high > 0 ? [10 ** Math.floor(Math.log10(low)), 10 ** Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)] : [0.001, 1]);
}

/** On a logarithmic axis only powers of ten have a number, and a line. */
const powers = (_, splits) => splits.map((value) => (Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6 ? value : null));

/** Times as hours and minutes, with seconds where a minute is wide. */
function times(plot, splits) {
  if (!plot.data[0].length) return splits.map(() => "");
  const fine = plot.data[0].at(-1) - plot.data[0][0] < HOUR / 2 && splits[1] - splits[0] < 60;
  return splits.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: fine ? "2-digit" : undefined }));
}

/** Lines at the times of `marks`, behind the values. */
function lined(marks, color) {
  return (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = color;
    ctx.setLineDash([3, 3]);
    for (const { at } of marks()) {
      const x = Math.round(plot.valToPos(at, "x", true)) + 0.5;
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
}

/** Where nothing is known no numbers stand at the axis. */
const known = ({ data: [, ...lines] }) => lines.some((line) => line.some((value) => value !== null && value !== undefined));

/** @returns {import("uplot").Options} */
function options(element, { series, write, whole, logarithmic, marks }, { width, height }) {
  const { soft, line, hue } = ink(element);
  const size = 0.6875 * Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
  const font = `${size}px system-ui, sans-serif`;
  const axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    width,
    height,
    padding: [8, 22, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    hooks: { drawAxes: [lined(marks, soft)] },
    scales: { x: { time: true, range: within }, y: { range: reach(logarithmic), ...(logarithmic && { distr: 3 }) } },
    axes: [
      { ...axis, space: 7 * size, size: 2.4 * size, incrs: [30, 60, 120, 300, 600, 900, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR], values: times },
      { ...axis, size: 5.7 * size, space: 3.1 * size, ...(whole && { incrs: WHOLE }), ...(logarithmic && { filter: powers, grid: { ...axis.grid, filter: powers } }), values: (plot, splits) => splits.map((value) => (known(plot) && value !== null ? write(value) : "")) },
    ],
    series: [
      {},
      ...series.map(({ name, hue: n, area }) => ({
        label: name,
        stroke: hue(n),
        width: 1.8,
        points: { show: false },
        fill: area ? hue(n).replace("rgb(", "rgba(").replace(")", ", 0.12)") : undefined,
      })),
    ],
  };
}

/**
 * `samples` are objects with `at` (seconds since 1970), from the beginning of the range to its end; `series` are
 * `{name, of, hue, area}`, `of` the name of a field; `write` writes a value with its unit; `whole` says that there are no
 * halves; `marks` are objects with `at`, at which something happened. Its height is the style sheet's.
 */
export function Chart({ label, samples, series, write, whole, logarithmic, marks = [] }) {
  const own = useRef(null);
  const plot = useRef(null);
  const data = [samples.map(({ at }) => at), ...series.map(({ of }) => samples.map((sample) => sample[of] ?? null))];
  const latest = useRef(data);
  latest.current = data;
  const marked = useRef(marks);
  marked.current = marks;
  useEffect(() => {
    const element = own.current;
    const room = () => ({ width: element.clientWidth, height: element.clientHeight });
    const build = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element, { series, write, whole, logarithmic, marks: () => marked.current }, room()), latest.current, element);
    };
    const size = new ResizeObserver(() => plot.current?.setSize(room()));
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const theme = new MutationObserver(build);
    build();
    size.observe(element);
    scheme.addEventListener("change", build);
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      size.disconnect();
      theme.disconnect();
      scheme.removeEventListener("change", build);
      plot.current.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [samples]);
  const last = samples.findLast((sample) => series.some(({ of }) => sample[of] !== null && sample[of] !== undefined)) ?? {};
  return html`<figure class="chart">
    <figcaption>${label}${series.map(({ name, of, hue }) => html`<span class="now"><span class=${`key hue${hue}`} aria-hidden="true" />${name} <b>${write(last[of])}</b></span>`)}</figcaption>
    <div class="plot" ref=${own} aria-hidden="true" />
  </figure>`;
}

/**
 * Lines over time, drawn by uPlot. The newest values stand beside the heading as text, so nobody needs the picture.
 *
 * The law: it is drawn anew with each sample and never built anew, but for another size or another colour scheme.
 */
import { html, useEffect, useRef } from "../lib/html.js";
import uPlot from "uplot";

/** Steps of counts: between 0 and 1 there is nothing. */
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
/** Seconds that are shown: at first the least, in the end all that is kept. */
const [LEAST, SPAN] = [60, 600];

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

/** From the first sample to the last, a minute at least. Of one sample the library would make a day. */
function within({ data: [times] }) {
  const [first, last] = [times[0], times.at(-1)];
  return first === undefined ? [0, LEAST] : [Math.min(last - LEAST, Math.max(first, last - SPAN)), last];
}

/** Where nothing is known no numbers stand at the axis. */
const known = ({ data: [, ...lines] }) => lines.some((line) => line.some((value) => value !== null && value !== undefined));

function options(element, { series, write, whole }, { width, height }) {
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
    scales: { x: { time: true, range: within }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
    axes: [
      { ...axis, space: 7 * size, size: 2.4 * size, incrs: [20, 60, 120, 300], values: (plot, splits) => splits.map((at) => (plot.data[0].length ? new Date(at * 1000).toLocaleTimeString("en-GB") : "")) },
      { ...axis, size: 5.7 * size, space: 3.1 * size, ...(whole && { incrs: WHOLE }), values: (plot, splits) => splits.map((value) => (known(plot) ? write(value) : "")) },
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
 * `samples` are objects with `at` (seconds since 1970); `series` are `{name, of, hue, area}`, `of` the name of a field;
 * `write` writes a value with its unit; `whole` says that there are no halves. Its height is the style sheet's.
 */
export function Chart({ label, samples, series, write, whole }) {
  const own = useRef(null);
  const plot = useRef(null);
  const data = [samples.map(({ at }) => at), ...series.map(({ of }) => samples.map((sample) => sample[of] ?? null))];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = own.current;
    const room = () => ({ width: element.clientWidth, height: element.clientHeight });
    const build = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element, { series, write, whole }, room()), latest.current, element);
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
  const last = samples.at(-1) ?? {};
  return html`<figure class="chart">
    <figcaption>${label}${series.map(({ name, of, hue }) => html`<span class="now"><span class=${`key hue${hue}`} aria-hidden="true" />${name} <b>${write(last[of])}</b></span>`)}</figcaption>
    <div class="plot" ref=${own} aria-hidden="true" />
  </figure>`;
}

/**
 * Lines over time, drawn by uPlot. The newest values stand beside the heading as text, so nobody needs the picture.
 *
 * The law: it is drawn anew with each sample and never built anew, but for another size or another colour scheme.
 */
import { html, useEffect, useRef } from "../lib/html.js";
import uPlot from "uplot";

const HEIGHT = 132;
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

function options(element, series, write, width, height) {
  const { soft, line, hue } = ink(element);
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    width,
    height,
    padding: [8, 22, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { time: true, range: (_, first, last) => [Math.min(last - LEAST, Math.max(first, last - SPAN)), last] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
    axes: [
      { ...axis, space: 75, size: 26, incrs: [20, 60, 120, 300], values: (_, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB")) },
      { ...axis, size: 62, space: 34, values: (_, splits) => splits.map(write) },
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
 * `write` writes a value with its unit.
 */
export function Chart({ label, samples, series, write, height = HEIGHT }) {
  const own = useRef(null);
  const plot = useRef(null);
  const data = [samples.map(({ at }) => at), ...series.map(({ of }) => samples.map((sample) => sample[of] ?? null))];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = own.current;
    const build = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element, series, write, element.clientWidth, height), latest.current, element);
    };
    const size = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
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

/** A small line of values without axes: how something went lately. The number beside it is the value now. */
import { html } from "../lib/html.js";

const [WIDTH, HEIGHT] = [72, 18];

/** `values`: null where nothing is known; there the line is broken. */
export function Spark({ values, label }) {
  const most = Math.max(...values.map((value) => value ?? 0), 1e-9);
  const step = WIDTH / Math.max(1, values.length - 1);
  let pen = false;
  const path = values.map((value, n) => {
    if (value === null) {
      pen = false;
      return "";
    }
    const to = `${pen ? "L" : "M"}${(n * step).toFixed(1)} ${(HEIGHT - 1 - (value / most) * (HEIGHT - 2)).toFixed(1)}`;
    pen = true;
    return to;
  });
  return html`<svg class="spark" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} width=${WIDTH} height=${HEIGHT} role="img" aria-label=${label}><path d=${path.join("")} /></svg>`;
}

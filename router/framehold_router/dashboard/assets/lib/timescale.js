/**
 * A time axis on which both a round of a millisecond and a wait of an hour can be seen.
 *
 * The law: it never runs backwards, and it is linear within a round and within a wait. All rounds have one scale, on which
 * each is wide enough to point at. If a wait would take more room than its share, its middle is cut out and drawn as a
 * break with its duration.
 */

const ROUND = { least: 9, most: 150 };
const WAIT = { least: 12, most: 130, room: 46 };

/**
 * `rounds` are spans `{from, to}` in which something runs, `instants` other times that need a place; both in seconds.
 * Answers `{width, x(at), breaks: [{x, width, seconds}]}` with a width of at least `wanted`.
 */
export function timescale(rounds, instants, wanted) {
  const edges = [...new Set([...rounds.flatMap(({ from, to }) => [from, to]), ...instants])].sort((one, other) => one - other);
  const segments = edges.slice(1).map((to, n) => segment(edges[n], to, rounds));
  const waits = segments.filter(({ runs }) => !runs).length;
  const most = Math.min(WAIT.most, Math.max(WAIT.room, (wanted * 0.55) / Math.max(1, waits)));
  const each = (scale) => segments.map((one) => widthOf(one, scale, most));
  const longest = Math.max(1e-6, ...segments.filter(({ runs }) => runs).map(({ seconds }) => seconds));
  const widths = filled(segments, each(fitting(each, wanted, ROUND.most / longest)), wanted, most);
  const places = [0];
  for (const width of widths) places.push(places.at(-1) + width);
  const breaks = segments.flatMap((one, n) => (broken(one, widths[n], most) ? [{ x: places[n], width: widths[n], seconds: one.seconds }] : []));
  return { width: places.at(-1), x: (at) => placed(at, edges, places), breaks };
}

function segment(from, to, rounds) {
  const middle = (from + to) / 2;
  return { from, to, seconds: to - from, runs: rounds.some((round) => round.from < middle && middle < round.to) };
}

const widthOf = ({ seconds, runs }, scale, most) => (runs ? Math.max(ROUND.least, seconds * scale) : Math.min(most, Math.max(WAIT.least, seconds * scale)));

const broken = ({ seconds, runs }, width, most) => !runs && width >= most && seconds > 0;

const sum = (widths) => widths.reduce((all, width) => all + width, 0);

/** The largest scale, in pixels a second and up to `most`, on which everything fits. */
function fitting(each, wanted, most) {
  let [low, high] = [1e-9, most];
  if (sum(each(high)) <= wanted) return high;
  for (let n = 0; n < 50; n += 1) {
    const middle = Math.sqrt(low * high);
    if (sum(each(middle)) > wanted) high = middle;
    else low = middle;
  }
  return low;
}

/** The room that is left goes to the waits that are cut; if none is cut, to all in proportion. */
function filled(segments, widths, wanted, most) {
  const left = wanted - sum(widths);
  if (left <= 0 || widths.length === 0) return widths;
  const cut = segments.map((one, n) => broken(one, widths[n], most));
  const count = cut.filter(Boolean).length;
  return count ? widths.map((width, n) => width + (cut[n] ? left / count : 0)) : widths.map((width) => (width * wanted) / sum(widths));
}

function placed(at, edges, places) {
  const after = edges.findIndex((edge) => edge >= at);
  if (after === -1) return places.at(-1);
  if (after === 0) return 0;
  const part = (at - edges[after - 1]) / (edges[after] - edges[after - 1]);
  return places[after - 1] + part * (places[after] - places[after - 1]);
}

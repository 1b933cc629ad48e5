/**
 * The rounds of a call across nodes, drawn: a lane for each node, a bar for each round, a line where it was parked, an
 * arrow where another node took it over.
 *
 * The law: each part is reached by the arrow keys, and says in a sentence what it is; the table below says it all exactly.
 */
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { described, MARKS } from "../lib/telling.js";
import { timescale } from "../lib/timescale.js";
import { clock, seconds, span as roughly } from "../lib/words.js";
import { NodeLink } from "./name.js";

const LANE = 48;
const AXIS = 26;
const SIDE = 16;
const HINT = "Point at a part, or go through them with the arrow keys.";

/** How wide an element is, as it changes. */
function useWidth(own) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const look = () => setWidth(own.current.clientWidth);
    const size = new ResizeObserver(look);
    look();
    size.observe(own.current);
    return () => size.disconnect();
  }, []);
  return width;
}

/** All that can be pointed at, in the order of time. */
const itemsOf = ({ spans, marks }) => [...spans.map((item) => ({ ...item, at: item.from })), ...marks].sort((one, other) => one.at - other.at);

/** `story` as lib/trail.js tells it. */
export function Timeline({ story }) {
  const own = useRef(null);
  const width = useWidth(own);
  const [shown, setShown] = useState(null);
  const items = itemsOf(story);
  const scale = useMemo(() => scaled(story, Math.max(320, width - 2 * SIDE)), [story, width]);
  const x = (at) => SIDE + scale.x(at);
  useEffect(() => {
    // What is new is at the right.
    own.current.scrollLeft = own.current.scrollWidth;
  }, [width > 0]);
  return html`<div class="timeline">
    <div class="lanes">
      <ul class="names" aria-label="Lanes">${story.lanes.map((node) => html`<li key=${node}><${NodeLink} id=${node} /></li>`)}</ul>
      <div class="strip" ref=${own}>${width > 0 && html`<${Drawing} story=${story} items=${items} scale=${scale} x=${x} shown=${shown} onShow=${setShown} />`}</div>
    </div>
    <p class="described" role="status">${shown !== null && items[shown] ? described(items[shown]) : html`<span class="hint">${HINT}</span>`}</p>
    <${Legend} story=${story} />
  </div>`;
}

const scaled = ({ spans, marks, begin, end }, width) => timescale(
  spans.filter(({ what }) => what === "round"),
  [begin, end, ...spans.flatMap(({ from, to }) => [from, to]), ...marks.map(({ at }) => at)],
  width,
);

/** One stop for Tab, and the arrow keys between the parts; `reach(n)` is what makes the part of a number one of them. */
function useReach(own, items, onShow) {
  const [stop, setStop] = useState(0);
  const last = items.length - 1;
  const here = Math.min(stop, last);
  const to = { ArrowRight: Math.min(last, here + 1), ArrowLeft: Math.max(0, here - 1), Home: 0, End: last };
  const move = (event) => {
    if (!(event.key in to)) return;
    event.preventDefault();
    own.current.querySelector(`[data-n="${to[event.key]}"]`)?.focus();
  };
  const focused = (n) => {
    setStop(n);
    onShow(n);
  };
  const reach = (n) => ({
    "data-n": n,
    role: "img",
    tabindex: n === here ? 0 : -1,
    "aria-label": described(items[n]),
    onFocus: () => focused(n),
    onBlur: () => onShow(null),
    onMouseEnter: () => onShow(n),
    onMouseLeave: () => onShow(null),
  });
  return [move, reach];
}

function Drawing({ story, items, scale, x, shown, onShow }) {
  const own = useRef(null);
  const [move, reach] = useReach(own, items, onShow);
  const lane = (node) => story.lanes.indexOf(node) * LANE + LANE / 2;
  const foot = story.lanes.length * LANE;
  const piece = (item, n) => html`<g key=${`${item.what} ${item.node} ${item.at}`} class=${`piece ${item.what} ${item.how ?? ""} ${shown === n ? "shown" : ""}`} ...${reach(n)}>
    ${DRAWN[item.what]({ item, x: x(item.at), end: x(item.to ?? item.at), y: lane(item.node), fromY: lane(item.from_node) })}
  </g>`;
  const drawn = items.map((item, n) => ({ above: item.to === undefined, part: piece(item, n) }));
  return html`<svg ref=${own} width=${scale.width + 2 * SIDE} height=${foot + AXIS} role="group" aria-label="Timeline of the call; the arrow keys go through its parts" onKeyDown=${move}>
    ${story.lanes.map((node, n) => html`<line key=${node} class="lane" x1="0" x2="100%" y1=${(n + 1) * LANE} y2=${(n + 1) * LANE} />`)}
    ${drawn.filter(({ above }) => !above).map(({ part }) => part)}
    ${drawn.filter(({ above }) => above).map(({ part }) => part)}
    ${scale.breaks.map(({ x: at, width, seconds: cut }) => html`<${Break} key=${`cut ${at}`} x=${SIDE + at + width / 2} width=${width} cut=${cut} height=${foot} />`)}
    <${Axis} story=${story} x=${x} y=${foot + 17} />
  </svg>`;
}

const polygon = (points) => html`<path d=${`M${points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L")}Z`} />`;
const hit = (x, end, y, height = 22) => html`<rect class="hit" x=${x - 4} width=${Math.max(8, end - x + 8)} y=${y - height / 2} height=${height} />`;

/** How each thing is drawn, with a shape of its own. */
const DRAWN = {
  round: ({ item: { number }, x, end, y }) => html`<rect x=${end - x < 4 ? x - 2 : x} width=${Math.max(4, end - x)} y=${y - 8} height="16" rx="3" />
    ${end - x > 20 && number && html`<text x=${(x + end) / 2} y=${y + 4}>${number}</text>`}`,
  parked: ({ x, end, y }) => html`${hit(x, end, y, 14)}<line x1=${x} x2=${end} y1=${y} y2=${y} />`,
  unheld: ({ x, end, y }) => html`${hit(x, end, y, 14)}<line x1=${x} x2=${end} y1=${y} y2=${y} />`,
  stuck: ({ x, end, y }) => html`${hit(x, end, y, 14)}<line x1=${x} x2=${end} y1=${y} y2=${y} /><path d=${`M${x - 5} ${y - 5}l10 10M${x + 5} ${y - 5}l-10 10`} />`,
  asked: ({ x, y }) => polygon([[x - 4.5, y - 18], [x + 4.5, y - 18], [x, y - 10.5]]),
  answered: ({ x, y }) => polygon([[x - 4.5, y + 18], [x + 4.5, y + 18], [x, y + 10.5]]),
  takeover: ({ x, y, fromY }) => arrow(x, fromY, y),
  again: ({ x, y }) => html`${hit(x - 3, x + 3, y)}<circle cx=${x} cy=${y} r="6" /><path d=${`M${x - 3} ${y}h6M${x} ${y - 3}l3 3-3 3`} />`,
  released: ({ x, y }) => polygon([[x, y - 7], [x + 7, y], [x, y + 7], [x - 7, y]]),
  evicted: ({ x, y }) => html`${hit(x - 4, x + 4, y)}<path d=${`M${x - 5} ${y - 5}l10 10M${x + 5} ${y - 5}l-10 10`} />`,
  verified: ({ x, y }) => html`<circle cx=${x} cy=${y} r="5" />`,
  healed: ({ x, y }) => html`<circle cx=${x} cy=${y} r="5" />`,
  finished: ({ x, y }) => html`${hit(x, x + 4, y)}<rect x=${x} width="4" y=${y - 13} height="26" rx="1" />`,
  failed: ({ x, y }) => html`${hit(x, x + 4, y)}<rect x=${x} width="4" y=${y - 13} height="26" rx="1" /><path d=${`M${x - 1} ${y - 20}l6 6M${x + 5} ${y - 20}l-6 6`} />`,
  cancelled: ({ x, y }) => html`${hit(x, x + 4, y)}<rect x=${x} width="4" y=${y - 13} height="26" rx="1" />${polygon([[x - 7, y - 5], [x - 7, y + 5], [x - 1, y]])}`,
  lost: ({ x, y }) => html`<rect x=${x - 6} width="12" y=${y - 6} height="12" /><path d=${`M${x - 3} ${y - 3}l6 6M${x + 3} ${y - 3}l-6 6`} />`,
};

/** From lane to lane. */
function arrow(x, from, to) {
  const way = to > from ? 1 : -1;
  const tip = to - way * 9;
  return html`<rect class="hit" x=${x - 6} width="12" y=${Math.min(from, to)} height=${Math.abs(to - from)} />
    <circle cx=${x} cy=${from} r="3" /><path d=${`M${x} ${from}V${tip - way * 6}`} /><path class="tip" d=${`M${x - 5} ${tip - way * 8}h10L${x} ${tip}Z`} />`;
}

/** Where time was cut out, and how much. */
const Break = ({ x, width, cut, height }) => html`<g class="break" aria-hidden="true">
  <path d=${`M${x - 4} ${height + 2}l3 -8M${x + 1} ${height + 2}l3 -8`} />
  ${width > 44 && html`<text x=${x} y=${height - 12}>${brief(cut)}</text>`}
</g>`;

/** One unit is enough between two rounds. */
const brief = (value) => (value < 10 ? seconds(value) : roughly(value).split(" ").slice(0, value < 600 ? 4 : 2).join(" "));

/** Instants below the lanes: where rounds begin, as far as there is room. */
function Axis({ story: { spans, begin, end, ended }, x, y }) {
  const last = x(end);
  const labels = [{ at: x(begin), text: clock(begin), side: "start" }];
  for (const { from } of spans.filter(({ what }) => what === "round").sort((one, other) => one.from - other.from)) {
    const free = x(from) - labels.at(-1).at > (labels.length === 1 ? 110 : 76) && last - x(from) > 100;
    if (free) labels.push({ at: x(from), text: `+${seconds(from - begin)}`, side: "middle" });
  }
  if (last - labels.at(-1).at > 90) labels.push({ at: last, text: ended ? clock(end) : "now", side: "end" });
  return html`<g class="axis" aria-hidden="true">
    ${labels.map(({ at, text, side }) => html`<text key=${text} x=${side === "start" ? at - SIDE + 2 : at} y=${y} text-anchor=${side}>${text}</text>`)}
  </g>`;
}

const SPANS = { round: "a round", parked: "parked", unheld: "no node holds it", stuck: "stuck" };

function Legend({ story }) {
  const spans = Object.keys(SPANS).filter((what) => story.spans.some((item) => item.what === what));
  const marks = Object.keys(MARKS).filter((what) => story.marks.some((item) => item.what === what));
  const drawn = (what) => (what === "takeover" ? arrow(13, -4, 26) : DRAWN[what]({ item: {}, x: SPANS[what] ? 3 : 13, end: 23, y: { asked: 24, answered: -4, failed: 21 }[what] ?? 10 }));
  const sample = (what) => html`<svg class="sample" width="26" height="20" aria-hidden="true"><g class=${`piece ${what}`}>${drawn(what)}</g></svg>`;
  return html`<ul class="legend">${[...spans, ...marks].map((what) => html`<li key=${what}>${sample(what)}${SPANS[what] ?? MARKS[what].label}</li>`)}</ul>`;
}

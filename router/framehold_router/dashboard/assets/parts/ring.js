/**
 * The ring as a drawing, and its legend.
 *
 * The law: what it shows is in the table of the page too, so it is one picture for a screen reader; a node is known by its
 * name, its colour only helps: of more than eight nodes some have the same.
 */
import { html, useMemo } from "../lib/html.js";
import { number, percent, plural } from "../lib/words.js";
import { Name } from "./name.js";

const HUES = 8;
const MIDDLE = 170;
const RADIUS = 128;
const OUTER = 152;

/** The colour of a node by its place in the list. */
export const hueOf = (index) => (index % HUES) + 1;

/** A place on the ring, 0 to 1, as a point of the drawing: 0 is at the top, and it goes on clockwise. */
function point(place, radius) {
  const angle = 2 * Math.PI * place;
  // Of arcs that are thinner than a hair the direction, too, must be right.
  return `${(MIDDLE + radius * Math.sin(angle)).toFixed(5)} ${(MIDDLE - radius * Math.cos(angle)).toFixed(5)}`;
}

/** A long one in two halves: a whole circle, too, is drawn by this. */
function arc(from, to) {
  const turn = `A${RADIUS} ${RADIUS} 0 0 1`;
  const half = to - from > 0.25 ? `${turn} ${point((from + to) / 2, RADIUS)}` : "";
  return `M${point(from, RADIUS)}${half}${turn} ${point(to, RADIUS)}`;
}

/** One path a node, of all its arcs; neighbours of one node are one arc. */
function drawn(arcs) {
  const paths = new Map();
  const turns = arcs.filter(({ node }, index) => node !== arcs.at(index - 1).node);
  const starts = turns.length ? turns : arcs.slice(0, 1);
  starts.forEach(({ start, node }, index) => {
    const end = index + 1 < starts.length ? starts[index + 1].start : starts[0].start + 1;
    paths.set(node, (paths.get(node) ?? "") + arc(start, end));
  });
  return paths;
}

/** Where there are too many arcs: a share is one arc. */
function shares(nodes) {
  let start = 0;
  return nodes.flatMap(({ share }, node) => {
    const here = { start, node };
    start += share;
    return share > 0 ? [here] : [];
  });
}

/** `shown` is the index of the node that stands out, or null; `mark` a place on the ring, or null. */
export function Drawing({ nodes, arcs, points, shown, onShow, mark, markName }) {
  const paths = useMemo(() => drawn(arcs.length ? arcs : shares(nodes)), [arcs, nodes]);
  const label = `The ring: ${nodes.map(({ node_id, share }) => `${node_id} ${percent(share)}`).join(", ")}`;
  return html`<div class="ring" role="img" aria-label=${label}>
    <svg viewBox="0 0 340 340" aria-hidden="true" onMouseLeave=${() => onShow(null)}>
      <circle class="base" cx=${MIDDLE} cy=${MIDDLE} r=${RADIUS} />
      ${[...paths].map(([node, path]) => html`<path key=${nodes[node]?.node_id} d=${path} onMouseEnter=${() => onShow(node)}
        class=${`arc stroke${hueOf(node)} ${shown !== null && shown !== node ? "back" : ""}`} />`)}
      ${arcs.length > 0 && [0, 0.25, 0.5, 0.75].map((place) => html`<path key=${place} class="tick" d=${`M${point(place, RADIUS - 20)}L${point(place, RADIUS - 25)}`} />`)}
      ${arcs.length > 0 && mark !== null && html`<g class="place" transform=${`rotate(${360 * mark} ${MIDDLE} ${MIDDLE})`}>
        <path class="line" d=${`M${MIDDLE} ${MIDDLE - OUTER}V${MIDDLE - RADIUS + 18}`} />
        <path class="head" d=${`M${MIDDLE - 8} ${MIDDLE - OUTER - 14}h16l-8 15z`} />
      </g>`}
    </svg>
    <div class="middle" aria-hidden="true"><${Middle} node=${nodes[shown]} nodes=${nodes} points=${points} mark=${mark} markName=${markName} /></div>
  </div>`;
}

function Middle({ node, nodes, points, mark, markName }) {
  if (node) return html`<${Name} text=${node.node_id} /><b>${percent(node.share)}</b><span>${plural(node.points, "point")}</span>`;
  if (mark !== null) return html`<span>call</span><b class="mono">${markName}</b><span>at ${mark.toFixed(4)}</span>`;
  const on = nodes.filter((one) => one.points > 0).length;
  return html`<b>${number(on)}</b><span>${on === 1 ? "node" : "nodes"}</span><span>${plural(points, "point")}</span>`;
}

/** The nodes by name. One that is pressed stays shown, until it is pressed again. */
export function Legend({ nodes, pinned, onShow, onPin }) {
  return html`<ul class="ring-legend" aria-label="Nodes on the ring" onMouseLeave=${() => onShow(null)}>
    ${nodes.map(({ node_id, share, points }, index) => points > 0 && html`<li key=${node_id}>
      <button type="button" aria-pressed=${pinned === index ? "true" : "false"} onClick=${() => onPin(pinned === index ? null : index)}
        onMouseEnter=${() => onShow(index)} onFocus=${() => onShow(index)} onBlur=${() => onShow(null)}>
        <span class=${`key hue${hueOf(index)}`} aria-hidden="true" /><${Name} text=${node_id} /><b>${percent(share)}</b>
      </button>
    </li>`)}
  </ul>`;
}

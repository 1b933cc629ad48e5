/** The ring: which part of all calls belongs to which node, how evenly, and where one token goes. */
import { setQuery, useAddress } from "../lib/address.js";
import { useRead } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { useLive, useNow } from "../lib/live.js";
import { useOrder } from "../lib/order.js";
import { ago, number, percent, plural, prefix } from "../lib/words.js";
import { Divergence, signed } from "../parts/divergence.js";
import { Downloads } from "../parts/download.js";
import { Lookup } from "../parts/lookup.js";
import { Name, NodeLink } from "../parts/name.js";
import { Empty, LastAnswer, Loading, Problem } from "../parts/notice.js";
import { Card, Page } from "../parts/page.js";
import { Drawing, hueOf, Legend } from "../parts/ring.js";
import { Stat, Stats } from "../parts/stat.js";
import { State } from "../parts/state.js";
import { Table } from "../parts/table.js";

const ARCS = { arcs: true };
const EVERY = 30_000;
/** How uneven a ring is by its points alone: bars are drawn to this scale at least. */
const USUAL = 0.25;

/** What the router says of its ring: now and then, and at once when the fleet is another one. */
function useRing() {
  const ring = useRead("ring", ARCS, { every: EVERY });
  const { nodes } = useLive();
  const fleet = nodes?.map(({ node_id, boot, state, share }) => `${node_id} ${boot} ${state} ${share}`).join("\n");
  const known = useRef(fleet);
  useEffect(() => {
    if (known.current !== undefined && known.current !== fleet) ring.again();
    known.current = fleet;
  }, [fleet]);
  return ring;
}

export default function Ring() {
  const { data, error, again } = useRing();
  const [found, setFound] = useState(null);
  if (data === null) {
    return html`<${Page} title="Ring">${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} what="the ring" />`}</${Page}>`;
  }
  return html`<${Page} title="Ring" lead=${html`<${Moved} ring=${data} />`}>
    <${LastAnswer} error=${error} again=${again} />
    <${Numbers} ring=${data} />
    <div class="columns even">
      <${Card} title="The ring" note=${data.points > 0 && !data.arcs?.length ? "more than 4,096 arcs: only the shares" : undefined}><${Picture} ring=${data} found=${found} /></${Card}>
      <${Card} title="Where does this token go?"><${Lookup} found=${found} onFound=${setFound} /></${Card}>
    </div>
    <${Card} title="Shares" note="of all calls that begin" actions=${html`<${Downloads} path="ring" />`}><${Shares} nodes=${data.nodes} /></${Card}>
  </${Page}>`;
}

const onRing = (nodes) => nodes.filter(({ points }) => points > 0);
/** How far a node's share is from the ideal, as a part of that. */
const offOf = ({ share, ideal_share: ideal }) => (ideal > 0 ? share / ideal - 1 : null);

/**
 * What a change moves at best: of n nodes, k that are new take k n-ths, and k that went have left as much as they had of
 * n + k. Null where some came and some went at once.
 */
function best(events, changed, count) {
  const near = events.filter(({ at }) => Math.abs(at - changed) < 5);
  const of = (...kinds) => new Set(near.filter(({ kind }) => kinds.includes(kind)).map(({ node_id }) => node_id)).size;
  const [came, went] = [of("node_joined"), of("node_left", "node_lost", "node_draining")];
  if (came && went) return null;
  return came ? [came, count] : [went || 1, count + (went || 1)];
}

function Moved({ ring: { nodes, moved_together: moved, changed } }) {
  const now = useNow();
  const { events } = useLive();
  const count = onRing(nodes).length;
  if (changed === null || count === 0) return "The ring has not changed since this router started.";
  const ideal = best(events, changed, count);
  if (moved === 0 && ideal && ideal[0] >= ideal[1]) return html`The ring began with ${plural(count, "node")}, ${ago(changed, now)}.`;
  return html`The last change moved <b>${percent(moved)}</b> of all new calls, ${ago(changed, now)}${ideal && `; the ideal is ${ideal.join("/")}, ${percent(ideal[0] / ideal[1])}`}. Calls that are parked stay where they are.`;
}

function Numbers({ ring: { nodes, points } }) {
  const on = onRing(nodes);
  const off = nodes.length - on.length;
  const furthest = on.reduce((most, node) => (most && Math.abs(offOf(most)) >= Math.abs(offOf(node)) ? most : node), null);
  return html`<${Stats} label="The ring in numbers">
    <${Stat} label="Nodes on the ring" value=${number(on.length)} note=${off ? `${plural(off, "other")} with a node lease` : "all that have a node lease"} to=${[["nodes"]]} />
    <${Stat} label="Points" value=${number(points)} note=${on.length ? `${number(points / on.length)} a node` : undefined} />
    <${Stat} label="Ideal share" value=${on.length ? percent(1 / on.length) : "–"} note="each node the same" />
    <${Stat} label="Furthest from the ideal" value=${furthest ? signed(offOf(furthest)) : "–"} note=${furthest && html`<${Name} text=${furthest.node_id} />`} />
  </${Stats}>`;
}

/** Which node stands out is in the URL where it was chosen, and not where one only points at it. */
function Picture({ ring: { nodes, arcs = [], points }, found }) {
  const { query } = useAddress();
  const [pointed, setPointed] = useState(null);
  if (points === 0) return html`<${Empty} title="No node is on the ring">New calls are refused. Start a node: <code>framehold node TARGET</code></${Empty}>`;
  const chosen = nodes.findIndex(({ node_id }) => node_id === query.node);
  const pinned = chosen < 0 ? null : chosen;
  const pin = (index) => setQuery({ node: index === null ? undefined : nodes[index].node_id }, { replace: true });
  return html`<div class="ring-card">
    <${Drawing} nodes=${nodes} arcs=${arcs} points=${points} shown=${pointed ?? pinned} onShow=${setPointed}
      mark=${found?.position ?? null} markName=${found ? prefix(found.call_id) : ""} />
    <${Legend} nodes=${nodes} pinned=${pinned} onShow=${setPointed} onPin=${pin} />
  </div>`;
}

const COLUMNS = [
  { name: "Node", head: true, sort: "node", value: ({ node_id }) => node_id, cell: ({ node_id, index }) => html`<span class=${`key hue${hueOf(index)}`} aria-hidden="true" /><${NodeLink} id=${node_id} />` },
  { name: "State", sort: "state", value: ({ state }) => state, cell: ({ state }) => html`<${State} name=${state} />` },
  { name: "Ideal share", number: true, cell: ({ points, ideal_share }) => (points ? percent(ideal_share) : "–") },
  { name: "Actual share", number: true, sort: "share", value: ({ share, points }) => (points ? share : null), cell: ({ points, share }) => (points ? percent(share) : "–") },
  { name: "From the ideal", number: true, sort: "off", value: offOf, hint: "How much more or less than its ideal share it has, as a part of that.", cell: (row) => html`<${Divergence} value=${row.points ? offOf(row) : null} most=${row.most} />` },
  { name: "Points", number: true, sort: "points", value: ({ points }) => points, cell: ({ points }) => number(points) },
];

function Shares({ nodes }) {
  const { inOrder, ...order } = useOrder(COLUMNS);
  const most = Math.max(USUAL, ...onRing(nodes).map((node) => Math.abs(offOf(node))));
  const rows = inOrder(nodes.map((node, index) => ({ ...node, index, most })));
  const empty = html`<${Empty} title="No node has a node lease">New calls are refused. Start a node: <code>framehold node TARGET</code></${Empty}>`;
  return html`<${Table} label="Shares of the ring" columns=${COLUMNS} rows=${rows} keyOf=${({ node_id }) => node_id} ...${order} empty=${empty} />`;
}

"""The fleet as one page, complete in itself: no script, nothing loaded, fetched anew every two seconds.

The law: whatever comes from a lease or a node is escaped, and the page's policy lets nothing run and nothing load, so
that what slipped through would still do nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from hashlib import sha256
from html import escape

from .api.about_nodes import NodeView, RingView

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #667085; --line: #d9dee7; --page: #f7f8fa; --card: #fff;
  --accent: #4361d8; --trough: #e8ebf2; --live: #18794e; --draining: #9a6700; --gone: #b42318; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2f3644; --page: #12151b; --card: #1a1e26;
    --accent: #8098f5; --trough: #2b3240; --live: #4cc38a; --draining: #e2a336; --gone: #f97066; }
}
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1rem; }
h1 { font-size: 1.35rem; margin: 0; }
p { color: var(--soft); margin: .25rem 0 0; }
code { color: var(--ink); font: .9em ui-monospace, monospace; }
dl { display: flex; flex-wrap: wrap; gap: .75rem 2.5rem; margin: 1.25rem 0; }
dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0; font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .5rem .9rem; text-align: left; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 500; font-size: .85rem; }
tbody th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.live { color: var(--live); } .draining { color: var(--draining); } .gone { color: var(--gone); }
.empty { text-align: center; color: var(--soft); padding: 2rem; }
meter { appearance: none; width: 6rem; height: .5rem; margin-left: .75rem; vertical-align: middle; border: 0;
  border-radius: .25rem; background: var(--trough); overflow: hidden; }
meter::-webkit-meter-inner-element { grid-template-rows: 0 [line1] 1fr [line2] 0; }
meter::-webkit-meter-bar { border: 0; border-radius: 0; background: var(--trough); }
meter::-webkit-meter-optimum-value { background: var(--accent); }
meter::-moz-meter-bar { background: var(--accent); }
"""

POLICY = "; ".join(
    (
        "default-src 'none'",
        f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""The page's Content-Security-Policy."""

_COLUMNS = (
    ("Node", ""),
    ("State", ""),
    ("Address", ""),
    ("Pid", "number"),
    ("Parked", "number"),
    ("In flight", "number"),
    ("Share of the ring", "number"),
)
_KINDS = {"live": "live", "draining": "draining", "unreachable": "gone"}


def page(nodes: list[NodeView], ring: RingView) -> str:
    """The page as HTML."""
    shares = {node.node_id: node.share for node in ring.nodes}
    # Bars are as long as the greatest one allows: of many nodes each has too little to be seen.
    most = max(shares.values(), default=0.0) or 1.0
    rows = "".join(_row(node, shares.get(node.node_id, 0.0), most) for node in nodes)
    empty = f'<tr><td class="empty" colspan="{len(_COLUMNS)}">No node has a lease. Start one: framehold node</td></tr>'
    heads = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in _COLUMNS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Framehold</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="refresh" content="2"><style>{_STYLE}</style></head>'
        "<body><main><h1>Framehold</h1><p>MCP is served at <code>/mcp</code> of this address</p>"
        f"<dl>{_summary(nodes)}</dl>"
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows or empty}</tbody></table></div>'
        "</main></body></html>"
    )


def _summary(nodes: list[NodeView]) -> str:
    """Counts of the whole fleet; states that no node is in are left out, but for `live`."""
    states = Counter(node.state if node.state in _KINDS else "unreachable" for node in nodes)
    counts = [
        (f"nodes {state}", states[state], kind) for state, kind in _KINDS.items() if states[state] or kind == "live"
    ]
    counts.append(("calls parked", sum(node.parked or 0 for node in nodes), ""))
    counts.append(("requests in flight", sum(node.in_flight or 0 for node in nodes), ""))
    return "".join(f'<div><dt>{name}</dt><dd class="{kind}">{count:,}</dd></div>' for name, count, kind in counts)


def _row(node: NodeView, share: float, most: float) -> str:
    name, state, address = escape(node.node_id), escape(node.state), escape(node.address)
    numbers = "".join(_number(value) for value in (node.pid, node.parked, node.in_flight))
    return (
        f'<tr><th scope="row">{name}</th><td class="{_KINDS.get(node.state, "gone")}">{state}</td><td>{address}</td>'
        f'{numbers}<td class="number">{share:.1%}<meter value="{share / most:.4f}"></meter></td></tr>'
    )


def _number(value: int | None) -> str:
    return f'<td class="number">{"&ndash;" if value is None else value}</td>'

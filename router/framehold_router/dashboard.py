"""The fleet as one page, complete in itself: no script, nothing loaded, fetched anew every two seconds.

The law: whatever comes from a lease or a node is escaped, and the page's policy lets nothing run and nothing load, so
that what slipped through would still do nothing.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape

from .api_models import NodeView, RingView

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #667085; --line: #d9dee7; --page: #f7f8fa; --card: #fff;
  --live: #18794e; --draining: #9a6700; --gone: #b42318; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2f3644; --page: #12151b; --card: #1a1e26;
    --live: #4cc38a; --draining: #e2a336; --gone: #f97066; }
}
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1rem; }
h1 { font-size: 1.35rem; margin: 0; }
p { color: var(--soft); margin: .25rem 0 1.25rem; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .5rem .9rem; text-align: left; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 500; font-size: .85rem; }
tbody th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.live { color: var(--live); } .draining { color: var(--draining); } .gone { color: var(--gone); }
.empty { text-align: center; color: var(--soft); padding: 2rem; }
meter { width: 5rem; margin-left: .6rem; vertical-align: middle; }
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
_KINDS = {"live": "live", "draining": "draining"}


def page(nodes: list[NodeView], ring: RingView) -> str:
    """The page as HTML."""
    shares = {node.node_id: node.share for node in ring.nodes}
    rows = "".join(_row(node, shares.get(node.node_id, 0.0)) for node in nodes)
    empty = f'<tr><td class="empty" colspan="{len(_COLUMNS)}">No node has a lease. Start one: framehold node</td></tr>'
    heads = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in _COLUMNS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Framehold</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="refresh" content="2"><style>{_STYLE}</style></head>'
        f"<body><main><h1>Framehold</h1><p>{_summary(nodes)}</p>"
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows or empty}</tbody></table></div>'
        "</main></body></html>"
    )


def _summary(nodes: list[NodeView]) -> str:
    live = sum(node.state == "live" for node in nodes)
    parked = sum(node.parked or 0 for node in nodes)
    in_flight = sum(node.in_flight or 0 for node in nodes)
    return f"{live} of {len(nodes)} nodes live, {parked} calls parked, {in_flight} requests in flight"


def _row(node: NodeView, share: float) -> str:
    name, state, address = escape(node.node_id), escape(node.state), escape(node.address)
    numbers = "".join(_number(value) for value in (node.pid, node.parked, node.in_flight))
    return (
        f'<tr><th scope="row">{name}</th><td class="{_KINDS.get(node.state, "gone")}">{state}</td><td>{address}</td>'
        f'{numbers}<td class="number">{share:.1%}<meter value="{share:.4f}"></meter></td></tr>'
    )


def _number(value: int | None) -> str:
    return f'<td class="number">{"&ndash;" if value is None else value}</td>'

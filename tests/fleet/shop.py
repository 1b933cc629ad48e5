"""A server before and after its author changed it, for tests of calls that wait meanwhile. Both are texts: each fleet
serves its own files."""

from __future__ import annotations

from pathlib import Path

_PARTS = '''\
"""What the shop's tools are made of."""

import os
from pydantic import BaseModel, field_validator

RATE = 3
WHERE = os.environ.get("WHERE", "nowhere")


class Till:
    def __init__(self):
        self.open_since = WHERE

    def stands(self):
        return f"the old till in {self.open_since}"


till = Till()


class Order(BaseModel):
    """What to buy."""

    count: int

    @field_validator("count")
    @classmethod
    def whole(cls, value):
        return value + offset()


def open_till():
    return till


def offset():
    return 0


def price(count):
    return count * RATE
'''

_SHOP = '''\
"""A shop that asks twice."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
import parts
from parts import Order, till
from tests.fleet.ledger import note

mcp = MCPServer("shop")


@mcp.tool()
@framehold.reentrant
async def buy(name: str, ctx: Context) -> str:
    """Buy something."""
    await framehold.once("reserve", note, name, "effect", "reserve")
    first = await framehold.ask("first", f"{name}: how many?", Order)
    await framehold.once("charge", note, name, "effect", "charge")
    second = await framehold.ask("second", f"{name}: {parts.price(first.data.count)} for all, how many more?", Order)
    await framehold.once("send", note, name, "effect", "send")
    return f"{name}: old, {parts.price(first.data.count + second.data.count)}, {till.stands()}"


@mcp.tool()
@framehold.reentrant
async def gone(name: str, ctx: Context) -> str:
    """A tool that the next release does not have."""
    answer = await framehold.ask("only", f"{name}: how many?", Order)
    return f"{name}: gone, {parts.price(answer.data.count)}"
'''

_CHANGED_PARTS = {
    "RATE = 3": "RATE = 700",
    "the old till": "the new till",
    "    count: int\n": "    count: int\n    colour: str\n",
    "return 0": "return 50",
    "return count * RATE": "return -count * RATE",
}
_CHANGED_SHOP = {
    "how many?": "how many, and which colour?",
    '    await framehold.once("charge", note, name, "effect", "charge")\n': "",
    'await framehold.once("reserve", note, name, "effect", "reserve")': (
        'await framehold.once("charge", note, name, "effect", "charge")\n'
        '    await framehold.once("reserve", note, name, "effect", "reserve")'
    ),
    ": old, ": ": new, ",
}


_FASTMCP = {
    "from mcp.server import MCPServer\n": "from fastmcp import FastMCP\n",
    "from mcp.server.mcpserver import Context\n": "from fastmcp import Context\n",
    'MCPServer("shop")': 'FastMCP("shop")',
    "(name: str, ctx: Context)": "(name: str, ctx: Context, till: parts.Till = Depends(open_till))",
    "import parts\n": "import parts\nfrom fastmcp.dependencies import Depends\n",
    "from parts import Order, till": "from parts import Order, open_till",
}
"""The edits that make the shop a FastMCP server, whose tools get the till from a dependency."""
KINDS = ("MCPServer", "FastMCP")


def write(folder: Path, kind: str, changed: bool) -> Path:
    """Write the shop into `folder`, as it was or as it is after the change. Returns the file to serve."""
    folder.mkdir()
    parts, shop = _PARTS, _SHOP if kind == "MCPServer" else _edited(_SHOP, _FASTMCP)
    if changed:
        parts, shop = _edited(parts, _CHANGED_PARTS), _edited(shop[: shop.rindex("\n\n@mcp.tool()")], _CHANGED_SHOP)
    (folder / "parts.py").write_text(parts)
    (folder / "shop.py").write_text(shop)
    return folder / "shop.py"


def _edited(text: str, edits: dict[str, str]) -> str:
    for before, after in edits.items():
        assert before in text, before
        text = text.replace(before, after)
    return text

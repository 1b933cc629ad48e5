"""Releases of one server, each made from the one before it by a drawn change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

ORDERS = """\
import dataclasses
import enum
import os
import sys

import framehold
from tests.fleet.ledger import note

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
from dependency import Money

RATE = {rate}


class Status(enum.Enum):
    PAID = "paid"
    OPEN = "open"
{members}

class Declined(Exception):
    def __init__(self, text, who):
        super().__init__(text)
        self.who = who


@dataclasses.dataclass(frozen=True)
class Order:
    who: str
    status: Status
    price: Money
{fields}
    def label(self):
        return f"{{self.who}} {method}"


def {place}(who):
    note(who, "effect", "place")
    return [Order(who, Status.PAID, Money(RATE))]


def reserve(who):
    note(who, "effect", "reserve")
    raise Declined("none left", who)


def charge(who):
    note(who, "effect", "charge")


def ship(who):
    note(who, "effect", "ship")


def worded(text):
    return "{body} " + text


async def order(who, ask):
    (placed,) = await framehold.once("place", {place}, who)
    try:
        await framehold.once("reserve", reserve, who)
        stock = "reserved"
    except Declined as declined:
        stock = "declined" if declined.who == who else "another one's"
    first = await ask(worded("one?"))
    if placed.status is not Status.PAID or not isinstance(placed, Order):
        await framehold.once("charge", charge, who)
    second = await ask(worded("two?"))
    match placed:
        case Order(status=Status.PAID):
            paid = "paid"
        case _:
            await framehold.once("charge", charge, who)
            paid = "charged"
    await framehold.once("ship", ship, who)
    same = placed == Order(who, Status.PAID, Money(RATE)) and placed.price.amount == RATE
    return f"{{placed.label()}} {{paid}} {{stock}} {{same}} {{first}} {{second}} {body} {{RATE}}"
"""
DEPENDENCY = """\
class Money:
    def __init__(self, amount): self.amount = amount
    def __eq__(self, other): return isinstance(other, Money) and other.amount == self.amount
    def __hash__(self): return hash(self.amount)
    def version(self): return {version}
"""
SERVERS = {
    "MCPServer": """\
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel
import framehold
import {module} as orders

server = MCPServer("orders")

class Word(BaseModel):
    word: str

@framehold.reentrant
async def tool(who: str, ctx: Context) -> str:
    async def ask(text):
        return (await ctx.elicit(text, Word)).data.word
    return await orders.order(who, ask)

for name in {tools}:
    server.tool(name=name)(tool)
""",
    "low-level": """\
from mcp.server import Server
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel
import framehold
import {module} as orders

class Word(BaseModel):
    word: str

@framehold.reentrant
async def call_tool(ctx, params):
    async def ask(text):
        return (await framehold.ask(text, text, Word)).data.word
    text = await orders.order(params.arguments["who"], ask)
    return CallToolResult(content=[TextContent(type="text", text=text)])

server = Server("orders", on_call_tool=call_tool)
""",
    "FastMCP": """\
from fastmcp import Context, FastMCP
from pydantic import BaseModel
import framehold
import {module} as orders

server = FastMCP("orders")

class Word(BaseModel):
    word: str

@framehold.reentrant
async def tool(who: str, ctx: Context) -> str:
    async def ask(text):
        return (await ctx.elicit(text, Word)).data.word
    return await orders.order(who, ask)

for name in {tools}:
    server.tool(name=name)(tool)
""",
}
CHANGES = ("constant", "body", "method", "member", "field", "field removed", "rename", "moved", "dependency")


@dataclass(frozen=True)
class Release:
    """What a release has otherwise than others."""

    number: int = 1
    rate: int = 3
    body: str = "word1"
    method: str = "method1"
    members: tuple[str, ...] = ()
    fields: tuple[str, ...] = ("more1",)
    place: str = "place"
    module: str = "orders"
    version: int = 1
    tools: tuple[str, ...] = ("tool", "gone")
    """The names of its tool; a low-level server takes any."""

    def changed(self, name: str) -> Release:
        """The next release, which has this change."""
        made = replace(self, number=self.number + 1)
        n = made.number
        changed = {
            "constant": {"rate": n},
            "body": {"body": f"word{n}"},
            "method": {"method": f"method{n}"},
            "member": {"members": (*self.members, f"NEW{n}")},
            "field": {"fields": (*self.fields, f"more{n}")},
            "field removed": {"fields": self.fields[:-1]},
            "rename": {"place": f"place{n}"},
            "moved": {"module": f"orders{n}"},
            "dependency": {"version": n},
        }[name]
        return replace(made, **changed)  # type: ignore[arg-type]

    def end(self, who: str) -> str:
        """What a call says in the end that this release has begun."""
        return f"{who} {self.method} paid declined True w w {self.body} {self.rate}"

    def write(self, folder: Path, kind: str) -> str:
        """Write its files; the target of a node."""
        members = "".join(f'    {name} = "{name}"\n' for name in self.members)
        fields = "".join(f"    {name}: int = 0\n" for name in self.fields)
        filled = {"rate": self.rate, "body": self.body, "method": self.method, "place": self.place}
        (folder / "site-packages").mkdir(parents=True)
        (folder / f"{self.module}.py").write_text(ORDERS.format(members=members, fields=fields, **filled))
        (folder / "site-packages" / "dependency.py").write_text(DEPENDENCY.format(version=self.version))
        (folder / "server.py").write_text(SERVERS[kind].format(module=self.module, tools=self.tools))
        return f"{folder / 'server.py'}:server"

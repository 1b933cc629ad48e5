"""Kinds of values that a handler records, and what it may ask of them afterwards: the text of a server.

`check(kind, held, value)` gives the answers to all tests of one kind; each is true in a plain run. A release with other
words of its question is another release for the code of the handler. `changed` also changes every class.
"""

from __future__ import annotations

HELPERS = """\
class Helped:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return type(other) is Helped and other.n == self.n
    def __hash__(self): return hash(self.n)
    def twice(self): return 2 * self.n
    __match_args__ = ("n",)
    # changed
"""
DEPENDENCY = HELPERS.replace("Helped", "Depended")
_VALUES = """\
import dataclasses
import enum
import os
import sys
from typing import Generic, NamedTuple, TypeVar

from pydantic import BaseModel

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "site-packages"))
from dependency import Depended
from helpers import Helped

T = TypeVar("T")

class Paid(enum.Enum):
    YES = "yes"
    NO = "no"
    # of an enum

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2
    # of an enum

class Word(enum.StrEnum):
    TEA = "tea"
    # of an enum

class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    # of an enum

@dataclasses.dataclass(unsafe_hash=True)
class Plain:
    n: int
    m: int = 0
    # of a value

@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int
    rest: tuple = dataclasses.field(default_factory=tuple)
    # of a value

@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    n: int
    # of a value

@dataclasses.dataclass(frozen=True)
class Nested:
    n: Frozen
    paid: Paid
    def twice(self): return self.n.twice()
    # changed

class Row(NamedTuple):
    n: int
    m: str = "m"
    # of a value

class Model(BaseModel):
    n: int
    paid: Paid = Paid.YES
    def __hash__(self): return hash(self.n)
    # of a value

class Box(BaseModel, Generic[T]):
    n: T
    def __hash__(self): return hash(self.n)
    # of a value

class Refused(Exception):
    def __init__(self, text, n):
        super().__init__(text)
        self.n = n
    def __eq__(self, other): return type(other) is Refused and (other.args, other.n) == (self.args, self.n)
    def __hash__(self): return hash(self.n)
    # of a value

class Missing:
    n = 1
    def __repr__(self): return "MISSING"
    def twice(self): return 2
    # changed

class Only:
    _only = None
    n = 1
    def __new__(cls):
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only
    def twice(self): return 2
    # changed

MISSING = Missing()
BARE = object()

class Failed(Exception):
    def __init__(self, value):
        super().__init__("failed")
        self.value = value
    # changed

def refused():
    try:
        raise KeyError("cause")
    except KeyError as cause:
        try:
            raise Refused("no", 3) from cause
        except Refused as error:
            return error

MAKERS = {
    "enum": lambda: Paid.YES,
    "IntEnum": lambda: Level.HIGH,
    "StrEnum": lambda: Word.TEA,
    "Flag": lambda: Rights.READ | Rights.WRITE,
    "dataclass": lambda: Plain(3),
    "frozen dataclass": lambda: Frozen(3, (1, 2)),
    "slotted dataclass": lambda: Slotted(3),
    "nested dataclass": lambda: Nested(Frozen(3), Paid.YES),
    "NamedTuple": lambda: Row(3),
    "model": lambda: Model(n=3),
    "generic model": lambda: Box[int](n=3),
    "exception": refused,
    "class of a helper module": lambda: Helped(3),
    "class of a dependency": lambda: Depended(3),
    "sentinel": lambda: MISSING,
    "bare sentinel": lambda: BARE,
    "singleton": Only,
}
CLASSES = {
    "enum": Paid, "IntEnum": Level, "StrEnum": Word, "Flag": Rights, "dataclass": Plain, "frozen dataclass": Frozen,
    "slotted dataclass": Slotted, "nested dataclass": Nested, "NamedTuple": Row, "model": Model,
    "generic model": Box[int], "exception": Refused, "class of a helper module": Helped,
    "class of a dependency": Depended, "sentinel": Missing, "bare sentinel": object, "singleton": Only,
}
SAME = ("enum", "IntEnum", "StrEnum", "Flag", "sentinel", "bare sentinel", "singleton")

def matched(value):
    match value:
        case Paid.YES | Level.HIGH | Word.TEA: return True
        case Rights(): return Rights.READ in value
        case Frozen(n=3, rest=(1, 2)): return True
        case Plain(3, 0) | Slotted(3) | Row(3, "m"): return True
        case Nested(Frozen(3), Paid.YES): return True
        case Model(n=3, paid=Paid.YES): return True
        case Box(n=3): return True
        case Refused(n=3) | Helped(3) | Depended(3): return True
        case Missing() | Only(): return True
    return value is BARE

def caught(error, kind):
    try:
        raise error
    except Refused as found:
        return kind == "exception" and found.n == 3 and found.args == ("no",)
    except Failed as found:
        return kind != "exception" and all(tests(kind, found.value)[:5])

def tests(kind, value):
    like, cls = MAKERS[kind](), CLASSES[kind]
    return [
        value is like if kind in SAME else type(value) is cls,
        value == like and not value != like,
        hash(value) == hash(like) and {like: 1}[value] == 1,
        value in [like] and value in {like},
        isinstance(value, cls) and isinstance(like, type(value)),
        issubclass(type(value), cls) and issubclass(cls, type(value)),
        matched(value),
        kind == "bare sentinel" or value.n == like.n,
        kind == "bare sentinel" or value.twice() == like.twice(),
    ]

def make(kind, held):
    value = MAKERS[kind]()
    return {"bare": value, "list": [0, value], "value": {"k": value}, "key": {value: "v"}}[held]

def fail(kind):
    value = MAKERS[kind]()
    raise value if kind == "exception" else Failed(value)

def check(kind, held, value, error):
    inner = {"bare": lambda: value, "list": lambda: value[1], "value": lambda: value["k"], "key": lambda: [*value][0]}
    found = inner[held]()
    if held == "key" and value.get(MAKERS[kind]()) != "v":
        return []
    return [*tests(kind, found), caught(error, kind)]
"""
OF_AN_ENUM = """\
    def twice(self): return self.value * 2
    @property
    def n(self): return self.value
    # changed
"""
OF_A_VALUE = """\
    def twice(self): return 2 * self.n
    # changed
"""
VALUES = _VALUES.replace("    # of an enum\n", OF_AN_ENUM).replace("    # of a value\n", OF_A_VALUE)
HANDLER = """\
import json
from values import *
import framehold

class Answer(BaseModel):
    word: str

async def cell(kind, held):
    value = await framehold.once("make", make, kind, held)
    try:
        await framehold.once("fail", fail, kind)
    except Exception as failed:
        error = failed
    await framehold.ask("q", "early question?", Answer)
    return json.dumps(check(kind, held, value, error))
"""
_HIGH = """\
server = Kind("values")

@server.tool()
@framehold.reentrant
async def tool(kind: str, held: str, ctx: Context) -> str:
    return await cell(kind, held)
"""
SERVERS = {
    "MCPServer": "from mcp.server import MCPServer as Kind\nfrom mcp.server.mcpserver import Context\n" + _HIGH,
    "low-level": """\
from mcp.server import Server
from mcp.types import CallToolResult, TextContent

@framehold.reentrant
async def call_tool(ctx, params):
    return CallToolResult(content=[TextContent(type="text", text=await cell(**params.arguments))])

server = Server("values", on_call_tool=call_tool)
""",
    "FastMCP": "from fastmcp import Context, FastMCP as Kind\n" + _HIGH,
}
TESTS = ("is", "==", "hash", "in", "isinstance", "issubclass", "match", "attribute", "method", "except")
HELD = ("bare", "list", "value", "key")
KINDS = (
    *("enum", "IntEnum", "StrEnum", "Flag", "dataclass", "frozen dataclass", "slotted dataclass", "nested dataclass"),
    *("NamedTuple", "model", "generic model", "exception", "class of a helper module", "class of a dependency"),
    *("sentinel", "bare sentinel", "singleton"),
)

UNTESTED = {"bare sentinel": ("attribute", "method")}
"""What a kind can't be asked."""


def table() -> str:
    """The kinds and their tests, as docs/writing-tools.md has them: kinds that are asked the same share a row."""
    alike: dict[str, list[str]] = {}
    for kind in KINDS:
        tests = ", ".join(name for name in TESTS if name not in UNTESTED.get(kind, ()))
        alike.setdefault(tests, []).append(kind)
    rows = [f"| {', '.join(kinds)} | {tests} |" for tests, kinds in alike.items()]
    return "\n".join(["| Recorded | What says the same in each way |", "| --- | --- |", *rows])


def files(server: str) -> dict[str, str]:
    return {
        "server.py": HANDLER + SERVERS[server],
        "values.py": VALUES,
        "helpers.py": HELPERS,
        "site-packages/dependency.py": DEPENDENCY,
    }


def asking_otherwise(release: dict[str, str]) -> dict[str, str]:
    """A release whose handler is another, and whose classes are the same."""
    return {name: text.replace("early", "later") for name, text in release.items()}


def with_other_classes(release: dict[str, str]) -> dict[str, str]:
    """A release in which each class is another, also that of the dependency."""
    changed = "def added(self): return 1"
    return {name: text.replace("# changed", changed) for name, text in asking_otherwise(release).items()}

"""Entries as somebody may have spoiled them, in a store or in a token; and a handler that learns something of every
kind."""

from __future__ import annotations

import base64
import json
import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

import framehold
from framehold.frame.payloads import Payloads
from framehold_core.ids import CallId
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_store.seal import Sealer
from framehold_store.values import Values
from tests.kit.serving import Word, said

N, KIND, KEY, ROUND, LANE, FP, CODEC, VALUE = range(1, 9)
MARK = b"this was unpickled"
"""In each pickle that nobody may load."""
STRANGERS = b"a key that this fleet never had, and long enough"


class Own(Exception):
    """An exception that only a pickle can carry."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


class Unset:
    """Loads by a `__setstate__` that refuses."""

    def __getstate__(self) -> dict[str, int]:
        return {"x": 1}

    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("not this time")


class Bomb:
    """Whoever unpickles it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_bytes, (self.path, MARK)


@dataclass
class Log:
    """What really ran: entries into the handler, effects, and what came after the questions."""

    entered: int = 0
    ran: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plain(self, what: str) -> dict[str, str]:
        self.ran.append(what)
        return {"what": what}

    def odd(self, what: str) -> tuple[str, int]:
        self.ran.append(what)
        return what, 1

    def fails(self, what: str) -> None:
        self.ran.append(what)
        raise LookupError(what)

    def fails_oddly(self, what: str) -> None:
        self.ran.append(what)
        raise Own(what, code=7)


EFFECTS = ["plain", "odd", "fails", "fails oddly"]
"""What runs before the first question."""


async def learn(log: Log) -> None:
    """Something of every kind that an entry may hold. What comes of it is checked: a replay gives the same."""
    framehold.uuid4("drawn")
    assert await framehold.once("plain", log.plain, "plain") == {"what": "plain"}
    assert await framehold.once("odd", log.odd, "odd") == ("odd", 1)
    for name, fn, kind in (("fails", log.fails, LookupError), ("fails oddly", log.fails_oddly, Own)):
        try:
            await framehold.once(name, fn, name)
        except kind:
            continue
        except Exception as error:
            log.after.append(f"went on with {error!r}")
        log.after.append(f"{name} did not fail")


def worker(log: Log) -> Callable[..., Any]:
    """A tool that learns, asks twice, and acts after that. What it can swallow it swallows."""

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        log.entered += 1
        try:
            await learn(log)
        except Exception as error:
            log.after.append(f"went on with {error!r}")
        one = said(await ctx.elicit("one?", Word))
        if len(one) > 20:
            log.after.append("went on with a long word")
        two = said(await ctx.elicit("two?", Word))
        log.after.append("answered")
        await framehold.once("after", log.plain, "after")
        return f"{one} {two}"

    return work


def hand_worker(log: Log) -> Callable[..., Any]:
    """The same, parking by hand; keeps a state of its own."""

    @framehold.reentrant
    async def by_hand(ctx: Context) -> str | InputRequiredResult:
        log.entered += 1
        try:
            await learn(log)
        except Exception as error:
            log.after.append(f"went on with {error!r}")
        given = (ctx.input_responses or {}).get("q")
        if not isinstance(given, ElicitResult) or ctx.request_state is None:
            schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
            asked = ElicitRequest(params=ElicitRequestFormParams(message="by hand?", requested_schema=schema))
            return InputRequiredResult(input_requests={"q": asked}, request_state="mine")
        log.after.append("answered")
        await framehold.once("after", log.plain, "after")
        return f"{ctx.request_state} {(given.content or {}).get('word')}"

    return by_hand


@dataclass
class Place:
    """Entries of one call as they stand in a store or a token, to be spoiled. `other` are those of another call of the
    same handler, `bomb` is a pickle that must never be loaded."""

    call: str
    entries: list[bytes]
    other: list[bytes]
    payloads: Payloads
    namespace: str
    bomb: bytes

    def rows(self) -> list[list[Any]]:
        return [json.loads(item) for item in self.entries]

    def index(self, kind: str, key: str = "") -> int:
        return next(n for n, row in enumerate(self.rows()) if row[KIND] == kind and (not key or row[KEY] == key))

    def changed(self, at: int, **fields: Any) -> list[bytes]:
        """With other fields in one entry."""
        row = self.rows()[at]
        for name, value in fields.items():
            row[globals()[name]] = value
        return [*self.entries[:at], dumped(row), *self.entries[at + 1 :]]

    def replaced(self, at: int, raw: bytes) -> list[bytes]:
        return [*self.entries[:at], raw, *self.entries[at + 1 :]]

    def sealed(self, at: int, data: bytes, by: Payloads | None = None, call: str = "", **fields: Any) -> list[bytes]:
        """With a value in one entry that was sealed for it, but for what is said here."""
        row = self.rows()[at]
        n = fields.get("N", row[N])
        draft = Draft(
            EntryKind(fields.get("KIND", row[KIND])),
            fields.get("KEY", row[KEY]),
            row[ROUND],
            EntryLane(row[LANE]),
            row[FP],
            fields.get("CODEC", row[CODEC]),
            data,
        )
        value = (by or self.payloads).sealed(CallId(call or self.call), n, draft)
        codec = fields.get("INTO", row[CODEC])
        return self.changed(at, VALUE=base64.b64encode(value).decode(), CODEC=codec)

    def strange(self, keys: bytes | None = None, namespace: str = "") -> Payloads:
        """The same, under another key or in another namespace."""
        known = self.payloads.sealer._keys[0][1]
        return Payloads(Sealer((keys or known,), namespace or self.namespace), Values(pickle=True, limit=1 << 20))


def dumped(row: Sequence[Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()


Spoil = Callable[[Place], list[bytes]]

SHAPES: dict[str, Spoil] = {
    "no JSON": lambda at: at.replaced(0, b"?? no entry"),
    "empty": lambda at: at.replaced(0, b""),
    "no list": lambda at: at.replaced(0, b'{"0":1}'),
    "null": lambda at: at.replaced(0, b"null"),
    "cut short": lambda at: at.replaced(1, at.entries[1][:-5]),
    "a field less": lambda at: at.replaced(1, dumped(at.rows()[1][:-1])),
    "a field more": lambda at: at.replaced(1, dumped([*at.rows()[1], 1])),
    "position as text": lambda at: at.changed(1, N="1"),
    "position as float": lambda at: at.changed(1, N=1.0),
    "position as truth": lambda at: at.changed(1, N=True),
    "huge position": lambda at: at.changed(1, N=10**400),
    "a number of too many digits": lambda at: at.replaced(1, b"[1," + b"9" * 5000 + at.entries[1][4:]),
    "round as text": lambda at: at.changed(1, ROUND="1"),
    "round as null": lambda at: at.changed(1, ROUND=None),
    "unknown kind": lambda at: at.changed(1, KIND="wish"),
    "unknown lane": lambda at: at.changed(1, LANE="fast"),
    "key as number": lambda at: at.changed(1, KEY=17),
    "value as list": lambda at: at.changed(1, VALUE=[]),
    "value no base64": lambda at: at.changed(1, VALUE="not base64!"),
    "deep": lambda at: at.replaced(1, b"[" * 20_000),
    "newer version": lambda at: at.replaced(1, dumped([3, *at.rows()[1][1:]])),
    "much newer version": lambda at: at.replaced(1, dumped([10**30, "in", "another", "shape"])),
    "version as text": lambda at: at.replaced(1, dumped(["1", *at.rows()[1][1:]])),
    "older version": lambda at: at.replaced(1, dumped([0, *at.rows()[1][1:]])),
}
"""What no entry of this release looks like: found when the journal is decoded."""

ORDERS: dict[str, Spoil] = {
    "swapped": lambda at: [at.entries[1], at.entries[0], *at.entries[2:]],
    "reversed": lambda at: at.entries[::-1],
    "duplicated at once": lambda at: [at.entries[0], *at.entries],
    "duplicated at the end": lambda at: [*at.entries, at.entries[0]],
    "the first one gone": lambda at: at.entries[1:],
    "one gone from the middle": lambda at: [*at.entries[:2], *at.entries[3:]],
}
"""Entries that stand where they did not."""


def _moved(at: Place, kind: str, key: str) -> list[bytes]:
    """The entry of the same position from another call."""
    index = at.index(kind, key)
    return at.replaced(index, at.other[index])


def _flipped(at: Place, index: int) -> list[bytes]:
    value = bytearray(base64.b64decode(at.rows()[index][VALUE]))
    value[len(value) // 2] ^= 1
    return at.changed(index, VALUE=base64.b64encode(value).decode())


def _seals(kind: str, key: str) -> dict[str, Spoil]:
    """Everything that can be wrong with one seal."""

    def with_bomb(**text: Any) -> Spoil:
        return lambda at: at.sealed(at.index(kind, key), at.bomb, INTO="pickle" if kind == "result" else "json", **text)

    name = f"{kind} {key}".strip()
    other_kind = "result" if kind != "result" else "answer"
    return {
        f"{name}: a bit flipped": lambda at: _flipped(at, at.index(kind, key)),
        f"{name}: emptied": lambda at: at.changed(at.index(kind, key), VALUE=""),
        f"{name}: emptied, without a codec": lambda at: at.changed(at.index(kind, key), VALUE="", CODEC="none"),
        f"{name}: emptied, as a pickle": lambda at: at.changed(at.index(kind, key), VALUE="", CODEC="pickle"),
        f"{name}: not sealed": lambda at: at.changed(
            at.index(kind, key), VALUE=base64.b64encode(at.bomb).decode(), CODEC="pickle"
        ),
        f"{name}: of another call": lambda at: _moved(at, kind, key),
        f"{name}: under another key": lambda at: with_bomb(by=at.strange(STRANGERS))(at),
        f"{name}: in another namespace": lambda at: with_bomb(by=at.strange(namespace="elsewhere"))(at),
        f"{name}: for another call": with_bomb(call="f" * 32),
        f"{name}: for another position": with_bomb(N=99),
        f"{name}: for another kind": with_bomb(KIND=other_kind),
        f"{name}: for another key": with_bomb(KEY="another"),
    }


def _result(codec: str, data: Callable[[Place], bytes]) -> Spoil:
    """A result in the place of `odd`, sealed right."""
    return lambda at: at.sealed(at.index("result", "odd"), data(at), CODEC=codec, INTO=codec)


VALUES: dict[str, Spoil] = {
    "a pickle of a class that is gone": _result("pickle", lambda at: b"cno_such_module_here\nGone\n."),
    "a pickle of a name that is gone": _result("pickle", lambda at: b"ctests.node.spoil\nGone\n."),
    "a pickle whose class refuses": _result("pickle", lambda at: pickle.dumps(Unset())),
    "a pickle that is cut short": _result("pickle", lambda at: pickle.dumps(("odd", 1))[:-3]),
    "a pickle of nothing": _result("pickle", lambda at: b"."),
    "an exception that is none": _result("raised-pickle", lambda at: pickle.dumps("no exception")),
    "an unknown codec": _result("msgpack", lambda at: b"\xc0"),
    "no JSON": _result("json", lambda at: b"{"),
    "an exception of an unknown class": _result(
        "raised-own", lambda at: b'{"class":"SystemExit","args":[],"with":{},"notes":[]}'
    ),
}
"""Results that this fleet did seal for their places, and that can't be made into objects."""


def _recoded(key: str, codec: str) -> Spoil:
    return lambda at: at.changed(at.index("result", key), CODEC=codec)


CODECS: dict[str, Spoil] = {
    "a failure passed off as a value": _recoded("fails", "json"),
    "a pickled failure passed off as a value": _recoded("fails oddly", "pickle"),
    "a pickled value passed off as a failure": _recoded("odd", "raised-pickle"),
    "JSON passed off as a pickle": _recoded("plain", "pickle"),
    "a codec of tomorrow": _recoded("plain", "cbor"),
}
"""A codec is no secret, but what is read by another one was never said."""

RESULTS = {**_seals("result", "plain"), **_seals("result", "odd"), **_seals("value", "uuid4:drawn")}
ANSWERS = _seals("answer", "")
SHOWN = {**_seals("ask", ""), **_seals("intent", "plain")}
"""Questions and intents: nobody reads their values, and they count all the same."""


def _made_up(kind: str, key: str, later: int) -> Spoil:
    """An entry at the end that nobody has sealed; an intent there may stand in the place of an effect in doubt."""

    def spoil(at: Place) -> list[bytes]:
        row = at.rows()[at.index(kind)]
        row[N], row[KEY], row[VALUE], row[CODEC] = len(at.entries), key or row[KEY], "", "none"
        row[ROUND] = at.rows()[-1][ROUND] + later
        return [*at.entries, dumped(row)]

    return spoil


MADE_UP: dict[str, Spoil] = {
    "a question that was asked, made up": _made_up("ask", "", 0),
    "a question of the next round, made up": _made_up("ask", "", 1),
    "another question, made up": _made_up("ask", "another", 0),
    "the intent of the next effect, made up": _made_up("intent", "after", 0),
}
EVERYTHING: dict[str, Spoil] = {**SHAPES, **ORDERS, **RESULTS, **VALUES, **CODECS}

"""Bodies drawn from a seed: a JSON value, one of the many ways to write it, and bytes that are no JSON any more."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from mcp.types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from framehold_core import token
from framehold_core.ids import CallId
from framehold_router.routing.request_facts import WITH_SAGAS

from .part import mangled

REVISION = "2026-07-28"
RESUME = "tools/resumeSaga"
META = {
    PROTOCOL_VERSION_META_KEY: REVISION,
    CLIENT_INFO_META_KEY: {"name": "fuzz", "version": "1"},
    CLIENT_CAPABILITIES_META_KEY: {"elicitation": {"form": {}}},
}
HALF = "cut \ud83d"
TEXTS = (
    "",
    "a",
    "tool",
    "größe",
    "😀",
    HALF,
    "\udc00 rest",
    "\x00\x7f",
    '"\\/\b\f\n\r\t',
    "\u2028\ufeff\uffff",
    "<&>",
    "h1.",
)
NUMBERS = (0, 1, -1, 100, 2**53, 2**53 - 1, 2**53 + 1, -(2**63), 10**30, 1.0, 1.5, -0.0, 0.1, 1e21, 1e-7, 5e-324, 1e308)
_SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPACES = ("", "", " ", "\n", "\t", "\r\n  ")
_ENCODINGS = ("utf-8",) * 5 + ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
_FRAGMENTS = (
    "NaN", "-Infinity", "-NaN", "1e", "01", "+1", "1.", ".5", "0x1", "1" * 5000, "[" * 100_000, "\x00", "\x1f", "\x0b",
    "\xa0", "//", "/**/", "'", '"', "\\", "\\u", "\\ud83d", "\\uD83G", "\\x41", ",", ",,", ":", "{", "}", "[", "]",
    "}}", "null", "True", "\ufeff", '"id":1,', '"params":{},', '"method":"ping",',
)  # fmt: skip
_PIECES = (
    *map(str.encode, _FRAGMENTS), b"{}", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x00", b"\x80", b"\xc0\xaf",
    b"\xed\xa0\xbd", b"\xf8", b"\r\n",
)  # fmt: skip


class Raw(str):
    """A value that stands as it is in the JSON text."""


RAW = (
    *(Raw("[" * depth + "]" * depth) for depth in (50, 190, 201, 250, 400, 500, 600, 700, 800)),
    *(Raw('{"":' * depth + "1" + "}" * depth) for depth in (100, 240, 450, 700)),
    *map(
        Raw, ("NaN", "Infinity", "-Infinity", "1e400", "-1e99999", "1e-400", "-0", "1E+2", "9" * 4299, "0." + "1" * 900)
    ),
)


def value(draw: Random, depth: int = 3) -> Any:
    """Any JSON value."""
    if depth and draw.random() < 0.4:
        if draw.random() < 0.5:
            return [value(draw, depth - 1) for _ in range(draw.randrange(4))]
        return {draw.choice(TEXTS): value(draw, depth - 1) for _ in range(draw.randrange(4))}
    return draw.choice([*TEXTS, *NUMBERS, *RAW, True, False, None])


def _state(draw: Random) -> Any:
    call = CallId("0123456789abcdef" * 2)
    good = token.hold(call, "sealed")
    return draw.choice(
        [good] * 6 + ["h1.x", good[:-7], token.stateless("s"), good + HALF, "", None, 5, [good], value(draw, 1)]
    )


def request(draw: Random) -> Any:
    """A request: mostly one that starts or continues a call, with a few members that may be of any kind."""
    params: Any = {"name": draw.choice(TEXTS), "arguments": {"value": value(draw)}, "_meta": {**META}}
    if draw.random() < 0.7:
        params["requestState"] = _state(draw)
    if draw.random() < 0.3:
        params["sagaToken"] = _state(draw)
    if draw.random() < 0.3:
        params["inputResponses"] = {"q": {"action": "accept", "content": value(draw)}}
    method = draw.choice(sorted(WITH_SAGAS) * 4 + ["tools/list", "ping"])
    if method == "resources/read":
        params["uri"] = params.pop("name")
    whole: Any = {"jsonrpc": "2.0", "id": draw.choice([1, "a", 2**70, *TEXTS]), "method": method, "params": params}
    for part in (whole, params, params["_meta"]):
        if draw.random() < 0.06:
            part[draw.choice([*part])] = value(draw)
        if draw.random() < 0.03:
            del part[draw.choice([*part])]
        if draw.random() < 0.1:
            part[draw.choice(TEXTS)] = value(draw)
    return whole if draw.random() < 0.98 else draw.choice([[whole], value(draw)])


class Writer:
    """Writes a value in one of the ways that say the same; `draw` chooses."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._escapes: Sequence[Callable[[str], str]] = draw.choice(
            [(_plain,), (_escaped,), (_plain, _escaped, _short)]
        )
        self._spaces = _SPACES if draw.random() < 0.3 else ("",)
        self._twice = draw.choice([0, 0, 0.1])

    def text(self, item: Any) -> str:
        """The value as JSON."""
        match item:
            case Raw():
                return str(item)
            case str():
                return '"' + "".join([self._draw.choice(self._escapes)(char) for char in item]) + '"'
            case dict():
                return "{" + ",".join(self._members(item)) + self._space() + "}"
            case list():
                return "[" + ",".join([self._space() + self.text(one) + self._space() for one in item]) + "]"
            case bool() | None:
                return json.dumps(item)
        return self._number(item)

    def _members(self, item: dict[str, Any]) -> list[str]:
        order = [*item]
        self._draw.shuffle(order)
        made = [(key, item[key]) for key in order]
        # Of a key that is there twice the last one counts.
        wrong = [(key, value(self._draw, 2)) for key in order if self._draw.random() < self._twice]
        return [self._space().join(["", self.text(key), ":", self.text(one), ""]) for key, one in wrong + made]

    def _number(self, item: float) -> str:
        if abs(item) >= 2**53 or not float(item).is_integer() or str(item) == "-0.0":
            return str(item).replace("e", self._draw.choice("eE"))
        whole = int(item)
        return self._draw.choice([f"{whole}", f"{whole}.0", f"{whole}e0", f"{whole * 100}E-2", f"{whole}.000e+00"])

    def _space(self) -> str:
        return self._draw.choice(self._spaces)

    def encoded(self, item: Any) -> bytes:
        """The value as a body, in one of the encodings that JSON may have."""
        text = self._space() + self.text(item) + self._space()
        encoding = self._draw.choice(_ENCODINGS)
        if encoding == "utf-8-sig":
            return b"\xef\xbb\xbf" + text.encode("utf-8", "surrogatepass")
        return text.encode(encoding, "surrogatepass")


def plainly(item: Any) -> str:
    """The value as JSON, in one of the ways."""
    return Writer(Random(0)).text(item)


def _plain(char: str) -> str:
    return json.dumps(char, ensure_ascii=False)[1:-1]


def _short(char: str) -> str:
    return _SHORT.get(char, _plain(char))


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join([f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2)])


def spoiled(draw: Random, data: bytes) -> bytes:
    """The body with a fault or two; it may still be JSON, and mean something else."""
    for _ in range(draw.choice((1, 1, 2))):
        data = mangled(draw, data, _PIECES)
    return data

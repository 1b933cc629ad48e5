"""The heads of requests that the entry has served, so that the next request with the same head need not be checked
again.

Two heads are the same if they have the same header names in the same order, and equal values of the headers that
decide: the host, the forms of body and reply, and the headers that repeat the body. Other values, such as a trace or a
length, differ in each request.

The law: a head is learned only after the entry has found that the SDK accepts it, and that its routing headers agree
with the body; and it is learned for one target. Clients choose their headers, so the number and the size of what is
kept are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from starlette.types import Scope

from framehold_fleet.headers import PREFIX

from ..sdk.token import Target

Headers = Sequence[tuple[bytes, bytes]]

_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_DECIDING = (b"host", b"content-type", b"accept", *_ROUTING)
_LENGTH = b"content-length"
_NEVER = {b"origin", b"transfer-encoding", b"content-encoding"}
MAX_KNOWN = 1024
"""How many heads are kept."""
MAX_BYTES = 4096
"""Bytes up to which a head is kept: it stays in memory."""
_LENGTH_DIGITS = 5
"""Digits of a content length up to which a body may be ordinary."""


class _Shape(NamedTuple):
    """Which headers a head has, in order: `pick` takes the deciding values of them, `length` is the place of the length
    of the body, and `targets` are what requests are for, by deciding values."""

    pick: Callable[[Sequence[bytes]], Any]
    length: int | None
    targets: dict[Any, Target]


class Heads:
    """The known heads of one entry."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[bytes, ...], _Shape] = {}
        self._known = 0

    def target(self, scope: Scope) -> Target | None:
        """What a request at an app's own path is for; None if its head is not known."""
        headers: Headers = scope["headers"]
        if not headers or scope.get("method") != "POST" or scope.get("root_path"):
            return None
        names, values = zip(*headers, strict=True)
        shape = self._shapes.get(names)
        if shape is None:
            return None
        if shape.length is not None and len(values[shape.length]) > _LENGTH_DIGITS:
            return None
        return shape.targets.get(shape.pick(values))

    def learn(self, headers: Headers, target: Target) -> None:
        """Keep a head that the entry has served a request for `target` with. One that leaves anything to be looked at
        is not kept: a header that is there twice, an encoded name, an internal header."""
        found = dict(headers)
        names = tuple([name for name, _ in headers])
        if len(found) != len(names) or any(name in _NEVER or name.startswith(PREFIX) for name in names):
            return
        if found.get(b"mcp-name") != target.name.encode("latin-1", "replace") or not set(_ROUTING) <= found.keys():
            return
        if sum(len(name) + len(value) for name, value in headers) > MAX_BYTES:
            return
        if self._known >= MAX_KNOWN:
            self._shapes.clear()
            self._known = 0
        shape = self._shapes.get(names) or self._shapes.setdefault(names, _shape(names))
        key = shape.pick([value for _, value in headers])
        self._known += key not in shape.targets
        shape.targets[key] = target


def _shape(names: tuple[bytes, ...]) -> _Shape:
    places = [names.index(name) for name in _DECIDING if name in names]
    return _Shape(itemgetter(*places), names.index(_LENGTH) if _LENGTH in names else None, {})

"""The figures in the field `stats` of a node lease: the node writes them with each heartbeat, routers read them.

The law: they inform, and no decision about a call needs them. A field that can't be read is None. Unknown fields are
ignored, so that nodes of a newer release may write more of them.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ..models.fields import MAX_LEASE_CHARACTERS

_MAX_NUMBER = 2**53
"""A larger number is ignored: other readers of JSON would round it."""
_COUNTS = ("descriptors", "descriptors_limit", "kept", "bound", "asleep", "released")
_PATH = re.compile(r"(?=.{0,200}\Z)(?:/[A-Za-z0-9._~%:@!$&'()*+,;=-]+)*")


class Stats(NamedTuple):
    """The figures of one node at a heartbeat. `started` is in seconds since 1970; `parked` and `in_flight` are numbers
    of calls. `clock_offset` is how many seconds the wall clock of its machine lacks to the store's clock; negative if
    it is fast. `admin_port` is where it serves its admin API, None if that is where it serves clients. `server` is the
    name of its MCP server, and `tools_digest` tells one list of tools from another. `prefix` is the path below which
    its app is mounted; empty at the root. `round_trip` is how many seconds its last heartbeats took at the store,
    and `longest_round_trip` with how many it works.
    `descriptors` is how many descriptors it has open, and `descriptors_limit` how many it may have.

    Of the calls that have asked, `kept` are re-entrant and have a frame on the node, `bound` have a frame and end with
    the process, and `asleep` have lost their frame to eviction. `released` is how many calls this process has handed
    off since its start."""

    pid: int | None = None
    parked: int | None = None
    in_flight: int | None = None
    version: str | None = None
    started: float | None = None
    clock_offset: float | None = None
    admin_port: int | None = None
    server: str | None = None
    tools_digest: str | None = None
    prefix: str | None = None
    round_trip: float | None = None
    longest_round_trip: float | None = None
    descriptors: int | None = None
    descriptors_limit: int | None = None
    kept: int | None = None
    bound: int | None = None
    asleep: int | None = None
    released: int | None = None

    def dump(self) -> str:
        """The figures as JSON, as a lease carries them."""
        fields = {name: value for name, value in self._asdict().items() if value is not None}
        return json.dumps(fields, separators=(",", ":"))


def read(text: str) -> Stats:
    """The figures from the JSON of a lease. Never raises."""
    try:
        fields: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Stats()
    if not isinstance(fields, dict):
        return Stats()
    trip, longest = _number(fields.get("round_trip")), _number(fields.get("longest_round_trip"))
    started, offset = _number(fields.get("started")), _number(fields.get("clock_offset"), least=-_MAX_NUMBER)
    return Stats(
        pid=_count(fields.get("pid")),
        parked=_count(fields.get("parked")),
        in_flight=_count(fields.get("in_flight")),
        version=_text(fields.get("version")),
        started=float(started) if started is not None else None,
        clock_offset=float(offset) if offset is not None else None,
        admin_port=port if (port := _count(fields.get("admin_port"))) and port < 65536 else None,
        server=_text(fields.get("server")),
        tools_digest=_text(fields.get("tools_digest")),
        prefix=_path(fields.get("prefix")),
        round_trip=float(trip) if trip is not None else None,
        longest_round_trip=float(longest) if longest is not None else None,
        **{name: _count(fields.get(name)) for name in _COUNTS},
    )


def _path(value: Any) -> str | None:
    """A path that may begin the target of a request; what else a lease says could be read as more than a target."""
    return value if isinstance(value, str) and _PATH.fullmatch(value) else None


def _text(value: Any) -> str | None:
    return value[:MAX_LEASE_CHARACTERS] if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None


def _number(value: Any, least: int = 0) -> int | float | None:
    """A number from `least` on. JSON's `true` is an int to Python alone; NaN fails the comparison."""
    return value if type(value) in (int, float) and least <= value <= _MAX_NUMBER else None

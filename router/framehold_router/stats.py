"""What a node says of itself in its lease's `stats`: the node writes it with each heartbeat, routers read it.

The law: it is news, and nothing rests on it. Whatever can't be read is None, field by field; unknown fields are passed
over, so that the nodes of a rolling release may say more than a router knows.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_MOST = 2**53
"""Beyond it a number is no count: other readers of JSON would round it."""
_LONGEST = 64


class Stats(NamedTuple):
    """`started` is in seconds since 1970; the counts are of the moment of the heartbeat; `seal` shows that the node has
    one of the fleet's keys (`Trust.seal`)."""

    pid: int | None = None
    parked: int | None = None
    in_flight: int | None = None
    version: str | None = None
    started: float | None = None
    seal: str | None = None

    def dump(self) -> str:
        """As the lease carries it."""
        said = {name: value for name, value in self._asdict().items() if value is not None}
        return json.dumps(said, separators=(",", ":"))


def read(text: str) -> Stats:
    """What a lease says; never raises."""
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Stats()
    if not isinstance(said, dict):
        return Stats()
    started = _number(said.get("started"))
    return Stats(
        pid=_count(said.get("pid")),
        parked=_count(said.get("parked")),
        in_flight=_count(said.get("in_flight")),
        version=_text(said.get("version")),
        started=float(started) if started is not None else None,
        seal=_text(said.get("seal")),
    )


def _text(value: Any) -> str | None:
    return value[:_LONGEST] if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None


def _number(value: Any) -> int | float | None:
    """A number from 0 on. JSON's `true` is an int to Python alone; NaN fails the comparison."""
    return value if type(value) in (int, float) and 0 <= value <= _MOST else None

"""Paused tools: when a tool is paused by itself (docs/protocol.md, rule 27).

A process that ended is held against a tool if a call of the tool was a suspect when that process took it over, and has
not moved on since: it was the only suspect that ran there. `attempts` of its record says so. The end before that one is
added once for each tool: the call ran there too, beside others. One end proves nothing: all calls of that process, of
all tools, stood there. Nor do several where a call of the tool that was taken over has moved on meanwhile: its handler
was entered again, and its process lived.
"""

from __future__ import annotations

from collections.abc import Mapping

from .requests import Record
from .value import Value

WINDOW = 600.0
"""Seconds within which the ends of processes are added up."""
OPERATOR, FRAMEHOLD = "operator", "framehold"
"""Who paused a tool."""


class Pause(Value):
    """A paused tool. `at` is in seconds since 1970, `by` is OPERATOR or FRAMEHOLD, `why` is for people."""

    tool: str
    at: float
    by: str
    why: str

    @property
    def whose(self) -> str:
        """Who paused the tool, for people: "the tool is paused by ..."."""
        return "an operator" if self.by == OPERATOR else "the server itself, since its calls ended several processes"


class Loss(Value):
    """A loss of what the store had acknowledged: when it was noticed, and when the store was last seen whole, in
    seconds since 1970. `emptied`: the store was emptied or replaced; else it went back to an older state."""

    at: float
    since: float
    emptied: bool


class Tools(Value):
    """The paused tools in order of their names, and the tools that the end of a process is held against. `loss` is the
    last loss of the store that anybody noticed, `is_first` whether this read noticed it first; `rewritten` is how many
    pauses this read has written again."""

    paused: tuple[Pause, ...] = ()
    suspected: frozenset[str] = frozenset()
    loss: Loss | None = None
    is_first: bool = False
    rewritten: int = 0


def lacking(known: Mapping[str, int | None], found: Mapping[str, int | None]) -> list[str]:
    """What the store has lost, and a reader must write again: whatever it knows in a higher version than it has found.
    None is a version that can't be read: that stands."""
    lost = []
    for name, version in known.items():
        stored = found.get(name, 0)
        if version is not None and stored is not None and stored < version:
            lost.append(name)
    return lost


def is_blamed(record: Record) -> bool:
    """Whether the end of the process that `record` names is held against the tool of the call. The caller knows that
    this process is gone."""
    return record.attempts > 1


def add_death(deaths: Mapping[str, float], boot: str, now: float) -> dict[str, float]:
    """The processes that count at `now`, and `boot`, which ended. Each is named by its boot, with the time (in seconds)
    when its end was first held against the tool."""
    return {boot: now, **{known: at for known, at in deaths.items() if at > now - WINDOW}}


def is_poison(deaths: Mapping[str, float], limit: int) -> bool:
    """Whether a tool is paused for these ends of processes; `limit` is how many processes a tool may end."""
    return len(deaths) + 1 >= limit

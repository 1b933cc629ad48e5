"""Describes in words what happens to the calls of a node that dies.

The law: the words are true.

- A call that waits in an await: if its handler is re-entrant, another node continues the call when the dead node's
  lease has run out. Otherwise the call is lost.
- A call of strategy replay, or one whose handler returned its questions, is held by no node, and goes on.

If the handlers of a server differ, or none is known, the words name each case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

_MARK = "@framehold.reentrant"
_RETURNED = "Where a tool returned its question, the call goes on at any node: none holds anything of it."
_KEPT = "go on with the code that they began with, new calls run the new code"


class OpenCalls(NamedTuple):
    """How many calls are open in all, and how many of these are of handlers that are not re-entrant."""

    total: int
    unmarked: int


@dataclass(frozen=True)
class Fate:
    """Counts of TARGET's handlers.

    `asking`: handlers that may ask in an await. `reentrant`, `replayed` and `kept`: how many of these are re-entrant,
    have strategy replay, or have code that the store keeps. `returning`: handlers that return their questions. `lease`:
    the lease's TTL in seconds."""

    asking: int
    reentrant: int
    replayed: int
    lease: float
    returning: int = 0
    kept: int = 0

    @property
    def all_kept(self) -> bool:
        return self.asking > 0 and self.kept == self.asking

    @property
    def all_replayed(self) -> bool:
        return self.asking > 0 and self.replayed == self.asking

    @property
    def all_go_on(self) -> bool:
        return self.asking > 0 and self.reentrant == self.asking

    @property
    def all_lost(self) -> bool:
        return self.asking > 0 and self.reentrant == 0

    @property
    def all_returned(self) -> bool:
        return self.returning > 0 and self.asking == 0

    def death(self) -> str:
        """The fate of one node's calls, for the line that reports its death."""
        if self.all_returned:
            return "calls whose questions were returned go on at any node"
        if self.all_replayed:
            return "calls are replayed from their tokens"
        if self.all_go_on:
            return f"calls parked on it go on once its lease ({self.lease:g} s) has run out"
        lost = "calls parked on it in an await are lost"
        return lost if self.all_lost else f"calls of re-entrant handlers go on; other {lost}"

    def reload(self, after: Fate, open_calls: OpenCalls | None = None) -> str:
        """The fate of all open calls when nodes with new code replace these nodes. `after`: the fate with the new code.
        `open_calls` is None if their number is not known."""
        if open_calls is not None and open_calls.total == 0:
            return "no call is open"
        if self.kept and open_calls is not None and self.kept == self.reentrant:
            return self._reload_kept(open_calls)
        calls = "open calls" if open_calls is None else f"open calls ({open_calls.total})"
        if self.all_returned and after.all_returned:
            return f"{calls} go on with the new code"
        if self.all_kept:
            return f"{calls} {_KEPT}"
        if self.all_go_on and after.all_go_on:
            return f"{calls} are replayed, and fail where the new code asks otherwise"
        if self.kept:
            return f"{calls} whose code is kept go on with it; other calls parked in an await are lost"
        lost = "calls parked in an await are lost"
        if not (self.all_lost or after.all_lost):
            return f"{lost}, but those that were and are re-entrant and ask the same"
        return lost if open_calls is None else f"{lost} ({open_calls.total})"

    def _reload_kept(self, open_calls: OpenCalls) -> str:
        marked = open_calls.total - open_calls.unmarked
        kept = f"open calls ({marked}) {_KEPT}"
        lost = f"open calls of tools without {_MARK} are lost ({open_calls.unmarked})"
        return "; ".join([kept] * bool(marked) + [lost] * bool(open_calls.unmarked))

    def hint(self, nodes: int) -> str:
        """What to expect when one of `nodes` (a number) is killed and the question is answered afterwards."""
        others = "Calls on other nodes don't notice, and the killed one comes back by itself." if nodes > 1 else ""
        returned = _RETURNED if self.returning or not self.asking else ""
        awaited = "" if self.all_returned else self._awaited(nodes)
        return "\n".join(filter(None, (returned, awaited, others)))

    def _awaited(self, nodes: int) -> str:
        run_out = f"once the dead one's lease ({self.lease:g} s) has run out"
        where = "on another node, or on the one that takes its place" if nodes > 1 else "when the node is back"
        if self.all_replayed:
            fate = "goes on from its token: no node holds anything of it."
        elif self.all_go_on:
            fate = (
                f"goes on {run_out}: since the tool is marked\n{_MARK}, it is entered again {where}, with all answers."
            )
        elif self.all_lost:
            fate = f"is lost and tells you so: a tool that is not marked\n{_MARK} is never run twice."
        else:
            return (
                f"If the tool awaits its answer and is marked {_MARK}, the call goes on\n{run_out}.\n"
                "If it isn't marked, the call is lost and tells you so: such a tool is never run twice."
            )
        certain = not self.returning and not self.all_lost
        return f"The call {fate}" if certain else f"If the tool awaits its answer, the call {fate}"

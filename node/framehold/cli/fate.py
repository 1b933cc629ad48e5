"""What becomes of the calls parked on a node that dies, in words.

The law: whatever is said is true. Calls of re-entrant handlers go on, on whichever node serves next, when the dead
node's lease has run out; all others are lost. Calls of strategy replay are on no node. Where handlers differ, or none
is known, the words name both.
"""

from __future__ import annotations

from dataclasses import dataclass

_MARK = "@framehold.reentrant"


@dataclass(frozen=True)
class Fate:
    """Of TARGET's handlers: how many may ask, how many of these are re-entrant, how many of strategy replay. `lease` is
    in seconds."""

    asking: int
    reentrant: int
    replayed: int
    lease: float

    @property
    def all_replayed(self) -> bool:
        return self.asking > 0 and self.replayed == self.asking

    @property
    def all_go_on(self) -> bool:
        return self.asking > 0 and self.reentrant == self.asking

    @property
    def all_lost(self) -> bool:
        return self.asking > 0 and self.reentrant == 0

    def death(self) -> str:
        """Of one node's calls, for the line that tells its death."""
        if self.all_replayed:
            return "calls are replayed from their tokens"
        if self.all_go_on:
            return f"calls parked on it go on once its lease ({self.lease:g} s) has run out"
        lost = "calls parked on it are lost"
        return lost if self.all_lost else f"{lost}, but those of re-entrant handlers"

    def reload(self, after: Fate) -> str:
        """Of all nodes' calls, where nodes with new code, hence `after`, take the place of the ones with the old."""
        if self.all_go_on and after.all_go_on:
            return "open calls are replayed, and fail where the new code asks otherwise"
        lost = "calls parked on them are lost"
        none = self.all_lost or after.all_lost
        return lost if none else f"{lost}, but those that were and are re-entrant and ask the same"

    def hint(self, nodes: int) -> str:
        """For someone who is about to kill one of so many `nodes` and to answer then."""
        others = "\nCalls on other nodes don't notice, and the killed one comes back by itself." if nodes > 1 else ""
        return self._killed(nodes) + others

    def _killed(self, nodes: int) -> str:
        run_out = f"once the dead one's lease ({self.lease:g} s) has run out"
        where = "on another node, or on the one that takes its place" if nodes > 1 else "when the node is back"
        if self.all_replayed:
            return "The call goes on from its token: no node holds anything of it."
        if self.all_go_on:
            return (
                f"The call goes on {run_out}: {_MARK} allows\nto enter the tool again, {where}, with the answers given."
            )
        if self.all_lost:
            return (
                f"The call is lost and tells you so: no tool is run twice behind your back that isn't marked\n{_MARK}."
            )
        return (
            f"If its tool is marked {_MARK}, the call goes on {run_out}.\n"
            "If not, it is lost and tells you so: no tool is run twice behind your back."
        )

"""Which servers share a namespace of the store, by their node leases.

All nodes of a fleet serve one server: a request goes to any of them. Two servers that share a namespace and the keys
look like one fleet, and a call gets the tools of either. Their names tell them apart. Where the names are equal, their
lists of tools may do it: in a rolling update nodes of one list become fewer and those of the other more; where neither
happens for STEADY seconds, it is none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from framehold_fleet.members.membership import STRANGE, Member

_log = logging.getLogger(__name__)

STEADY = 600.0
"""Seconds for which two lists of tools may stand beside each other until they count as those of two servers."""
_TWO = (
    "%d servers share one namespace of the store (%.500s): a request may reach a server that has no such tool; give "
    "each a FRAMEHOLD_NAMESPACE of its own, and its routers too"
)


class Identities:
    """What a router has seen of the servers of its nodes. `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.servers: tuple[str, ...] = ()
        """The names of the servers of all nodes with a lease."""
        self._lists: dict[str, tuple[str, ...]] = {}
        self._since = clock()

    @property
    def are_steady(self) -> bool:
        """Whether the nodes of each list of tools have been the same for STEADY seconds."""
        return self._clock() - self._since >= STEADY

    def look(self, members: Iterable[Member]) -> None:
        """Take in a view of the fleet that was just read."""
        ours = [member for member in members if member.state != STRANGE]
        named = grouped((member.stats.server, str(member.node)) for member in ours)
        if len(named) > 1 and tuple(named) != self.servers:
            _log.warning(_TWO, len(named), "; ".join(f"{name}: {', '.join(nodes)}" for name, nodes in named.items()))
        self.servers = tuple(named)
        lists = grouped((member.stats.tools_digest, str(member.node)) for member in ours)
        if lists != self._lists:
            self._lists, self._since = lists, self._clock()


def grouped(nodes: Iterable[tuple[str | None, str]]) -> dict[str, tuple[str, ...]]:
    """The names of nodes by what each reports, both in order. Nodes that report nothing are left out."""
    found: dict[str, list[str]] = {}
    for what, node in sorted((what, node) for what, node in nodes if what):
        found.setdefault(what, []).append(node)
    return {what: tuple(names) for what, names in found.items()}

"""Keeps the names of tools in a meter equal to the names that the nodes report.

The law: nodes are asked in the background, never for a request, and no request waits for them. Until they have answered
all tools are counted as `other`. Nodes are asked every PERIOD seconds, and when a node comes or goes; then once more
after SOON seconds, because a node has its lease before it can answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from framehold_fleet.members.membership import Fleet, Membership
from framehold_fleet.models.nodes import NodeStatus

_log = logging.getLogger(__name__)

PERIOD = 15.0
SOON = 1.0


async def follow(
    membership: Membership,
    nodes: Callable[[], Awaitable[Iterable[NodeStatus]]],
    set_tools: Callable[[set[str]], None],
) -> None:
    """Ask all nodes by `nodes` again and again, and give the names of all their tools to `set_tools`. Never returns:
    cancel it."""
    pause = SOON
    while True:
        lives = _lives(membership.fleet)
        try:
            set_tools({name for node in await nodes() for name in node.tools})
        except Exception:
            _log.exception("a bug in asking nodes for their tools; metrics go on with the names that are known")
        try:
            async with asyncio.timeout(pause):
                await membership.wait(lambda fleet: _lives(fleet) != lives)  # noqa: B023 - done before it changes
            pause = SOON
        except TimeoutError:
            pause = PERIOD


def _lives(fleet: Fleet) -> set[tuple[str, str]]:
    return {(member.node, member.boot) for member in fleet.members.values()}

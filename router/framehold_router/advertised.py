"""Keeps a meter's names of tools those that the nodes advertise.

The law: nodes are asked now and then, never for a request, and nothing waits for them: until they have answered all
tools are `other`. They are asked each PERIOD seconds, and when a node comes or goes; then once more after SOON, since
a node has its lease before it answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from .membership import Fleet, Membership

_log = logging.getLogger(__name__)

PERIOD = 15.0
SOON = 1.0


class Says(Protocol):
    """A node, as far as it matters here."""

    @property
    def tools(self) -> tuple[str, ...]: ...


async def follow(
    membership: Membership, ask: Callable[[], Awaitable[Iterable[Says]]], tell: Callable[[set[str]], None]
) -> None:
    """`ask` all nodes for as long as this runs, and `tell` their tools."""
    pause = SOON
    while True:
        lives = _lives(membership.fleet)
        try:
            tell({name for said in await ask() for name in said.tools})
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

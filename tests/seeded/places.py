"""The places at which a schedule may strike a process: each await of the node, and each message to the store.

    1. the awaits are found by the syntax trees of the modules; each passes through here
    2. a plan aims at some places. The n-th time that a process comes to one it is killed, before or after what is
       awaited there, or it stands still, or a client that it serves leaves, or its line to the store is cut
    3. each visit is counted, so that one sees which places no schedule has come to

A message has two places: where it is sent, and where it was applied and its reply did not leave yet.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from framehold_core import requests
from tests.kit.processes import ROOT
from tests.node.injecting import Injector, Site

from .loop import OWNER
from .plan import KILL, LATE, STAND, WRITES

ROOMS = ("engine", "frame", "engine/doors")
"""The rooms of the node whose awaits are places."""
SENT, APPLIED = "sent", "applied"
_METHODS = ("register", "unregister", "nodes", "scan", "tools", "cleared", "pause", "resume", "died")
_CODE = ("keep_code", "code")
MESSAGES = (*_METHODS, *_CODE, "Read", "renew", *WRITES)
"""The messages to the store, by their requests or methods. Renewals and the writes of calls come last."""


class Places(Injector):
    """Knows each place by its number."""

    def __init__(self) -> None:
        super().__init__()
        self.reach: Callable[[int, str], str] = lambda place, owner: ""
        """Is told that a process has come to a place; what is done to it there, empty if nothing is."""
        self.kill: Callable[[str], None] = lambda owner: None
        """Kills a process."""
        self.visits: Counter[int] = Counter()
        self.struck: Counter[int] = Counter()
        self._numbers: dict[tuple[str, int], int] = {}
        self._messages: dict[tuple[str, str], int] = {}
        self.went_on: set[asyncio.Task[Any] | None] = set()
        """Tasks that do what they were about to do when their process stood still: nothing is looked at in between."""
        self._kept: list[Any] = []

    def install_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have each await of the node pass through here."""
        assert all(hasattr(requests, name) for name in WRITES)
        for room in ROOMS:
            folder = ROOT / "node/framehold" / room
            self.install(sorted(folder.glob("*.py")), f"framehold.{room.replace('/', '.')}", monkeypatch)
        self._numbers = {name: number for number, name in enumerate(self._by_number)}
        for name in MESSAGES:
            for kind in (SENT, APPLIED):
                self._messages[name, kind] = len(self.sites)
                self.sites.append(Site("store", 0, kind, name))

    def message(self, name: str, kind: str, owner: str) -> str:
        """A message of a process is sent, or was applied. What is done there."""
        number = self._messages.get((name, kind))
        strike = "" if number is None else self._reached(number, owner)
        if strike == LATE:
            self.kill(owner)
        return strike

    def _reached(self, number: int, owner: str) -> str:
        self.visits[number] += 1
        strike = self.reach(number, owner)
        if strike:
            self.struck[number] += 1
        return strike

    def _hit(self, number: tuple[str, int]) -> bool:
        self._reached(self._numbers[number], OWNER.get())
        return False

    def awaited(self, number: tuple[str, int], awaitable: Awaitable[Any]) -> Awaitable[Any]:
        strike = self._reached(self._numbers[number], OWNER.get())
        return self._struck(strike, awaitable) if strike else awaitable

    async def _struck(self, strike: str, awaitable: Awaitable[Any]) -> Any:
        # A coroutine that nobody keeps is closed, and runs its `finally`: no process that was killed does.
        self._kept.append(awaitable)
        if strike == KILL:
            await never()
        if strike == STAND:
            await asyncio.sleep(0)
            return await self._went_on(awaitable)
        found = await awaitable
        if strike == LATE:
            self.kill(OWNER.get())
            await never()
        return found

    async def _went_on(self, awaitable: Awaitable[Any]) -> Any:
        task = asyncio.current_task()
        self.went_on.add(task)
        try:
            return await awaitable
        finally:
            self.went_on.discard(task)


async def never() -> None:
    """Wait for nothing that will come: the process was killed."""
    await asyncio.get_running_loop().create_future()

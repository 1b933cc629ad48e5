"""Deploy after deploy under load: no call is lost, none takes a wrong branch, and no effect runs twice."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.fleet.fleet import Fleet
from tests.fleet.ledger import VARIABLE, Ledger
from tests.fleet.releases import CHANGES, SERVERS, Release
from tests.store.server import RedisServer, running
from tests.wire import Caller, Reply, accepted

pytestmark = [pytest.mark.anyio, pytest.mark.fleet, pytest.mark.nightly]
USERS = 20


class Users:
    """Each begins a call, thinks, answers twice, and begins the next. `ends` has what each call said, `begun` what it
    was asked first. `kept` counts the calls that ended with kept code."""

    def __init__(self, caller: Caller, luck: random.Random) -> None:
        self._caller, self._luck = caller, luck
        self.over = False
        self.begun: dict[str, str] = {}
        self.ends: dict[str, str] = {}
        self.kept = 0

    async def one(self, number: int) -> None:
        for call in itertools.count():
            if self.over:
                return
            who = f"u{number}c{call}"
            named = {"arguments": {"who": who}}
            reply = await self._sent(partial(self._caller.call, "tool", **named))
            while "requestState" in reply.result:
                self.begun.setdefault(who, reply.messages[0])
                await asyncio.sleep(self._luck.random() * 4)
                answers = {key: accepted(word="w") for key in reply.asked}
                reply = await self._sent(partial(self._caller.retry, "tool", reply.token, answers, **named))
            self.ends[who] = reply.text
            self.kept += reply.headers.get("framehold-code") == "kept"

    async def _sent(self, send: Callable[[], Awaitable[Reply]]) -> Reply:
        """Send until there is a result."""
        for _ in range(100):
            try:
                reply = await send()
            except httpx2.HTTPError:
                await asyncio.sleep(0.2)
                continue
            if "result" in reply.message:
                return reply
            await asyncio.sleep(0.2)
        raise AssertionError("no result after a hundred requests")


@pytest.mark.parametrize("kind", SERVERS)
async def test_deploys_change_no_call(kind: str, tmp_path: Path) -> None:
    luck = random.Random(f"{kind} 1")
    changes = [*luck.sample(CHANGES, len(CHANGES)), luck.choice(CHANGES)]
    ledger, release = Ledger(tmp_path / "ledger"), Release()
    releases = [release]
    with running(RedisServer()) as redis:
        fleet = Fleet(tmp_path, redis, release.write(tmp_path / "r1", kind), lease_ttl="2")
        fleet.common[VARIABLE] = str(ledger.path)
        try:
            await fleet.start_nodes("n1a", "n1b")
            async with Caller((await fleet.add_router()).url) as caller:
                users = Users(caller, luck)
                running_ = [asyncio.create_task(users.one(number)) for number in range(USERS)]
                for change in changes:
                    await asyncio.sleep(1)
                    release = release.changed(change)
                    releases.append(release)
                    fleet.target = release.write(tmp_path / f"r{release.number}", kind)
                    for name, old in zip("ab", list(fleet.nodes), strict=True):
                        await fleet.start_nodes(f"n{release.number}{name}")
                        await asyncio.to_thread(fleet.nodes.pop(old).stop)
                users.over = True
                await asyncio.gather(*running_)
        finally:
            fleet.stop()
    ends = {who: {item.end(who) for item in releases if users.begun[who] == f"{item.body} one?"} for who in users.ends}
    assert {who: text for who, text in users.ends.items() if text not in ends[who]} == {}, changes
    effects = Counter((line.call, line.key) for line in ledger.lines() if line.what == "effect")
    assert {pair: count for pair, count in effects.items() if count > 1 or pair[1] == "charge"} == {}
    assert len(users.ends) >= USERS and users.kept >= USERS
    print(f"{kind}: {len(users.ends)} calls, {users.kept} ended with kept code, changes {changes}")

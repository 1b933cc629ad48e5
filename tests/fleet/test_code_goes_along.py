"""Deploys in the middle of calls: each goes on with the code that it began with (docs/protocol.md, rule 28)."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from framehold_core.token import named
from tests.fleet.ledger import VARIABLE, Ledger
from tests.fleet.releases import CHANGES, SERVERS, Release
from tests.fleet.trial import taken
from tests.kit.client import Caller, Reply, accepted
from tests.kit.fleet import Fleet
from tests.kit.redis_server import RedisServer, running

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]
CALLS, USERS = 50, 20
OLD = Release()
NEW = replace(OLD.changed("body"), tools=("tool",))
"""It asks something else, and lacks a tool."""
GONE = {"MCPServer": "This call was lost.", "FastMCP": "Unknown tool: 'gone'"}
"""What a client hears of a tool that is gone, and whose code is not kept."""


class Order:
    """One call of a tool of the releases; each of its questions is answered with `w`."""

    def __init__(self, caller: Caller, who: str, tool: str = "tool") -> None:
        self._caller, self._tool, self.who = caller, tool, who
        self.heard: Reply

    async def begin(self) -> Reply:
        self.heard = await taken(partial(self._caller.call, self._tool, arguments={"who": self.who}))
        return self.heard

    async def answer(self) -> Reply:
        answers, arguments = {key: accepted(word="w") for key in self.heard.asked}, {"who": self.who}
        retry = partial(self._caller.retry, self._tool, self.heard.token, answers, arguments=arguments)
        reply = await taken(retry)
        if "requestState" in reply.message.get("result", {}):
            self.heard = reply
        return reply


class Deployed:
    """Nodes that are replaced by nodes with another release, and the ledger of their tools."""

    def __init__(self, folder: Path, kind: str, redis: RedisServer, **settings: str) -> None:
        self._folder, self._kind = folder, kind
        self.ledger = Ledger(folder / "ledger")
        self._names = (f"n{number}" for number in itertools.count(1))
        self.fleet = Fleet(folder, redis, OLD.write(folder / "r1", kind), **settings)
        self.fleet.common[VARIABLE] = str(self.ledger.path)

    async def start(self, count: int = 2) -> None:
        """Start nodes of the present release."""
        await self.fleet.start_nodes(*itertools.islice(self._names, count))

    def release(self, release: Release) -> None:
        """Nodes that are started from now on have this release."""
        self.fleet.target = release.write(self._folder / f"r{release.number}", self._kind)

    async def deploy(self, count: int = 2) -> None:
        """Kill so many nodes, and start as many with the new release."""
        self.release(NEW)
        for name in list(self.fleet.nodes)[:count]:
            self.fleet.nodes.pop(name).kill()
        await self.start(count)
        await self.fleet.routers[0].knows(*self.fleet.nodes)

    async def trail(self, token: str) -> list[dict[str, Any]]:
        """The steps of a call, as a router has them."""
        async with httpx2.AsyncClient() as http:
            call = await http.get(f"{self.fleet.routers[0].root}/api/v1/leases/{named(token)}")
        steps: list[dict[str, Any]] = call.json()["trail"]
        return steps


@asynccontextmanager
async def deployed(folder: Path, kind: str, **settings: str) -> AsyncIterator[tuple[Deployed, Caller]]:
    """Two nodes of the old release, and a client of their router."""
    with running(RedisServer()) as redis:
        made = Deployed(folder, kind, redis, **({"lease_ttl": "1"} | settings))
        try:
            await made.start()
            async with Caller((await made.fleet.add_router()).url) as caller:
                yield made, caller
        finally:
            made.fleet.stop()


@pytest.mark.parametrize("kind", GONE)
async def test_parked_calls_end_as_the_old_code_says_and_new_ones_as_the_new_code(kind: str, tmp_path: Path) -> None:
    async with deployed(tmp_path, kind) as (made, caller):
        calls = [*(Order(caller, f"call-{number}") for number in range(CALLS)), Order(caller, "gone", "gone")]
        await asyncio.gather(*(call.begin() for call in calls))
        # Half of them wait in their second round.
        await asyncio.gather(*(call.answer() for call in calls[::2]))
        await made.deploy()
        for call in calls[1::2]:
            assert (await call.answer()).messages == [f"{OLD.body} two?"]
        ends = await asyncio.gather(*(call.answer() for call in calls))
        assert [end.text for end in ends] == [OLD.end(call.who) for call in calls]
        fresh = Order(caller, "fresh")
        assert (await fresh.begin()).messages == [f"{NEW.body} one?"]
        await fresh.answer()
        assert (await fresh.answer()).text == NEW.end("fresh")
        for call in (*calls, fresh):
            assert made.ledger.effects(call.who) == ["place", "reserve", "ship"]
        trail = await made.trail(calls[0].heard.token)
        assert [(step["step"], step["kept_code"]) for step in trail] == [
            ("parked", False), ("parked", False), ("claimed", True), ("finished", False)
        ]  # fmt: skip


# The other kind is a matter of what is kept, as the test above has it for both.
@pytest.mark.parametrize("kind", ("MCPServer", pytest.param("FastMCP", marks=pytest.mark.nightly)))
async def test_without_kept_code_they_diverge_by_name_and_nothing_runs_twice(kind: str, tmp_path: Path) -> None:
    async with deployed(tmp_path, kind, keep_code="false") as (made, caller):
        calls, gone = [Order(caller, f"call-{number}") for number in range(5)], Order(caller, "gone", "gone")
        await asyncio.gather(*(call.begin() for call in (*calls, gone)))
        await made.deploy()
        assert (await gone.answer()).text.startswith(GONE[kind])
        for call in calls:
            result = await call.answer()
            assert result.result["isError"] and "came to something else than it did before" in result.text
            assert made.ledger.effects(call.who) == ["place", "reserve"]
        assert "its code changed since then" in "".join(node.log() for node in made.fleet.nodes.values())


async def test_a_node_that_still_has_the_code_carries_on_what_is_not_kept(tmp_path: Path) -> None:
    """Half of the fleet is new when a node dies: its calls end at the old half, whoever gets their retries."""
    async with deployed(tmp_path, "MCPServer", keep_code="false") as (made, caller):
        calls = [Order(caller, f"call-{number}") for number in range(20)]
        await asyncio.gather(*(call.begin() for call in calls))
        assert {call.heard.headers["framehold-node"] for call in calls} == {"n1", "n2"}
        await made.deploy(1)
        for call in calls:
            await call.answer()
        ends = await asyncio.gather(*(call.answer() for call in calls))
        assert [end.text for end in ends] == [OLD.end(call.who) for call in calls]
        for call in calls:
            assert made.ledger.effects(call.who) == ["place", "reserve", "ship"]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", SERVERS)
async def test_deploys_change_no_call(kind: str, tmp_path: Path) -> None:
    """Deploy after deploy under load: no call is lost, none takes a wrong branch, and no effect runs twice."""
    luck = random.Random(f"{kind} 1")
    changes = [*luck.sample(CHANGES, len(CHANGES)), luck.choice(CHANGES)]
    release, releases, over = OLD, [OLD], asyncio.Event()
    begun, ends, kept = dict[str, str](), dict[str, str](), Counter[bool]()

    async def user(number: int) -> None:
        for count in itertools.count():
            if over.is_set():
                return
            call = Order(caller, f"u{number}c{count}")
            reply = await call.begin()
            begun[call.who] = reply.messages[0]
            while "requestState" in reply.result:
                await asyncio.sleep(luck.random() * 4)
                reply = await call.answer()
            ends[call.who] = reply.text
            kept[reply.headers.get("framehold-code") == "kept"] += 1

    async with deployed(tmp_path, kind, lease_ttl="2") as (made, caller), asyncio.TaskGroup() as group:
        for number in range(USERS):
            group.create_task(user(number))
        for change in changes:
            await asyncio.sleep(1)
            releases.append(release := release.changed(change))
            made.release(release)
            for old in list(made.fleet.nodes):
                await made.start(1)
                await asyncio.to_thread(made.fleet.nodes.pop(old).stop)
        over.set()
    may = {who: {item.end(who) for item in releases if begun[who] == f"{item.body} one?"} for who in ends}
    assert {who: text for who, text in ends.items() if text not in may[who]} == {}, changes
    effects = Counter((line.call, line.key) for line in made.ledger.lines() if line.what == "effect")
    assert {pair: count for pair, count in effects.items() if count > 1 or pair[1] == "charge"} == {}
    assert len(ends) >= USERS and kept[True] >= USERS
    print(f"{kind}: {len(ends)} calls, {kept[True]} ended with kept code, changes {changes}")

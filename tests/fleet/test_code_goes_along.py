"""A deploy in the middle of calls: each goes on with the code that it began with (docs/protocol.md, rule 28)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from framehold_core.token import named
from tests.fleet.fleet import Fleet
from tests.fleet.ledger import VARIABLE, Ledger
from tests.fleet.shop import KINDS, write
from tests.fleet.shopper import Shopper
from tests.store.server import RedisServer, running
from tests.wire import Caller

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]
CALLS = 50
GONE = {"MCPServer": "This call was lost.", "FastMCP": "Unknown tool: 'gone'"}
"""What a client hears of a tool that is gone, and whose code is not kept."""


class Deployed:
    """A fleet whose nodes are replaced by nodes with changed code, and the ledger of its tools."""

    def __init__(self, folder: Path, kind: str, redis: RedisServer, **settings: str) -> None:
        self.ledger = Ledger(folder / "ledger")
        releases = (("before", False), ("after", True))
        self._files = [str(write(folder / name, kind, changed)) for name, changed in releases]
        self._names = (f"n{number}" for number in itertools.count(1))
        self.fleet = Fleet(folder, redis, self._files[0], lease_ttl="1", **settings)
        self.fleet.common[VARIABLE] = str(self.ledger.path)

    async def start(self) -> Caller:
        await self.fleet.start_nodes(next(self._names), next(self._names), WHERE="Bonn")
        router = await self.fleet.add_router()
        return Caller(router.url)

    async def deploy(self) -> None:
        """Kill all nodes, and start others with the changed code."""
        self.fleet.target = self._files[1]
        for name in list(self.fleet.nodes):
            self.fleet.nodes.pop(name).kill()
        await self._add(2)

    async def _add(self, count: int) -> list[str]:
        names = list(itertools.islice(self._names, count))
        await self.fleet.add_nodes(*names, WHERE="Rome")
        return names

    async def deploy_to_half(self) -> None:
        """Start a node with the changed code, and kill the first of the others."""
        self.fleet.target = self._files[1]
        (new,) = await self._add(1)
        self.fleet.nodes.pop(next(iter(self.fleet.nodes))).kill()
        assert new in self.fleet.nodes and len(self.fleet.nodes) == 2

    async def trail(self, token: str) -> list[dict[str, Any]]:
        """The steps of a call, as a router has them."""
        async with httpx2.AsyncClient() as http:
            call = await http.get(f"{self.fleet.routers[0].root}/api/v1/leases/{named(token)}")
        steps: list[dict[str, Any]] = call.json()["trail"]
        return steps

    def logs(self) -> str:
        return "".join(node.log() for node in self.fleet.nodes.values())


@asynccontextmanager
async def deployed(folder: Path, kind: str, **settings: str) -> AsyncIterator[tuple[Deployed, Caller]]:
    with running(RedisServer()) as redis:
        made = Deployed(folder, kind, redis, **settings)
        try:
            async with await made.start() as caller:
                yield made, caller
        finally:
            made.fleet.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_parked_calls_end_as_the_old_code_says_and_new_ones_as_the_new_code(kind: str, tmp_path: Path) -> None:
    async with deployed(tmp_path, kind) as (made, caller):
        calls = [Shopper(caller, "buy", f"call-{number}") for number in range(CALLS)]
        await asyncio.gather(*(call.begin() for call in calls))
        # Half of them wait in their second round.
        await asyncio.gather(*(call.answer(count=2) for call in calls[::2]))
        gone = Shopper(caller, "gone", "gone")
        await gone.begin()
        await made.deploy()

        assert (await gone.answer(count=5)).text == "gone: gone, 15"
        for call in calls[1::2]:
            reply = await call.answer(count=2)
            assert reply.messages == [f"{call.name}: 6 for all, how many more?"]
        ends = await asyncio.gather(*(call.answer(count=4) for call in calls))
        assert [end.text for end in ends] == [f"{call.name}: old, 18, the old till in Rome" for call in calls]
        for call in calls:
            assert made.ledger.effects(call.name) == ["reserve", "charge", "send"]

        trail = await made.trail(calls[0].heard.token)
        assert [(step["step"], step["kept_code"]) for step in trail] == [
            ("parked", False), ("parked", False), ("claimed", True), ("finished", False)
        ]  # fmt: skip

        fresh = Shopper(caller, "buy", "fresh")
        assert (await fresh.begin()).messages == ["fresh: how many, and which colour?"]
        await fresh.answer(count=2, colour="red")
        end = await fresh.answer(count=4, colour="red")
        assert end.text == f"fresh: new, {-106 * 700}, the new till in Rome"
        assert made.ledger.effects("fresh") == ["charge", "reserve", "send"]


# The other kind is a matter of what is kept, as the test above has it for both.
@pytest.mark.parametrize("kind", ("MCPServer", pytest.param("FastMCP", marks=pytest.mark.nightly)))
async def test_without_kept_code_they_diverge_by_name_and_nothing_runs_twice(kind: str, tmp_path: Path) -> None:
    async with deployed(tmp_path, kind, keep_code="false") as (made, caller):
        calls = [Shopper(caller, "buy", f"call-{number}") for number in range(5)]
        gone = Shopper(caller, "gone", "gone")
        await asyncio.gather(*(call.begin() for call in (*calls, gone)))
        await made.deploy()
        assert (await gone.answer(count=5)).text.startswith(GONE[kind])
        for call in calls:
            result = await call.answer(count=2)
            assert result.result["isError"] and "came to something else than it did before" in result.text
            assert made.ledger.effects(call.name) == ["reserve"]
        assert "its code changed since then" in made.logs()


async def test_a_node_that_still_has_the_code_carries_on_what_is_not_kept(tmp_path: Path) -> None:
    """Half of the fleet is new when a node dies: its calls end at the old half, whoever gets their retries."""
    async with deployed(tmp_path, "MCPServer", keep_code="false") as (made, caller):
        calls = [Shopper(caller, "buy", f"call-{number}") for number in range(20)]
        await asyncio.gather(*(call.begin() for call in calls))
        first = next(iter(made.fleet.nodes))
        assert {call.heard.headers["framehold-node"] for call in calls} > {first}, "calls of both old nodes"
        await made.deploy_to_half()
        for call in calls:
            await call.answer(count=2)
        ends = await asyncio.gather(*(call.answer(count=4) for call in calls))
        assert [end.text for end in ends] == [f"{call.name}: old, 18, the old till in Bonn" for call in calls]
        for call in calls:
            assert made.ledger.effects(call.name) == ["reserve", "charge", "send"]

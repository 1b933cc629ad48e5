"""A deploy in the middle of calls: each goes on with the code that it began with (docs/protocol.md, rule 28)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.fleet import Fleet
from tests.fleet.ledger import VARIABLE, Ledger
from tests.fleet.shop import KINDS, write
from tests.processes import DEADLINE
from tests.store.server import RedisServer, running
from tests.wire import Caller, Heard, accepted

pytestmark = pytest.mark.anyio
CALLS = 50
GONE = {"MCPServer": "This call was lost.", "FastMCP": "Unknown tool: 'gone'"}
"""What a client hears of a tool that is gone, and whose code is not kept."""


class Shopper:
    """One call of a tool of the shop."""

    def __init__(self, caller: Caller, tool: str, name: str) -> None:
        self._caller, self._tool, self.name = caller, tool, name
        self.heard: Heard

    async def begin(self) -> Heard:
        """Round 1."""
        return await self.send()

    async def answer(self, **content: Any) -> Heard:
        """Answer what was asked, until the answer is taken."""
        (key,) = self.heard.asked
        params = {"requestState": self.heard.token, "inputResponses": {key: accepted(**content)}}
        async with asyncio.timeout(DEADLINE):
            while (heard := await self.send(**params)).status == 503:
                await asyncio.sleep(0.05)
        return heard

    async def send(self, **params: Any) -> Heard:
        whole = {"name": self._tool, "arguments": {"name": self.name}, **params}
        heard = await self._caller.send("tools/call", whole)
        if heard.message.get("result", {}).get("resultType") == "input_required":
            self.heard = heard
        return heard


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
        await self.fleet.add_nodes(next(self._names), next(self._names), WHERE="Rome")

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
            heard = await call.answer(count=2)
            assert heard.messages == [f"{call.name}: 6 for all, how many more?"]
        ends = await asyncio.gather(*(call.answer(count=4) for call in calls))
        assert [end.text for end in ends] == [f"{call.name}: old, 18, the old till in Rome" for call in calls]
        for call in calls:
            assert made.ledger.effects(call.name) == ["reserve", "charge", "send"]

        fresh = Shopper(caller, "buy", "fresh")
        assert (await fresh.begin()).messages == ["fresh: how many, and which colour?"]
        await fresh.answer(count=2, colour="red")
        end = await fresh.answer(count=4, colour="red")
        assert end.text == f"fresh: new, {-106 * 700}, the new till in Rome"
        assert made.ledger.effects("fresh") == ["charge", "reserve", "send"]


@pytest.mark.parametrize("kind", KINDS)
async def test_without_kept_code_they_diverge_by_name_and_nothing_runs_twice(kind: str, tmp_path: Path) -> None:
    async with deployed(tmp_path, kind, keep_code="false") as (made, caller):
        calls = [Shopper(caller, "buy", f"call-{number}") for number in range(5)]
        gone = Shopper(caller, "gone", "gone")
        await asyncio.gather(*(call.begin() for call in (*calls, gone)))
        await made.deploy()
        assert (await gone.answer(count=5)).text.startswith(GONE[kind])
        for call in calls:
            told = await call.answer(count=2)
            assert told.result["isError"] and "came to something else than it did before" in told.text
            assert made.ledger.effects(call.name) == ["reserve"]
        assert "its code changed since then" in made.logs()

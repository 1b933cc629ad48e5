"""Effects under `once` for clients of 2025."""

from __future__ import annotations

import asyncio
import threading

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold_core.errors import (
    AskError,
    InDoubt,
    KeyReused,
    ResultNotKept,
)
from tests.node.acting import Effects, Own, failure
from tests.node.stage import Word, said, stage
from tests.node.wires.official import hears

pytestmark = pytest.mark.anyio


async def test_a_client_of_2025_is_served_alike() -> None:
    """once, now, uuid4, random, idempotency_key and their errors: as on the present wire."""
    effects = Effects()

    async def breaks_off() -> None:
        effects.ran.append("broke off")
        raise asyncio.CancelledError

    def fails() -> None:
        raise Own("no", code=7)

    async def nested() -> None:
        await framehold.once("below", effects.note, "below")

    @framehold.reentrant
    async def old(ctx: Context) -> str:
        one, two = await asyncio.gather(*(framehold.once("k", effects.note) for _ in range(2)))
        assert one == two == ["it"] and one is not two
        word = said(await ctx.elicit("well?", Word))
        assert isinstance(await failure(framehold.once("k", effects.note, "other")), KeyReused)
        for _ in range(2):
            error = await failure(framehold.once("f", fails))
            assert isinstance(error, Own) and error.code == 7
            assert isinstance(await failure(framehold.once("n", nested)), AskError)
            assert isinstance(await failure(framehold.once("l", threading.Lock)), ResultNotKept)
            error = await failure(framehold.once("doubt", breaks_off))
            assert type(error) is InDoubt, repr(error)
        assert framehold.uuid4("x") == framehold.uuid4("x") != framehold.uuid4() != framehold.uuid4()
        assert framehold.now("a") == framehold.now("a") <= framehold.now()
        assert 0 <= framehold.random() < 1 and framehold.now().tzinfo is not None
        assert framehold.idempotency_key("k") == framehold.idempotency_key("k") != framehold.idempotency_key("l")
        return word

    async with stage(old) as client:
        assert await asyncio.wait_for(hears(client.url, "legacy", "old"), 10) == "<well?>"
        assert client.runtime.store.request_counts.get("intent", 0) == 0
    assert effects.ran == ["it", "broke off"]

"""What an effect under `once` may come to, and what is kept of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold_core.errors import (
    EffectFailed,
    InDoubt,
    LimitExceeded,
    ResultNotKept,
)
from tests.kit.effects import SOON, Effects, Own, completed, each_way, failure
from tests.kit.serving import Word, said, serving

pytestmark = pytest.mark.anyio


class Odd(BaseException):
    """No Exception."""


@each_way
@pytest.mark.parametrize("how", ["cancelled", "base"])
@pytest.mark.parametrize("sync", [False, True], ids=["coroutine", "thread"])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_an_effect_that_breaks_off_is_in_doubt(
    settings: dict[str, Any], how: str, sync: bool, idempotent: bool
) -> None:
    """What is no Exception is no outcome: InDoubt is recorded, heard in each entry and by each who asks again, and it
    does not run again. Its text says what broke it off."""
    effects = Effects()

    def breaks() -> None:
        effects.ran.append("it")
        raise asyncio.CancelledError if how == "cancelled" else Odd("odd")

    async def breaks_off() -> None:
        breaks()

    @framehold.reentrant
    async def doubtful(ctx: Context) -> str:
        for word in ("one", "two"):
            for _ in range(2):
                error = await failure(framehold.once("k", breaks if sync else breaks_off, idempotent=idempotent))
                assert type(error) is InDoubt, repr(error)
                broken_by = "CancelledError" if how == "cancelled" else "Odd"
                assert f"once('k') broke off from within by {broken_by}" in str(error)
            said(await ctx.elicit(word, Word))
        return "fine"

    async with serving(doubtful, **settings) as client:
        assert (await asyncio.wait_for(completed(client, "doubtful"), SOON)).text == "fine"
        assert not len(client.runtime.table)
    assert effects.ran == ["it"]


@each_way
@pytest.mark.parametrize("sync", [False, True], ids=["coroutine", "thread"])
async def test_an_effect_that_raises_stop_iteration(settings: dict[str, Any], sync: bool) -> None:
    """As from a bare `next(...)`: it is an outcome too, and nobody waits for ever."""

    def stops() -> None:
        next(iter(()))

    async def stops_within() -> None:
        stops()

    @framehold.reentrant
    async def stopping(ctx: Context) -> str:
        for word in ("one", "two"):
            error = await failure(framehold.once("k", stops if sync else stops_within))
            assert type(error).__name__ in ("StopIteration", "RuntimeError", "EffectFailed"), error
            said(await ctx.elicit(word, Word))
        return "fine"

    async with serving(stopping, **settings) as client:
        assert (await asyncio.wait_for(completed(client, "stopping"), SOON)).text == "fine"


@each_way
@pytest.mark.parametrize("case", ["large", "unpicklable", "no pickles", "raises own", "raises own, no pickles"])
async def test_a_result_that_can_not_be_kept_is_recorded_as_such(settings: dict[str, Any], case: str) -> None:
    """ResultNotKept, or EffectFailed, is the recorded outcome: heard in each entry alike, and nothing runs again."""
    effects, texts = Effects(), set()

    def effect() -> Any:
        effects.ran.append(case)
        if case.startswith("raises"):
            raise Own("no", code=7)
        return {"large": "x" * 2000, "unpicklable": threading.Lock(), "no pickles": (1, 2)}[case]

    wanted: dict[str, type[Exception]] = {"raises own": Own, "raises own, no pickles": EffectFailed}

    @framehold.reentrant
    async def hard(ctx: Context) -> str:
        for word in ("one", "two"):
            error = await failure(framehold.once("k", effect))
            assert type(error) is wanted.get(case, ResultNotKept), repr(error)
            texts.add(str(error))
            if isinstance(error, Own):
                assert error.code == 7
            if isinstance(error, EffectFailed):
                assert error.kind.endswith("Own")
            said(await ctx.elicit(word, Word))
        return "fine"

    async with serving(hard, max_value=1000, pickle="no pickles" not in case, **settings) as client:
        assert (await completed(client, "hard")).text == "fine"
    assert effects.ran == [case] and len(texts) == 1
    assert case != "large" or "FRAMEHOLD_MAX_VALUE" in texts.pop()


# Limits


@each_way
@pytest.mark.parametrize("by", ["asks", "once", "now"])
async def test_a_journal_that_is_full(settings: dict[str, Any], by: str) -> None:
    """Whatever fills it, the next thing to be learned is refused by the setting's name; nothing is asked or run then,
    and what is recorded stays good."""
    effects = Effects()

    @framehold.reentrant
    async def hungry(ctx: Context) -> str:
        first = await framehold.once("first", effects.note, "first")
        said(await ctx.elicit("begin", Word))
        count = 0
        try:
            for count in range(10_000):
                if by == "asks":
                    said(await ctx.elicit(f"more {count} {'.' * 200}", Word))
                elif by == "once":
                    await framehold.once(f"more {count}", effects.note, "." * 300)
                else:
                    framehold.now()
        except LimitExceeded as error:
            assert error.limit == "MAX_JOURNAL" and "FRAMEHOLD_MAX_JOURNAL" in str(error)
            assert "nothing was asked or run" in str(error)
        assert 0 < count < 9_999
        assert await framehold.once("first", effects.note, "first") == first
        assert len(effects.ran) == (count + 1 if by == "once" else 1)
        for what in (lambda: ctx.elicit("more?", Word), lambda: framehold.once("more", effects.note)):
            assert isinstance(await failure(what()), LimitExceeded)
        return "full"

    async with serving(hungry, max_journal=6000, **settings) as client:
        assert (await completed(client, "hungry")).text == "full"


@each_way
async def test_results_side_by_side_that_are_too_much_together(settings: dict[str, Any]) -> None:
    """Each was admitted while there was room, and fits by itself. What is too much is not kept, by name: the others
    are."""
    effects = Effects()

    @framehold.reentrant
    async def greedy(ctx: Context) -> str:
        said(await ctx.elicit("begin", Word))
        runs = (framehold.once(f"k{number}", effects.note, "." * 900) for number in range(10))
        found = await asyncio.gather(*runs, return_exceptions=True)
        refused = [error for error in found if isinstance(error, ResultNotKept)]
        assert 0 < len(refused) < 10 and len(found) - len(refused) == sum(isinstance(item, list) for item in found)
        assert all("FRAMEHOLD_MAX_JOURNAL" in str(error) and "is not run again" in str(error) for error in refused)
        assert len(effects.ran) == 10
        return f"{len(refused)} refused"

    async with serving(greedy, max_journal=2000, max_value=1000, **settings) as client:
        assert (await completed(client, "greedy")).text.endswith(" refused")


# Cancellation, disconnects, overruns


@each_way
@pytest.mark.parametrize("how", ["wait_for", "timeout", "cancel"])
async def test_who_stops_waiting_does_so_after_the_result_is_recorded(settings: dict[str, Any], how: str) -> None:
    """`wait_for` and its like: the cancellation lands after the result's commit; the effect is not cut off, and asking
    again gives what it came to."""
    effects = Effects()

    @framehold.reentrant
    async def hasty(ctx: Context) -> str:
        async def bounded() -> Any:
            if how == "wait_for":
                return await asyncio.wait_for(framehold.once("k", effects.held), 0.01)
            async with asyncio.timeout(0.01):
                return await framehold.once("k", effects.held)

        waiting = asyncio.create_task(framehold.once("k", effects.held) if how == "cancel" else bounded())
        if effects.go.is_set():
            assert await waiting == ["it"], "it is recorded by now"
        else:
            await effects.started.wait()
            if how == "cancel":
                waiting.cancel()
            await asyncio.wait([waiting], timeout=0.05)
            assert not waiting.done(), "it was cut off"
            assert client.runtime.store.request_counts.get("result", 0) == 0
            effects.go.set()
            assert isinstance(await failure(waiting), TimeoutError if how != "cancel" else asyncio.CancelledError)
        recorded = await framehold.once("k", effects.held)
        return f"{recorded} {said(await ctx.elicit('sure?', Word))}"

    async with serving(hasty, **settings) as client:
        reply = await asyncio.wait_for(completed(client, "hasty"), SOON)
        assert reply.text == "['it'] <sure?>"
    assert effects.ran == ["it"]

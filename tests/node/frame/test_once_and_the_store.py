"""Effects under `once`, and what stores, leases and the collector do meanwhile."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.engine import token_claims
from framehold.engine.replies import Ended, Parked
from framehold.frame import effect_call
from framehold.frame.frame import Frame
from framehold.sdk import present_call
from framehold.sdk.present_call import Present
from framehold_core import effects as fx
from framehold_core.effects import Reason, Refusal
from framehold_core.errors import InDoubt
from framehold_core.ids import Incarnation
from framehold_core.requests import Request
from framehold_core.value import replace
from framehold_store.base import Done
from tests.kit.cycles import cycles
from tests.kit.effects import SOON, WAYS, Effects, failure
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question, reason, turns
from tests.kit.processes import until
from tests.kit.serving import Word, serving

pytestmark = [pytest.mark.anyio, pytest.mark.serial]


# What goes on after the handler


async def test_a_side_task_that_outlives_its_handler() -> None:
    effects, reply = Effects(), []

    @framehold.reentrant
    async def leaves_one(ctx: Context) -> str:
        async def later() -> None:
            await effects.go.wait()
            for use in (
                lambda: framehold.once("k", effects.note),
                lambda: ctx.elicit("late?", Word),
                lambda: framehold.ask("late", "late?", Word),
            ):
                reply.append(await failure(use()))
            for draw in (framehold.now, framehold.uuid4, framehold.random):
                with pytest.raises(asyncio.CancelledError) as told_:
                    draw()
                reply.append(told_.value)

        tasks.append(asyncio.create_task(later()))
        return "done"

    tasks: list[asyncio.Task[None]] = []
    async with serving(leaves_one) as client:
        assert (await client.call("leaves_one")).text == "done"
        effects.go.set()
        await asyncio.wait_for(tasks[0], SOON)
        assert client.runtime.counts["broken"] == 0 and not len(client.runtime.table)
    assert len(reply) == 6 and {type(error) for error in reply} == {asyncio.CancelledError}, reply
    assert effects.ran == []


# At the desk: a runtime without HTTP


def using(script: Any) -> Any:
    """A desk's script that may use `framehold.once` and its like."""

    async def entered(frame: Frame) -> object:
        present_call.current.set(Present(None, None, frame))  # type: ignore[arg-type]  # nothing else of them is read
        return await script(frame)

    return entered


async def test_a_side_task_that_acts_while_the_outcome_is_written() -> None:
    """The handler has ended and its outcome is on the way to the store: an effect begun now does not run, and the
    outcome stands."""
    effects = Effects()
    reply: list[BaseException] = []

    async def script(frame: Frame) -> str:
        async def later() -> None:
            await effects.go.wait()
            reply.append(await failure(framehold.once("late", effects.note)))

        await frame.ask(question("q"), "q")
        tasks.append(asyncio.create_task(later()))
        return "done"

    tasks: list[asyncio.Task[None]] = []
    async with engine() as at:
        parked = await at.parked(using(script))
        held: list[tuple[Request, Done]] = []
        submit, at.store.submit = at.store.submit, lambda *write: held.append(write)
        retry = asyncio.ensure_future(at.retry(parked, {"q": "x"}))
        await until(lambda: held, "the outcome's write")
        effects.go.set()
        await turns(20)
        at.store.submit = submit
        for write in held:
            submit(*write)
        assert await asyncio.wait_for(retry, SOON) == Ended("done")
        await asyncio.wait_for(tasks[0], SOON)
        assert at.counts["broken"] == 0
    assert [type(error) for error in reply] == [asyncio.CancelledError] and effects.ran == []


async def test_an_effect_waits_for_the_lease_of_its_node() -> None:
    """The lease lapses while a round runs: the effect is not in doubt for that. It runs once, when the node has a lease
    again and the frame was verified under it."""
    effects = Effects()

    async with engine() as at:
        heartbeat = at.runtime.heartbeat

        async def script(frame: Frame) -> str:
            word = await frame.ask(question("q"), "q")
            heartbeat.lease = replace(heartbeat.lease, incarnation=Incarnation("another"), until=-math.inf)
            return f"{word} {await framehold.once('k', effects.note)}"

        parked = await at.parked(using(script))
        retry = asyncio.ensure_future(at.retry(parked, {"q": "x"}))
        await until(lambda: at.store.request_counts["intent"] == 1, "the intent")
        await turns(50)
        assert effects.ran == [] and not retry.done()
        heartbeat.lease = replace(heartbeat.lease, until=math.inf)
        assert await asyncio.wait_for(retry, SOON) == Ended("x ['it']")
        assert at.store.request_counts["verify"] == 1
    assert effects.ran == ["it"]


@pytest.mark.parametrize("kind", ["function", "function that returns a coroutine"])
@pytest.mark.parametrize("dropped", [False, True], ids=["the window opens again", "the frame is dropped"])
async def test_the_window_is_looked_at_when_a_thread_begins(
    kind: str, dropped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads may be busy for longer than a lease lasts: another node may have claimed the call by then."""
    effects, go = Effects(), threading.Event()
    effects.go.set()

    def held() -> object:
        return effects.held()

    effect = effects.note if kind == "function" else held

    async def script(frame: Frame) -> str:
        return str(await framehold.once("k", effect))

    with ThreadPoolExecutor(1) as thread:
        monkeypatch.setattr(effect_call, "_threads", thread)
        async with engine() as at:
            heartbeat = at.runtime.heartbeat
            thread.submit(go.wait, 2 * SOON)
            starting = asyncio.ensure_future(at.start(using(script)))
            await until(lambda: at.store.request_counts["intent"] == 1, "the intent")
            await turns(50)
            heartbeat.lease = replace(heartbeat.lease, until=-math.inf)
            if dropped:
                (slot,) = at.runtime.table
                at.runtime._performer.drop(slot, Refusal(Reason.LOST, 0, "fenced"))
            go.set()
            await asyncio.wrap_future(thread.submit(int))
            await turns(50)
            assert effects.ran == []
            heartbeat.lease = replace(heartbeat.lease, until=math.inf)
            ended = await asyncio.wait_for(starting, SOON)
            await asyncio.wait_for(at.runtime.tasks.wait_for_effects(math.inf), SOON)
    assert (reason(ended) is Reason.LOST) if dropped else (ended == Ended("['it']"))
    assert effects.ran == ([] if dropped else ["it"])


async def test_an_effect_that_outlives_its_frame_keeps_nothing() -> None:
    """Another node may run the call by then: the result is not written here, and nothing waits for that."""
    effects = Effects()

    async with engine() as at:

        async def script(frame: Frame) -> str:
            return str(await framehold.once("k", effects.held))

        starting = asyncio.ensure_future(at.start(using(script)))
        await effects.started.wait()
        (slot,) = at.runtime.table
        at.runtime._performer.drop(slot, Refusal(Reason.LOST, 0, "fenced"))
        assert reason(await starting) is Reason.LOST
        writes = Counter(at.store.request_counts)
        effects.go.set()
        await asyncio.wait_for(at.runtime.tasks.wait_for_effects(math.inf), SOON)
        assert at.store.request_counts == writes and at.counts["broken"] == 0
    assert effects.ran == ["it"]


async def test_a_handler_that_ends_at_once_when_it_is_entered_again() -> None:
    """Parked with an effect under way that nobody knows the end of: the branch that asked again waits still when the
    other one raises InDoubt. The retry gets that end."""
    effects = Effects()

    async def script(frame: Frame) -> object:
        doubtful = framehold.once("k", effects.held)
        try:
            return str(await asyncio.gather(frame.ask(question("q"), "q"), doubtful))
        except InDoubt:
            return "in doubt"

    async with engine() as at:
        entry = partial(ScriptHandler, using(script), reentrant=True)
        parked = await at.runtime.start(entry(), Carrier())
        assert isinstance(parked, Parked) and effects.ran == ["it"]
        (slot,) = at.runtime.table
        at.runtime._performer.forget(slot, fx.Forget())  # as if the process had died here
        effects.go.set()
        told_ = await asyncio.wait_for(at.runtime.retry(at.claims(parked), {"q": "x"}, entry(), Carrier()), SOON)
        assert isinstance(told_, Ended) and told_.outcome == "in doubt", told_
        assert at.counts["rebuilt"] == 1 and at.counts["broken"] == 0 and effects.ran == ["it"]


# Nothing is left


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS.keys())
async def test_frames_that_used_once_leave_no_cycles(settings: dict[str, Any]) -> None:
    """Finished, dropped at each round, carried by tokens; with results, exceptions, joined and impatient waiters."""

    async def act() -> list[int]:
        await asyncio.sleep(0)
        return [1]

    async def fails() -> None:
        raise LookupError("no")

    async def script(frame: Frame) -> str:
        framehold.now(), framehold.uuid4("x")
        await asyncio.gather(*(framehold.once("k", act) for _ in range(2)))
        impatient = asyncio.create_task(framehold.once("slow", act))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
        del impatient
        try:
            await framehold.once("f", fails)
        except LookupError:
            pass
        word = await frame.ask(question("q"), "q")
        await framehold.once("after", act)
        return f"{word} {await frame.ask(question('r'), 'r')}"

    async def each_once(at: Engine) -> None:
        entry = partial(ScriptHandler, using(script), reentrant=True, strategy=settings.get("strategy", "hold"))
        reply = await at.runtime.start(entry(), Carrier())
        while isinstance(reply, Parked):
            answers = {key: wire["asks"] for key, wire in reply.questions.items()}
            if reply.state:
                carried = token_claims.carried(reply.state)
                assert carried is not None
                reply = await at.runtime.replay(carried, answers, entry(), Carrier())
            else:
                reply = await at.runtime.retry(at.claims(reply), answers, entry(), Carrier())
        assert reply == Ended("q r"), reply

    async with engine(**settings) as at:
        await each_once(at)
        await turns(20)
        with cycles() as found:
            for _ in range(20):
                await each_once(at)
            await turns(20)
            assert found() == []
        assert not len(at.runtime.table)


async def test_an_in_doubt_effect_whose_rebuild_fails_leaves_no_task() -> None:
    """It would run again, being idempotent, once its frame is rebuilt; the frame diverges instead: nothing runs and
    nothing waits for ever."""
    effects, entered = Effects(), []
    effects.go.set()

    async def script(frame: Frame) -> object:
        entered.append(1)
        if len(entered) > 1:
            doubtful = asyncio.create_task(framehold.once("k", effects.held, idempotent=True))
            await turns(2)
            try:
                return await frame.ask(question("another"), "q")
            finally:
                await asyncio.wait([doubtful])
        word = await frame.ask(question("q"), "q")
        return f"{word} {await asyncio.create_task(framehold.once('k', effects.held, idempotent=True))}"

    async with engine() as at:
        entry = partial(ScriptHandler, using(script), reentrant=True)
        parked = await at.runtime.start(entry(), Carrier())
        assert isinstance(parked, Parked)
        submit = at.store.submit

        def no_results(request: Request, done: Done) -> None:
            if not getattr(request, "results", ()):
                submit(request, done)

        at.store.submit = no_results
        retry = asyncio.ensure_future(at.runtime.retry(at.claims(parked), {"q": "x"}, entry(), Carrier()))
        await until(lambda: effects.ran, "the effect")
        await turns(10)
        (slot,) = at.runtime.table
        at.runtime._performer.forget(slot, fx.Forget())  # as if the process had died here
        retry.cancel()
        await turns(10)
        at.store.submit = submit
        told_ = await asyncio.wait_for(at.runtime.retry(at.claims(parked), {"q": "x"}, entry(), Carrier()), SOON)
        assert reason(told_) is Reason.DIVERGED
        await turns(10)
        assert not at.runtime.tasks._effects and effects.ran == ["it"]

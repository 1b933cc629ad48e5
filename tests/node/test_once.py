"""Effects under `once`, met by whatever a handler, a client, a store or the effect itself may do meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context
from mcp_types import ElicitResult

import framehold
from framehold import authoring, clock, runtime, tokens
from framehold.authoring import Present
from framehold.frames import Frame
from framehold.slots import Ended, Parked
from framehold_core.effects import Reason
from framehold_core.errors import (
    AskError,
    EffectFailed,
    InDoubt,
    KeyReused,
    LimitExceeded,
    NotInCall,
    ResultNotKept,
)
from framehold_core.requests import Request
from framehold_store.base import Done
from tests.node.desk import Card, Desk, Talk, desk, question, reason, turns
from tests.node.nodes import until
from tests.node.stage import Stage, Word, said, stage
from tests.node.test_strategies import WAYS, told

pytestmark = pytest.mark.anyio

each_way = pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS.keys())
SOON = 5.0
"""Seconds that something which needs no time may take on a busy machine."""


class Effects:
    """What really ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.started, self.go = asyncio.Event(), asyncio.Event()

    def note(self, what: str = "it") -> list[str]:
        self.ran.append(what)
        return [what]

    async def held(self, what: str = "it") -> list[str]:
        """Runs until it is let go."""
        self.ran.append(what)
        self.started.set()
        await self.go.wait()
        return [what]


async def failure(work: Any) -> BaseException:
    """What an awaitable raises."""
    try:
        await work
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


# Where it may be used


@pytest.mark.parametrize("name", ["once", "ask", "now", "uuid4", "random", "idempotency_key"])
async def test_outside_a_call(name: str) -> None:
    """Each function says by name that there is no call, and runs nothing."""
    effects = Effects()
    uses = {
        "once": lambda: framehold.once("k", effects.note),
        "ask": lambda: framehold.ask("k", "Well?", Word),
        "idempotency_key": lambda: framehold.idempotency_key("k"),
    }
    with pytest.raises(NotInCall, match=rf"framehold\.{name}\(.*outside a call"):
        used = uses.get(name, getattr(framehold, name))()
        await used
    assert effects.ran == []


async def test_what_is_no_function_or_no_key() -> None:
    """A coroutine in the place of a function, a value, an empty key: refused by name before there is an intent."""
    effects = Effects()
    heard: list[str] = []

    @framehold.reentrant
    async def odd(ctx: Context) -> str:
        coroutine = effects.held()
        for key, fn in (("k", coroutine), ("k", 17), ("", effects.note), (3, effects.note), (None, effects.note)):
            with pytest.raises(TypeError) as told_:
                await framehold.once(key, fn)  # type: ignore[arg-type]
            heard.append(str(told_.value))
        coroutine.close()
        return "fine"

    async with stage(odd) as client:
        assert (await client.call("odd")).text == "fine"
        assert client.runtime.store.writes.get("intent", 0) == 0
    assert effects.ran == [] and all("nothing" in text for text in heard)
    assert "must be a function, not coroutine" in heard[0] and "must be a text that is not empty" in heard[2]


@each_way
async def test_an_effect_may_neither_ask_nor_use_once(settings: dict[str, Any]) -> None:
    """Replay leaves effects out, so a question below one would be lost: `ctx.elicit`, `ask` and `once` say so, and the
    client is asked nothing but what the handler asks."""
    heard: list[str] = []

    @framehold.reentrant
    async def nosy(ctx: Context) -> str:
        async def asks(how: str) -> str:
            ways = {
                "elicit": lambda: ctx.elicit("below?", Word),
                "ask": lambda: framehold.ask("below", "below?", Word),
                "once": lambda: framehold.once("below", lambda: heard.append("ran below")),
                "task": lambda: asyncio.create_task(ctx.elicit("below?", Word)),
            }
            error = await failure(ways[how]())
            assert isinstance(error, AskError) and "inside the effect" in str(error), error
            # What is recorded or drawn at once stays allowed.
            framehold.now(), framehold.uuid4(), framehold.random()
            return framehold.idempotency_key(how)

        keys = [await framehold.once(how, asks, how) for how in ("elicit", "ask", "once", "task")]
        assert keys == [framehold.idempotency_key(how) for how in ("elicit", "ask", "once", "task")]
        return said(await ctx.elicit("above?", Word))

    async with stage(nosy, **settings) as client:
        heard_ = await client.call("nosy")
        assert heard_.messages == ["above?"], heard_.message
        assert (await told(client, "nosy")).text == "<above?>"
    assert heard == []


@each_way
async def test_once_on_another_event_loop(settings: dict[str, Any]) -> None:
    """A loop in another thread can't carry an effect or a question of this call: refused by name, nothing runs."""
    effects = Effects()

    @framehold.reentrant
    async def elsewhere(ctx: Context) -> str:
        async def there(use: Any) -> BaseException:
            return await failure(use())

        for use in (lambda: framehold.once("k", effects.note), lambda: framehold.ask("a", "A?", Word)):
            error = await asyncio.to_thread(lambda use=use: asyncio.run(there(use)))
            assert isinstance(error, AskError) and "another event loop" in str(error), error
        return said(await ctx.elicit("here?", Word))

    async with stage(elsewhere, **settings) as client:
        assert (await told(client, "elsewhere")).text == "<here?>"
    assert effects.ran == []


@each_way
@pytest.mark.parametrize("where", ["thread", "another loop"])
async def test_values_drawn_elsewhere_are_those_of_the_first_time(settings: dict[str, Any], where: str) -> None:
    """A handler that draws in a thread, or on a loop there, is given the recorded values in each entry."""
    seen: list[Any] = []

    def draw() -> tuple[Any, ...]:
        return framehold.uuid4("there"), framehold.now("there"), framehold.random("there")

    async def drawn() -> tuple[Any, ...]:
        return draw()

    @framehold.reentrant
    async def threaded(ctx: Context) -> str:
        seen.append(await asyncio.to_thread(draw if where == "thread" else lambda: asyncio.run(drawn())))
        said(await ctx.elicit("one", Word))
        assert (framehold.uuid4("there"), framehold.now("there"), framehold.random("there")) == seen[-1]
        return "fine"

    async with stage(threaded, **settings) as client:
        assert (await told(client, "threaded")).text == "fine"
    assert len(seen) == (2 if settings else 1) and len(set(seen)) == 1


# One key


@each_way
async def test_one_key_for_two_effects(settings: dict[str, Any]) -> None:
    """Another function or other arguments under a known key: KeyReused, also when the first is only replayed, and the
    second does not run."""
    effects, errors = Effects(), []

    def other(what: str) -> None:
        effects.ran.append(f"other {what}")

    @framehold.reentrant
    async def twice(ctx: Context) -> str:
        await framehold.once("k", effects.note, "first")
        for word in ("one", "two"):
            for fn, what in ((effects.note, "second"), (other, "first")):
                error = await failure(framehold.once("k", fn, what))
                assert isinstance(error, KeyReused), error
                errors.append(str(error))
            said(await ctx.elicit(word, Word))
        return str(await framehold.once("k", effects.note, "first"))

    async with stage(twice, **settings) as client:
        assert (await told(client, "twice")).text == "['first']"
    assert effects.ran == ["first"]
    assert all("the second was not run" in text for text in errors) and len(errors) >= 4


@each_way
async def test_a_key_that_another_function_takes_after_a_rebuild(settings: dict[str, Any]) -> None:
    """A handler that gives the key to another function the next time it is entered diverges, and nothing runs."""
    effects, entered = Effects(), []

    def other() -> None:
        effects.ran.append("other")

    @framehold.reentrant
    async def fickle(ctx: Context) -> str:
        entered.append(1)
        await framehold.once("k", effects.note if len(entered) == 1 else other)
        said(await ctx.elicit("one", Word))
        return "done"

    async with stage(fickle, **settings) as client:
        heard = await told(client, "fickle")
    assert effects.ran == ["it"]
    assert heard.text == "done" if not settings else heard.result["isError"]


@each_way
async def test_branches_that_use_one_key_join(settings: dict[str, Any]) -> None:
    """It runs once, while both wait; each is given a copy of its own, and an exception of its own too."""
    effects = Effects()
    effects.go.set()

    async def fails() -> None:
        effects.ran.append("fails")
        await asyncio.sleep(0)
        raise LookupError("no")

    @framehold.reentrant
    async def both(ctx: Context) -> str:
        one, two = await asyncio.gather(*(framehold.once("k", effects.held) for _ in range(2)))
        assert one == two == ["it"] and one is not two
        first, second = await asyncio.gather(*(framehold.once("f", fails) for _ in range(2)), return_exceptions=True)
        assert repr(first) == repr(second) == "LookupError('no')" and first is not second
        return said(await ctx.elicit("sure?", Word))

    async with stage(both, **settings) as client:
        assert (await told(client, "both")).text == "<sure?>"
    assert effects.ran == ["it", "fails"]


@each_way
async def test_odd_keys(settings: dict[str, Any]) -> None:
    """Any text is a key: lone surrogates, NUL, braces, a megabyte; each effect runs once."""
    effects = Effects()
    keys = ["\ud83d", "\0", "{k}:*", "ü" * 1000, "k" * 20_000, "[1,2]", "once:'x'"]

    @framehold.reentrant
    async def named(ctx: Context) -> str:
        for _ in range(2):
            for index, key in enumerate(keys):
                await framehold.once(key, effects.note, str(index))
                assert len(framehold.idempotency_key(key)) == 32
                framehold.uuid4(key)
        return said(await ctx.elicit("sure?", Word))

    async with stage(named, **settings) as client:
        assert (await told(client, "named")).text == "<sure?>"
    assert effects.ran == [str(index) for index in range(len(keys))]


# What an effect may be, and do


@each_way
async def test_whatever_can_be_called_is_an_effect(settings: dict[str, Any]) -> None:
    """Functions, methods, lambdas, partials, callable objects and a sync function that returns an awaitable."""
    effects = Effects()
    effects.go.set()

    class Sync:
        def __call__(self, what: str) -> list[str]:
            return effects.note(what)

    class Async:
        async def __call__(self, what: str) -> list[str]:
            return await effects.held(what)

    kinds = {
        "method": effects.note,
        "coroutine method": effects.held,
        "lambda": lambda what: [*effects.note(what)],
        "lambda of an awaitable": lambda what: asyncio.sleep(0, effects.note(what)),
        "partial": partial(effects.note),
        "partial of a coroutine function": partial(effects.held),
        "object": Sync(),
        "async object": Async(),
        "builtin": sorted,
    }

    @framehold.reentrant
    async def all_kinds(ctx: Context) -> str:
        heard = [await framehold.once(name, fn, name) for name, fn in kinds.items() if name != "builtin"]
        assert heard == [[name] for name in kinds if name != "builtin"]
        assert await framehold.once("builtin", sorted, [3, 1, 2], reverse=True) == [3, 2, 1]
        return said(await ctx.elicit("sure?", Word))

    async with stage(all_kinds, **settings) as client:
        assert (await told(client, "all_kinds")).text == "<sure?>"
    assert effects.ran == [name for name in kinds if name != "builtin"]


async def test_a_sync_effect_that_blocks_holds_up_no_other_call() -> None:
    """It runs in a thread: meanwhile other calls begin, run effects of their own and end."""
    go, started = threading.Event(), threading.Event()

    def blocks() -> str:
        started.set()
        assert go.wait(20)
        return "unblocked"

    @framehold.reentrant
    async def slow(ctx: Context) -> str:
        return await framehold.once("k", blocks)

    @framehold.reentrant
    async def quick(ctx: Context) -> str:
        return await framehold.once("k", lambda: "quick")

    async with stage(slow, quick) as client:
        waiting = asyncio.create_task(client.call("slow"))
        try:
            await until(started.is_set, "the effect")
            assert (await asyncio.wait_for(client.call("quick"), SOON)).text == "quick"
        finally:
            go.set()
        assert (await waiting).text == "unblocked"


@pytest.mark.xfail(reason="calling.called: sync effects share asyncio's default threads, six on two cores")
async def test_many_sync_effects_that_block_hold_up_no_other_call() -> None:
    """However many hang, an effect of another call runs."""
    go, begun = threading.Event(), []

    def blocks() -> None:
        begun.append(1)
        assert go.wait(20)

    @framehold.reentrant
    async def slow(ctx: Context) -> None:
        await framehold.once("k", blocks)

    @framehold.reentrant
    async def quick(ctx: Context) -> str:
        return await framehold.once("k", lambda: "quick")

    async with stage(slow, quick) as client:
        waiting = [asyncio.create_task(client.call("slow")) for _ in range(40)]
        try:
            await until(lambda: len(client.runtime.table) == 40 and len(begun) >= 6, "the effects")
            assert (await asyncio.wait_for(client.call("quick"), 1)).text == "quick"
        finally:
            go.set()
            await asyncio.gather(*waiting)


class Odd(BaseException):
    """No Exception."""


@each_way
@pytest.mark.parametrize("how", ["cancelled", "base"])
@pytest.mark.parametrize("sync", [False, True], ids=["coroutine", "thread"])
async def test_an_effect_that_breaks_off_is_in_doubt(settings: dict[str, Any], how: str, sync: bool) -> None:
    """What is no Exception is no outcome: InDoubt is recorded, heard in each entry and by each who asks again, and it
    does not run again."""
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
                error = await failure(framehold.once("k", breaks if sync else breaks_off))
                assert type(error) is InDoubt and "'k'" in str(error), repr(error)
            said(await ctx.elicit(word, Word))
        return "fine"

    async with stage(doubtful, **settings) as client:
        assert (await asyncio.wait_for(told(client, "doubtful"), SOON)).text == "fine"
        assert not len(client.runtime.table)
    assert effects.ran == ["it"]


@each_way
async def test_a_coroutine_that_raises_stop_iteration(settings: dict[str, Any]) -> None:
    """Python makes a RuntimeError of it, and that is the recorded outcome."""

    async def stops() -> None:
        raise StopIteration(3)

    @framehold.reentrant
    async def stopping(ctx: Context) -> str:
        for word in ("one", "two"):
            assert isinstance(await failure(framehold.once("k", stops)), RuntimeError)
            said(await ctx.elicit(word, Word))
        return "fine"

    async with stage(stopping, **settings) as client:
        assert (await told(client, "stopping")).text == "fine"


async def test_a_function_that_raises_stop_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a bare `next(...)`: it is an outcome too, and nobody waits for ever."""
    monkeypatch.setattr("framehold.tasks.BURIAL", 0.05)

    def stops() -> None:
        next(iter(()))

    @framehold.reentrant
    async def stopping(ctx: Context) -> str:
        return type(await failure(framehold.once("k", stops))).__name__

    async with stage(stopping) as client:
        assert (await asyncio.wait_for(client.call("stopping"), 2)).text in (
            "StopIteration",
            "RuntimeError",
            "EffectFailed",
        )


class Own(Exception):
    """An exception of the author's."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


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

    async with stage(hard, max_value=1000, pickle="no pickles" not in case, **settings) as client:
        assert (await told(client, "hard")).text == "fine"
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

    async with stage(hungry, max_journal=6000, **settings) as client:
        assert (await told(client, "hungry")).text == "full"


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
            assert client.runtime.store.writes.get("result", 0) == 0
            effects.go.set()
            assert isinstance(await failure(waiting), TimeoutError if how != "cancel" else asyncio.CancelledError)
        recorded = await framehold.once("k", effects.held)
        return f"{recorded} {said(await ctx.elicit('sure?', Word))}"

    async with stage(hasty, **settings) as client:
        heard = await asyncio.wait_for(told(client, "hasty"), SOON)
        assert heard.text == "['it'] <sure?>"
    assert effects.ran == ["it"]


async def leave(request: asyncio.Task[Any]) -> None:
    """Close the connection of a request that waits."""
    request.cancel()
    await asyncio.wait([request])


async def test_a_client_that_leaves_while_an_effect_runs() -> None:
    """The effect runs on, its result is written, then the frame goes; the same retry is given the recorded result."""
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        word = said(await ctx.elicit("first?", Word))
        return f"{word} {await framehold.once('k', effects.held)}"

    async with stage(work) as client:
        heard = await client.call("work")
        request = asyncio.create_task(client.retry("work", heard.token, heard.accept(word="x")))
        await effects.started.wait()
        (slot,) = client.runtime.table
        await leave(request)
        await until(lambda: slot.call.leaving, "the disconnect")
        assert len(client.runtime.table) == 1 and client.runtime.store.writes["result"] == 0
        effects.go.set()
        await until(lambda: not len(client.runtime.table), "the frame to go")
        assert client.runtime.store.writes["result"] == 1 and client.runtime.counts["left"] == 1
        done = await client.retry("work", heard.token, heard.accept(word="x"))
        assert done.text == "x ['it']"
    assert effects.ran == ["it"]


async def test_a_client_that_leaves_and_comes_back_while_an_effect_runs() -> None:
    """The same retry joins the round that it had left, and nothing is cancelled."""
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        word = said(await ctx.elicit("first?", Word))
        return f"{word} {await framehold.once('k', effects.held)}"

    async with stage(work) as client:
        heard = await client.call("work")
        request = asyncio.create_task(client.retry("work", heard.token, heard.accept(word="x")))
        await effects.started.wait()
        (slot,) = client.runtime.table
        await leave(request)
        await until(lambda: slot.call.leaving, "the disconnect")
        again = asyncio.create_task(client.retry("work", heard.token, heard.accept(word="x")))
        await until(lambda: not slot.call.leaving, "the return")
        effects.go.set()
        assert (await again).text == "x ['it']" and client.runtime.counts["left"] == 0
    assert effects.ran == ["it"] and client.runtime.counts["entered"] == 1


async def test_a_round_that_overruns_while_an_effect_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits hears the limit at once; the effect ends, its result is written, and the retry is given it."""
    monkeypatch.setattr(runtime, "SWEEP", 0.02)
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        word = said(await ctx.elicit("first?", Word))
        return f"{word} {await framehold.once('k', effects.held)}"

    async with stage(work, max_round=1) as client:
        heard = await client.call("work")
        told_ = await client.retry("work", heard.token, heard.accept(word="x"))
        assert told_.result["isError"] and "FRAMEHOLD_MAX_ROUND" in told_.text
        assert len(client.runtime.table) == 1
        effects.go.set()
        await until(lambda: not len(client.runtime.table), "the frame to go")
        assert (await client.retry("work", heard.token, heard.accept(word="x"))).text == "x ['it']"
    assert effects.ran == ["it"]


@each_way
async def test_an_effect_and_a_question_in_one_round(settings: dict[str, Any]) -> None:
    """Gathered: the question is asked, the effect runs once, the handler hears both."""
    effects = Effects()

    @framehold.reentrant
    async def both(ctx: Context) -> str:
        async def act() -> str:
            await framehold.once("before", effects.note, "before")
            effects.go.set()
            return str(await framehold.once("k", effects.held))

        done, answer = await asyncio.gather(act(), ctx.elicit("well?", Word))
        return f"{done} {said(answer)} {said(await ctx.elicit('sure?', Word))}"

    async with stage(both, **settings) as client:
        assert (await asyncio.wait_for(told(client, "both"), SOON)).text == "['it'] <well?> <sure?>"
    assert effects.ran == ["before", "it"]


async def test_a_held_call_is_parked_while_its_effect_runs() -> None:
    """The client hears the question while the effect still runs; answered first, the handler waits for the effect."""
    effects = Effects()

    @framehold.reentrant
    async def both(ctx: Context) -> str:
        done, answer = await asyncio.gather(framehold.once("k", effects.held), ctx.elicit("well?", Word))
        return f"{done} {said(answer)}"

    async with stage(both) as client:
        heard = await asyncio.wait_for(client.call("both"), SOON)
        retry = asyncio.create_task(client.retry("both", heard.token, heard.accept(word="x")))
        await until(lambda: client.runtime.counts["resumed"], "the answer")
        assert not retry.done()
        effects.go.set()
        assert (await asyncio.wait_for(retry, SOON)).text == "['it'] x"
    assert effects.ran == ["it"]


async def test_two_writes_for_an_effect_and_none_for_a_recorded_one() -> None:
    """An intent and a result each; an effect that is replayed, or joined, costs no write at all."""
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        for number in range(3):
            await framehold.once(f"k{number}", effects.note)
            await framehold.once(f"k{number}", effects.note)
        for word in ("one", "two", "three"):
            said(await ctx.elicit(word, Word))
        await framehold.once("k0", effects.note)
        return "fine"

    async with stage(work, rehearse=True) as client:
        heard = await client.call("work")
        writes = dict(client.runtime.store.writes)
        assert {kind: writes[kind] for kind in ("intent", "result", "commit")} == {
            "intent": 3,
            "result": 3,
            "commit": 1,
        }
        while heard.message["result"]["resultType"] == "input_required":
            heard = await client.retry("work", heard.token, heard.accept(word="x"))
        writes = dict(client.runtime.store.writes)
        assert (writes["intent"], writes["result"], writes["commit"], writes["finish"]) == (3, 3, 3, 1)
    assert len(effects.ran) == 3


# What goes on after the handler


async def test_a_side_task_that_outlives_its_handler() -> None:
    """Effects, questions and values of a call that has ended are refused, and nothing runs."""
    effects, heard = Effects(), []

    @framehold.reentrant
    async def leaves_one(ctx: Context) -> str:
        async def later() -> None:
            await effects.go.wait()
            for use in (
                lambda: framehold.once("k", effects.note),
                lambda: ctx.elicit("late?", Word),
                lambda: framehold.ask("late", "late?", Word),
            ):
                heard.append(await failure(use()))
            for draw in (framehold.now, framehold.uuid4, framehold.random):
                with pytest.raises(asyncio.CancelledError) as told_:
                    draw()
                heard.append(told_.value)

        tasks.append(asyncio.create_task(later()))
        return "done"

    tasks: list[asyncio.Task[None]] = []
    async with stage(leaves_one) as client:
        assert (await client.call("leaves_one")).text == "done"
        effects.go.set()
        await asyncio.wait_for(tasks[0], SOON)
        assert client.runtime.counts["broken"] == 0 and not len(client.runtime.table)
    assert len(heard) == 6 and {type(error) for error in heard} == {asyncio.CancelledError}, heard
    assert effects.ran == []


async def test_a_side_task_of_a_frame_that_was_dropped() -> None:
    """The frame was dropped when its call was parked; its side task learns nothing more, and nothing runs twice."""
    effects, tasks = Effects(), []
    heard: list[BaseException] = []

    @framehold.reentrant
    async def leaves_one(ctx: Context) -> str:
        async def later() -> None:
            try:
                await effects.go.wait()
            except asyncio.CancelledError:
                pass
            heard.append(await failure(framehold.once("late", effects.note)))
            heard.append(await failure(ctx.elicit("late?", Word)))

        if not tasks:
            tasks.append(asyncio.create_task(later()))
        return said(await ctx.elicit("one", Word))

    async with stage(leaves_one, rehearse=True) as client:
        parked = await client.call("leaves_one")
        effects.go.set()
        await asyncio.wait_for(tasks[0], SOON)
        assert (await client.retry("leaves_one", parked.token, parked.accept(word="x"))).text == "x"
    assert [type(error) for error in heard] == [asyncio.CancelledError] * 2 and effects.ran == []


# At the desk: a runtime without HTTP


def using(script: Any) -> Any:
    """A desk's script that may use `framehold.once` and its like."""

    async def entered(frame: Frame) -> object:
        authoring.current.set(Present(None, None, frame))  # type: ignore[arg-type]
        return await script(frame)

    return entered


class Slow:
    """Stands before a desk's store and lets its writes through when it is told to."""

    def __init__(self, at: Desk) -> None:
        self._submit = at.store.submit
        self._kept: list[tuple[Request, Done]] = []
        self.slow = False
        at.store.submit = self._hold  # type: ignore[method-assign]

    def _hold(self, request: Request, done: Done) -> None:
        if self.slow:
            self._kept.append((request, done))
        else:
            self._submit(request, done)

    @property
    def kept(self) -> int:
        return len(self._kept)

    def release(self) -> None:
        self.slow = False
        while self._kept:
            self._submit(*self._kept.pop(0))


async def test_a_side_task_that_acts_while_the_outcome_is_written() -> None:
    """The handler has ended and its outcome is on the way to the store: an effect begun now does not run, and the
    outcome stands."""
    effects = Effects()
    heard: list[BaseException] = []

    async def script(frame: Frame) -> str:
        async def later() -> None:
            await effects.go.wait()
            heard.append(await failure(framehold.once("late", effects.note)))

        await frame.ask(question("q"), "q")
        tasks.append(asyncio.create_task(later()))
        return "done"

    tasks: list[asyncio.Task[None]] = []
    async with desk() as at:
        parked = await at.parked(using(script))
        slow = Slow(at)
        slow.slow = True
        retry = asyncio.ensure_future(at.retry(parked, {"q": "x"}))
        await until(lambda: slow.kept, "the outcome's write")
        effects.go.set()
        await turns(20)
        slow.release()
        assert await asyncio.wait_for(retry, SOON) == Ended("done")
        await asyncio.wait_for(tasks[0], SOON)
        assert at.counts["broken"] == 0
    assert [type(error) for error in heard] == [asyncio.CancelledError] and effects.ran == []


async def test_a_store_that_falls_silent_between_intent_and_result() -> None:
    """The result waits, the client is told to come again, the effect does not run again; with the store back the same
    retry is given the outcome."""
    effects = Effects()

    async with desk() as at:

        async def act() -> str:
            effects.ran.append("it")
            at.store.down = True
            return "acted"

        async def script(frame: Frame) -> str:
            word = await frame.ask(question("q"), "q")
            return f"{word} {await framehold.once('k', act)}"

        parked = await at.parked(using(script))
        assert reason(await asyncio.wait_for(at.retry(parked, {"q": "x"}), SOON)) is Reason.UNAVAILABLE
        assert at.store.writes["intent"] == 1 and at.store.writes["result"] == 0
        assert reason(await asyncio.wait_for(at.retry(parked, {"q": "x"}), SOON)) is Reason.UNAVAILABLE
        at.store.down = False
        assert await asyncio.wait_for(at.retry(parked, {"q": "x"}), SOON) == Ended("x acted")
        assert at.store.writes["result"] == 1
    assert effects.ran == ["it"]


async def test_a_store_that_is_silent_before_the_intent() -> None:
    """Nothing runs until the intent is kept; then it runs once."""
    effects = Effects()

    async def script(frame: Frame) -> str:
        word = await frame.ask(question("q"), "q")
        return f"{word} {await framehold.once('k', effects.note)}"

    async with desk() as at:
        parked = await at.parked(using(script))
        at.store.down = True
        assert reason(await asyncio.wait_for(at.retry(parked, {"q": "x"}), SOON)) is Reason.UNAVAILABLE
        assert effects.ran == []
        at.store.down = False
        assert await asyncio.wait_for(at.retry(parked, {"q": "x"}), SOON) == Ended("x ['it']")
    assert effects.ran == ["it"]


async def test_a_parked_call_does_not_expire_while_its_effect_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 8: no frame goes with an effect in flight; it expires once the result is written."""
    hands = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: hands[0])
    monkeypatch.setattr(runtime, "SWEEP", 0.005)
    effects = Effects()

    async def script(frame: Frame) -> str:
        done, word = await asyncio.gather(framehold.once("k", effects.held), frame.ask(question("q"), "q"))
        return f"{done} {word}"

    async with desk(token_ttl=60) as at:
        await at.parked(using(script))
        await effects.started.wait()
        hands[0] += 61
        await turns(50)
        assert len(at.runtime.table) == 1
        effects.go.set()
        await until(lambda: not len(at.runtime.table), "the expiry")
        assert at.store.writes["result"] == 1 and at.counts["expired"] == 1


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

    async with desk() as at:
        talk = Talk(using(script), reentrant=True)
        parked = await at.runtime.start(talk, Card())
        assert isinstance(parked, Parked)
        slow = Slow(at)

        def only_intents(request: Request, done: Done) -> None:
            if type(request).__name__ == "Result":
                return
            slow._submit(request, done)

        at.store.submit = only_intents  # type: ignore[method-assign]
        retry = asyncio.ensure_future(at.runtime.retry(at.claims(parked), {"q": "x"}, talk, Card()))
        await until(lambda: effects.ran, "the effect")
        await turns(10)
        (slot,) = at.runtime.table
        at.runtime._performer.forget(slot, None)  # type: ignore[arg-type]  # as if the process had died here
        retry.cancel()
        await turns(10)
        at.store.submit = slow._submit  # type: ignore[method-assign]
        told_ = await asyncio.wait_for(at.runtime.retry(at.claims(parked), {"q": "x"}, talk, Card()), SOON)
        assert reason(told_) is Reason.DIVERGED
        await turns(10)
        assert not at.runtime.tasks._effects and effects.ran == ["it"]


# Nothing is left


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected but when the test says so."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS.keys())
async def test_frames_that_used_once_leave_no_cycles(settings: dict[str, Any], uncollected: None) -> None:
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

    async def each_once(at: Desk) -> None:
        talk = Talk(using(script), reentrant=True, strategy=settings.get("strategy", "hold"))
        heard = await at.runtime.start(talk, Card())
        while isinstance(heard, Parked):
            answers = {key: wire["asks"] for key, wire in heard.questions.items()}
            if heard.state:
                carried = tokens.carried(heard.state)
                assert carried is not None
                heard = await at.runtime.replay(carried, answers, talk, Card())
            else:
                heard = await at.runtime.retry(at.claims(heard), answers, talk, Card())
        assert heard == Ended("q r"), heard

    async with desk(**settings) as at:
        await each_once(at)
        await turns(20)
        gc.collect()
        for _ in range(20):
            await each_once(at)
        await turns(20)
        assert gc.collect() == 0
        assert not len(at.runtime.table)


async def test_calls_abandoned_in_an_effect_leave_no_cycles(uncollected: None) -> None:
    """Their clients left while the effect ran; it ended, and nothing of it is left."""
    effects = Effects()

    async def script(frame: Frame) -> str:
        await frame.ask(question("q"), "q")
        return str(await framehold.once("k", effects.held))

    async def each_once(at: Desk) -> None:
        effects.started.clear()
        effects.go.clear()
        parked = await at.parked(using(script))
        retry = asyncio.ensure_future(at.retry(parked, {"q": "x"}))
        await effects.started.wait()
        retry.cancel()
        await asyncio.wait([retry])
        effects.go.set()
        await turns(20)
        assert not len(at.runtime.table)

    async with desk() as at:
        await each_once(at)
        gc.collect()
        for _ in range(20):
            await each_once(at)
        assert gc.collect() == 0


# 2025


async def _yes(_: Any, asked: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"word": f"<{asked.message}>"})


async def legacy(client: Stage, tool: str) -> Any:
    """One call of a client of 2025; what the tool says, or its error."""
    async with httpx2.AsyncClient() as http:
        transport = streamable_http_client(client.url, http_client=http)
        async with Client(transport, mode="legacy", elicitation_callback=_yes) as old:
            result = await old.call_tool(tool, {})
    return " ".join(block.text for block in result.content)


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
        assert await asyncio.wait_for(legacy(client, "old"), 10) == "<well?>"
        assert client.runtime.store.writes.get("intent", 0) == 0
    assert effects.ran == ["it", "broke off"]


async def test_a_client_of_2025_that_stops_waiting_does_so_after_the_effect() -> None:
    """As on the present wire: a cancellation lands after what the effect came to is known."""
    effects = Effects()

    @framehold.reentrant
    async def old(ctx: Context) -> str:
        waiting = asyncio.create_task(framehold.once("k", effects.held))
        await effects.started.wait()
        waiting.cancel()
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done(), "it was cut off"
        effects.go.set()
        assert isinstance(await failure(waiting), asyncio.CancelledError)
        return str(await framehold.once("k", effects.held))

    async with stage(old) as client:
        assert await asyncio.wait_for(legacy(client, "old"), 10) == "['it']"

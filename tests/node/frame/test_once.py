"""Effects under `once`: where they may be used, what their keys stand for, what they may be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold_core.errors import (
    AskError,
    KeyReused,
    NotInCall,
)
from tests.kit.effects import SOON, Effects, completed, each_way, failure
from tests.kit.processes import until
from tests.kit.serving import Word, said, serving
from tests.node.wires.official import hears

pytestmark = pytest.mark.anyio


# Where it may be used


@pytest.mark.parametrize("name", ["once", "ask", "now", "uuid4", "random", "idempotency_key"])
async def test_outside_a_call(name: str) -> None:
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
    reply: list[str] = []

    @framehold.reentrant
    async def odd(ctx: Context) -> str:
        coroutine = effects.held()
        for key, fn in (("k", coroutine), ("k", 17), ("", effects.note), (3, effects.note), (None, effects.note)):
            with pytest.raises(TypeError) as told_:
                await framehold.once(key, fn)  # type: ignore[arg-type]  # that is the point
            reply.append(str(told_.value))
        coroutine.close()
        return "fine"

    async with serving(odd) as client:
        assert (await client.call("odd")).text == "fine"
        assert client.runtime.store.request_counts.get("intent", 0) == 0
    assert effects.ran == [] and all("nothing" in text for text in reply)
    assert (
        "must be the function, not what a call of it gave" in reply[0]
        and "must be a text that is not empty" in reply[2]
    )


@each_way
async def test_an_effect_may_neither_ask_nor_use_once(settings: dict[str, Any]) -> None:
    """Replay leaves effects out, so a question below one would be lost: `ctx.elicit`, `ask` and `once` say so, and the
    client is asked nothing but what the handler asks."""
    reply: list[str] = []

    @framehold.reentrant
    async def nosy(ctx: Context) -> str:
        async def asks(how: str) -> str:
            ways: dict[str, Callable[[], Any]] = {
                "elicit": lambda: ctx.elicit("below?", Word),
                "ask": lambda: framehold.ask("below", "below?", Word),
                "once": lambda: framehold.once("below", lambda: reply.append("ran below")),
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

    async with serving(nosy, **settings) as client:
        heard_ = await client.call("nosy")
        assert heard_.messages == ["above?"], heard_.message
        assert (await completed(client, "nosy")).text == "<above?>"
    assert reply == []


@each_way
async def test_once_on_another_event_loop(settings: dict[str, Any]) -> None:
    """A loop in another thread can't carry an effect or a question of this call: refused by name, nothing runs."""
    effects = Effects()

    @framehold.reentrant
    async def elsewhere(ctx: Context) -> str:
        async def there(use: Any) -> BaseException:
            return await failure(use())

        for use in (lambda: framehold.once("k", effects.note), lambda: framehold.ask("a", "A?", Word)):
            error = await asyncio.to_thread(asyncio.run, there(use))
            assert isinstance(error, AskError) and "another event loop" in str(error), error
        return said(await ctx.elicit("here?", Word))

    async with serving(elsewhere, **settings) as client:
        assert (await completed(client, "elsewhere")).text == "<here?>"
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

    async with serving(threaded, **settings) as client:
        assert (await completed(client, "threaded")).text == "fine"
    # The rehearsal enters it once more at the end.
    assert len(seen) == (3 if "rehearse" in settings else 2 if settings else 1) and len(set(seen)) == 1


# How often it runs


@each_way
async def test_effects_run_once(settings: dict[str, Any]) -> None:
    ran: list[str] = []

    def plain(what: str) -> dict[str, Any]:
        ran.append(what)
        return {"what": what, "times": ran.count(what)}

    async def slow(what: str) -> tuple[str, int]:
        await asyncio.sleep(0)
        ran.append(what)
        return what, ran.count(what)

    @framehold.reentrant
    async def order(ctx: Context) -> str:
        before = await framehold.once("before", plain, "before")
        first = said(await ctx.elicit("one", Word))
        between = await framehold.once("between", slow, f"between {first}")
        second = said(await ctx.elicit("two", Word))
        after = await framehold.once("after", slow, "after")
        again = await framehold.once("before", plain, "before")
        assert again == before and again is not before
        return f"{before} {between} {second} {after}"

    async with serving(order, **settings) as caller:
        reply = await completed(caller, "order")
    assert reply.text == "{'what': 'before', 'times': 1} ('between <one>', 1) <two> ('after', 1)"
    assert ran == ["before", "between <one>", "after"]


@each_way
async def test_values_are_drawn_once(settings: dict[str, Any]) -> None:
    seen: list[tuple[Any, ...]] = []

    @framehold.reentrant
    async def drawn(ctx: Context) -> str:
        early = (
            framehold.now(),
            framehold.uuid4(),
            framehold.random(),
            framehold.random(),
            framehold.idempotency_key("k"),
        )
        seen.append(early)
        await ctx.elicit(f"{early}", Word)
        late = framehold.now("late"), framehold.uuid4("late"), framehold.uuid4("late")
        await ctx.elicit(f"{late}", Word)
        assert late[1] == late[2] != early[1] and early[2] != early[3]
        return "fine"

    async with serving(drawn, **settings) as caller:
        assert (await completed(caller, "drawn")).text == "fine"
    entries = 1 if not settings else 4 if settings.get("rehearse") else 3
    assert len(set(seen)) == 1 and len(seen) == entries


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
@pytest.mark.parametrize("key", [17, b"seat", None, ("a", "b"), "", "seat \ud83d"])
async def test_what_is_no_key_of_a_question(key: Any, mode: str) -> None:
    """It is refused by name before anything is asked, on each wire. A question's key goes to the client, so it must be
    a text that UTF-8 can carry."""

    async def asks(ctx: Context) -> str:
        with pytest.raises(TypeError) as refused:
            await framehold.ask(key, "Which seat?", Word)
        return str(refused.value)

    async with serving(asks) as client:
        told = await hears(client.url, mode, "asks")
    assert told.startswith("framehold.ask: its key must be a text that ")
    assert told.endswith(f", not {key!r}; nothing was asked")


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

    async with serving(twice, **settings) as client:
        assert (await completed(client, "twice")).text == "['first']"
    assert effects.ran == ["first"]
    assert all("the second was not run" in text for text in errors) and len(errors) >= 4


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

    async with serving(both, **settings) as client:
        assert (await completed(client, "both")).text == "<sure?>"
    assert effects.ran == ["it", "fails"]


# What an effect may be, and do


@each_way
async def test_whatever_can_be_called_is_an_effect(settings: dict[str, Any]) -> None:
    effects = Effects()
    effects.go.set()

    class Sync:
        def __call__(self, what: str) -> list[str]:
            return effects.note(what)

    class Async:
        async def __call__(self, what: str) -> list[str]:
            return await effects.held(what)

    kinds: dict[str, Callable[..., Any]] = {
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
        reply = [await framehold.once(name, fn, name) for name, fn in kinds.items() if name != "builtin"]
        assert reply == [[name] for name in kinds if name != "builtin"]
        assert await framehold.once("builtin", sorted, [3, 1, 2], reverse=True) == [3, 2, 1]
        return said(await ctx.elicit("sure?", Word))

    async with serving(all_kinds, **settings) as client:
        assert (await completed(client, "all_kinds")).text == "<sure?>"
    assert effects.ran == [name for name in kinds if name != "builtin"]


@each_way
async def test_an_effect_whose_arguments_have_the_names_that_once_uses(settings: dict[str, Any]) -> None:
    def put(key: str, fn: str, call: str, args: int) -> list[Any]:
        return [key, fn, call, args]

    @framehold.reentrant
    async def stores(ctx: Context) -> str:
        assert await framehold.once("k", put, key="a", fn="b", call="c", args=4) == ["a", "b", "c", 4]
        return said(await ctx.elicit("sure?", Word))

    async with serving(stores, **settings) as client:
        assert (await completed(client, "stores")).text == "<sure?>"


async def test_many_sync_effects_that_block_hold_up_no_other_call() -> None:
    go, begun = threading.Event(), []

    def blocks() -> None:
        begun.append(1)
        assert go.wait(2 * SOON)

    @framehold.reentrant
    async def slow(ctx: Context) -> None:
        await framehold.once("k", blocks)

    @framehold.reentrant
    async def quick(ctx: Context) -> str:
        return await framehold.once("k", lambda: "quick")

    async with serving(slow, quick) as client:
        waiting = [asyncio.create_task(client.call("slow")) for _ in range(40)]
        try:
            await until(lambda: len(client.runtime.table) == 40 and len(begun) >= 6, "the effects")
            assert (await asyncio.wait_for(client.call("quick"), SOON)).text == "quick"
        finally:
            go.set()
            await asyncio.gather(*waiting)


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

    async with serving(named, **settings) as client:
        assert (await completed(client, "named")).text == "<sure?>"
    assert effects.ran == [str(index) for index in range(len(keys))]

"""Paused tools: the same of every store."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from framehold_core.pauses import FRAMEHOLD, OPERATOR, Pause, Tools
from framehold_core.value import replace
from framehold_store import Store, StoreConfig
from framehold_store.keys import Keys
from framehold_store.pauses import PausedTools
from framehold_store.redis import RedisStore
from framehold_store.scripts import SCRIPTS
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio
BOOK = Pause("book", 1_800_000_000.0, OPERATOR, "it bills twice")
ODD = Pause("tools/\N{SNOWMAN} d:p:", 1.5, OPERATOR, "")


async def test_a_tool_is_paused_until_it_is_resumed(store: Store) -> None:
    assert await store.tools() == Tools() and not await store.resume("book")
    await store.pause(ODD)
    await store.pause(BOOK)
    assert await store.tools() == Tools((BOOK, ODD))
    again = replace(BOOK, why="it still does")
    await store.pause(again)
    assert await store.tools() == Tools((again, ODD))
    assert await store.resume("book") and not await store.resume("book")
    assert await store.tools() == Tools((ODD,))


async def test_the_ends_of_processes_pause_a_tool(store: Store) -> None:
    """The first of them is not reported: each reported one proves another. Each counts once, for its own tool."""
    assert await store.died("book", "boot-2", 3, "why") == (None, False)
    assert await store.died("book", "boot-2", 3, "why") == (None, False)
    assert await store.died("move", "boot-3", 3, "why") == (None, False)
    pause, fresh = await store.died("book", "boot-3", 3, "why")
    assert pause is not None and fresh
    assert (pause.tool, pause.by, pause.why) == ("book", FRAMEHOLD, "why") and pause.at > 1_700_000_000
    assert await store.tools() == Tools((pause,), frozenset({"book", "move"}))
    assert await store.died("book", "boot-4", 3, "another") == (pause, False)


async def test_what_was_held_against_a_tool_is_forgotten_when_it_is_resumed_or_paused_by_hand(store: Store) -> None:
    await store.died("book", "boot-2", 3, "why")
    await store.died("book", "boot-3", 3, "why")
    assert await store.resume("book")
    assert await store.died("book", "boot-4", 3, "why") == (None, False)
    await store.pause(BOOK)
    assert await store.resume("book")
    assert await store.died("book", "boot-5", 3, "why") == (None, False)


async def test_a_tool_is_cleared_when_a_call_of_it_lives(store: Store) -> None:
    await store.died("book", "boot-2", 3, "why")
    await store.pause(ODD)
    await store.died(ODD.tool, "boot-2", 3, "why")
    assert await store.tools() == Tools((ODD,), frozenset({"book", ODD.tool}))
    await store.cleared("book")
    await store.cleared(ODD.tool)
    assert await store.tools() == Tools((ODD,))
    assert await store.died("book", "boot-3", 3, "why") == (None, False)


async def test_an_end_counts_for_ten_minutes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framehold_core.pauses.WINDOW", 0.0)
    monkeypatch.setattr("framehold_store.pauses.WINDOW", 0.001)
    for number in range(4):
        if number:
            await anyio.sleep(0.005)
        assert await store.died("book", f"boot-{number}", 3, "why") == (None, False)


async def test_an_end_counts_for_as_many_seconds_as_are_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for so many milliseconds. The store's clock is its own, so this takes real time."""
    monkeypatch.setattr("framehold_core.pauses.WINDOW", 60.0)
    monkeypatch.setattr("framehold_store.pauses.WINDOW", 60.0)
    assert await store.died("book", "boot-1", 3, "why") == (None, False)
    await anyio.sleep(0.1)
    assert (await store.died("book", "boot-2", 3, "why"))[1]


@pytest.mark.parametrize("garbage", ["{", "[1]", "null", '[1,"x",2,3]', "[[]]", "[1,1e999]", "[1,-1]"])
async def test_a_pause_that_can_not_be_read_stands(shared_server: RedisServer, namespace: str, garbage: str) -> None:
    """A tool that was paused must not run because somebody wrote garbage. Ends that can't be read are forgotten."""
    store = RedisStore(StoreConfig(shared_server.url, namespace))
    with shared_server.client() as client:
        client.hset(Keys(namespace).tools, mapping=dict.fromkeys(("p:book", "d:move", "other"), garbage))
    [pause] = (await store.tools()).paused
    assert (pause.tool, pause.by) == ("book", "")
    assert await store.died("move", "boot-2", 3, "why") == (None, False)
    assert (await store.died("move", "boot-3", 3, "why"))[1]
    assert await store.resume("book")
    await store.close()


NUMBERS = (
    "1e300",
    "-1",
    "NaN",
    "Infinity",
    "-Infinity",
    "9" * 400,
    "9" * 5000,
    "253402300800",
    "{}",
    "[]",
    "null",
)


@pytest.mark.parametrize("number", NUMBERS)
async def test_a_time_that_no_process_writes_is_not_read(
    shared_server: RedisServer, namespace: str, number: str
) -> None:
    """The pause stands, and a node can show it. The end of a process at such a time, or of one so named, counts for
    nothing."""
    store = RedisStore(StoreConfig(shared_server.url, namespace))
    ends = f'["boot-1",{number}],[{number},{1000 * time.time():.0f}]'
    fields = {"p:book": f'[1,1,{number},"operator",""]', "d:move": f"[1,1,[{ends}]]"}
    with shared_server.client() as client:
        client.hset(Keys(namespace).tools, mapping=fields)
    assert (await store.tools()).paused == (Pause("book", 0.0, "", "its pause can't be read"),)
    pause, fresh = await store.died("book", "boot-2", 3, "why")
    assert pause is not None and pause.at == 0.0 and not fresh
    assert [(await store.died("move", f"boot-{life}", 3, "why"))[1] for life in (2, 3)] == [False, True]
    await store.close()


MARKS = (
    *("ab12 1700000000000 99999999999999999999 1 older", "ab12 1700000000000 1 99999999999999999999 older"),
    *("ab12 99999999999999999999 0 0 none", "ab12 1700000000000 253402300800000 1 older", "ab12 1 -1 1 older"),
    *("ab12 1 0000000000000001 1 older", "ab12 nan inf 1 older", "ab12 1 \u0661 1 older", "ab12 x 1 1 older", "x", ""),
    *("ab12 1 1 1 older\n", "ab12 1 1 1 older 1", "xy 1 1 1 older", f"ab12 1 {'9' * 200} 1 older"),
)


@pytest.mark.parametrize("mark", MARKS)
async def test_a_mark_that_no_process_writes_counts_as_none(
    shared_server: RedisServer, namespace: str, mark: str
) -> None:
    """It is written anew, so the next loss is noticed. In a store that takes no write it stays, and says nothing."""
    with shared_server.client() as client:
        client.hset(Keys(namespace).tools, "m", mark)
    [store] = await opened(shared_server, namespace, 1)
    assert await store.tools() == Tools()
    forget(shared_server, namespace)
    found = await store.tools()
    assert found.is_first and found.loss is not None and found.loss.emptied and found.loss.since <= found.loss.at
    await store.close()
    sent: list[tuple[object, ...]] = []

    async def unwritten(*terms: object) -> list[object]:
        sent.append(terms)
        return [[], mark.encode(), 0]

    tools = PausedTools(Keys(namespace), unwritten)
    assert [await tools.read() for _ in range(2)] == [Tools()] * 2 and sent[0] == sent[1]


async def test_a_hash_of_another_type_is_a_store_that_lost_it(shared_server: RedisServer, namespace: str) -> None:
    """Who knows a pause writes it again, and the loss is told."""
    [store] = await opened(shared_server, namespace, 1)
    await store.pause(BOOK)
    await store.tools()
    with shared_server.client() as client:
        client.delete(Keys(namespace).tools)
        client.set(Keys(namespace).tools, "x")
    found = await store.tools()
    assert (found.paused, found.is_first, found.rewritten) == ((BOOK,), True, 1)
    await store.close()


async def opened(server: RedisServer, namespace: str, count: int) -> list[RedisStore]:
    """Stores of as many processes, which have read the tools."""
    made = [RedisStore(StoreConfig(server.url, namespace)) for _ in range(count)]
    for store in made:
        await store.tools()
    return made


def forget(server: RedisServer, namespace: str) -> None:
    """The store loses all that it has of this namespace's tools."""
    with server.client() as client:
        client.delete(Keys(namespace).tools)


async def test_a_resume_before_the_flush_is_not_undone(shared_server: RedisServer, namespace: str) -> None:
    """One process has missed it, and writes its pause again: in either order the resume stands."""
    a, b, missed = await opened(shared_server, namespace, 3)
    await a.pause(BOOK)
    await a.pause(ODD)
    for store in (b, missed):
        assert (await store.tools()).paused == (BOOK, ODD)
    assert await b.resume("book")
    forget(shared_server, namespace)
    found = await missed.tools()
    assert (found.paused, found.rewritten, found.is_first) == ((BOOK, ODD), 2, True)
    assert found.loss is not None and found.loss.emptied and found.loss.since <= found.loss.at
    assert await b.tools() == Tools((ODD,), loss=found.loss), "told once, and the pause is there again"
    assert (await missed.tools()).paused == (ODD,)
    for store in (a, b, missed):
        await store.close()


@pytest.mark.parametrize(
    "later", [b'[1,99999999999999,5.0,"o","later"]', b"[9,x"], ids=["a later order", "what can't be read"]
)
async def test_what_came_before_the_writing_again_stands(
    shared_server: RedisServer, namespace: str, later: bytes
) -> None:
    [store] = await opened(shared_server, namespace, 1)
    with shared_server.client() as client:

        async def script(name: str, key: str, *terms: Any) -> Any:
            if name == "restore":
                client.hset(key, "p:book", later)
            return client.evalsha(SCRIPTS[name].sha, 1, key, *terms)

        tools = PausedTools(Keys(namespace), script)
        await tools.pause(BOOK)
        assert (await tools.read()).paused == (BOOK,)
        forget(shared_server, namespace)
        assert (await tools.read()).rewritten == 0
        assert client.hget(Keys(namespace).tools, "p:book") == later
    await store.close()


async def test_an_order_after_the_flush_counts_for_more_than_what_was_known(
    shared_server: RedisServer, namespace: str
) -> None:
    """Though who gives it has never heard of the pause."""
    a, b = await opened(shared_server, namespace, 2)
    await a.pause(BOOK)
    await a.died("move", "boot-2", 3, "why")
    assert (await a.tools()).suspected == {"move"}
    forget(shared_server, namespace)
    assert not await b.resume("book")
    found = await a.tools()
    assert not found.paused and found.suspected == {"move"} and not found.rewritten
    assert (await b.died("move", "boot-3", 3, "why"))[1], "the first end was written again"
    for store in (a, b):
        await store.close()


async def test_a_store_that_was_restored_is_told_from_one_that_was_emptied(
    shared_server: RedisServer, namespace: str
) -> None:
    """By the time of its mark, which one that has just begun does not write: it would hide the loss."""
    [a] = await opened(shared_server, namespace, 1)
    key = Keys(namespace).tools
    with shared_server.client() as client:
        name, at, *rest = client.hget(key, "m").split(b" ")
        client.hset(key, "m", b" ".join([name, b"%d" % (int(at) - 11_000), *rest]))
        [late] = await opened(shared_server, namespace, 1)
        found = await a.tools()
    assert found.is_first and found.loss is not None and not found.loss.emptied
    assert (await late.tools()).loss == found.loss and (await a.tools()).loss == found.loss
    for store in (a, late):
        await store.close()

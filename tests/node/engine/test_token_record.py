"""Tokens that carry what a call has learned: strategy replay's, and those of handlers that park by hand.

A client can't make one, but may send one as often as it likes; who has the keys can make any, and none is run on that
can't be read."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.request_state import AESGCMRequestStateCodec
from mcp.types import InputRequiredResult

import framehold
from framehold.config import Settings
from framehold.engine import runtime
from tests.kit.client import Reply
from tests.kit.nodes import KEY, served
from tests.kit.processes import until
from tests.kit.questions import asking
from tests.kit.serving import Served, Word, said, server_of
from tests.node.spoil import (
    EFFECTS,
    Log,
    hand_worker,
    worker,
)

pytestmark = pytest.mark.anyio

BAD_STATE = (400, -32602, "Invalid or expired requestState")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass that finds what is due comes at once, not within a second."""
    monkeypatch.setattr(runtime, "SWEEP", 0.02)


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@asynccontextmanager
async def at(*tools: Any, **settings: Any) -> AsyncIterator[Served]:
    """A node whose keys are known here; strategy replay, where nothing else is said."""
    server = server_of("stage", *tools)
    result = {"node_id": "stage", "keys": (KEY,), "strategy": "replay", "max_round": 20, **settings}
    app = framehold.asgi(server, Settings(**result))
    async with served(app) as url, Served(url) as caller:
        caller.runtime, caller.server = app.attached.runtime, server
        yield caller


class Wax:
    """Opens and makes tokens as the node does."""

    def __init__(self) -> None:
        self._codec = AESGCMRequestStateCodec([KEY.encode()])

    def envelope(self, token: str) -> dict[str, Any]:
        kind, sealed = token.split(".", 1)
        assert kind == "s1"
        opened: dict[str, Any] = json.loads(self._codec.unseal(sealed))
        return opened

    def state(self, token: str) -> str:
        return str(self.envelope(token)["s"])

    def made(self, token: str, state: str) -> str:
        """`token` with another state."""
        return "s1." + self._codec.seal(json.dumps({**self.envelope(token), "s": state}).encode())

    def claims(self, token: str) -> list[Any]:
        found: list[Any] = json.loads(self.state(token).split("\n")[0][1:])
        return found

    def entries(self, token: str) -> list[bytes]:
        return [line.encode() for line in self.state(token).split("\n")[1:]]

    def carrying(self, token: str, entries: list[bytes]) -> str:
        head = self.state(token).split("\n")[0]
        return self.made(token, "\n".join((head, *(item.decode() for item in entries))))

    def claiming(self, token: str, claims: Any) -> str:
        tag, _, lines = self.state(token)[0], "", self.state(token).split("\n")[1:]
        return self.made(token, "\n".join((tag + (claims if isinstance(claims, str) else json.dumps(claims)), *lines)))


wax = Wax()


def refused(reply: Reply) -> bool:
    """Whether it was refused in words that name what was and was not done, and no bug of the node showed."""
    if "error" in reply.message:
        named = reply.message["error"].get("data", {}).get("reason")
        return named in ("invalid_request_state", "unreadable", "diverged", "lost", "already_answered")
    return bool(reply.result.get("isError")) and "answers were not taken" in reply.text


async def parked(client: Served, tool: str = "work") -> Reply:
    """A call of `work` that has answered its first question, or one of `by_hand`."""
    reply = await client.call(tool)
    if tool == "work":
        reply = await answer(client, reply)
    assert reply.messages == ["two?" if tool == "work" else "by hand?"], reply.message
    return reply


async def answer(client: Served, reply: Reply, token: str | None = None, tool: str = "work", word: str = "x") -> Reply:
    return await client.retry(tool, reply.token if token is None else token, reply.accept(word=word))


async def test_a_token_that_was_spoiled(caplog: pytest.LogCaptureFixture) -> None:
    """By somebody who has the keys: entries that are none or missing, another call, round or seed. Each is refused by
    name, no effect runs, and the token as it was completes. How entries are read is tried in test_unreadable."""
    log = Log()
    async with at(worker(log)) as client:
        reply, other = await parked(client), await parked(client)
        log.ran, log.after = [], []
        token, entries, claims = reply.token, wax.entries(reply.token), wax.claims(reply.token)
        bad: list[list[bytes]] = [[], entries[:-1], entries[::-1], [b"?? no entry", *entries[1:]]]
        made = [wax.carrying(token, each) for each in (*bad, wax.entries(other.token))]
        made += [wax.claiming(token, odd) for odd in ("", [1, "f" * 32, *claims[2:]])]
        made += [wax.claiming(token, [*claims[:2], round_, *claims[3:]]) for round_ in (1, 3, 10**300)]
        strange = base64.b64encode(b"s" * 16).decode()
        for seed in ("", "not base64!", "ключ", claims[5][:20], strange, wax.claims(other.token)[5]):
            made.append(wax.claiming(token, [*claims[:5], seed, *claims[6:]]))
        for spoiled in made:
            caplog.clear()
            result = await answer(client, reply, spoiled)
            assert refused(result), (wax.state(spoiled), result.message)
            assert log.ran == log.after == [] and "Traceback" not in caplog.text, (wax.state(spoiled), caplog.text)
            assert not len(client.runtime.table)
        assert "does not verify" in caplog.text, "a seed that was sealed for another call"
        assert (await answer(client, reply)).text == "x x" and client.runtime.counts["broken"] == 0
    assert log.ran == ["after"]


async def test_an_authors_state_that_was_spoiled(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    async with at(hand_worker(log), strategy="hold") as client:
        reply = await parked(client, "by_hand")
        _, call, state = wax.claims(reply.token)
        log.ran, log.after, log.entered = [], [], 0
        made = [wax.carrying(reply.token, [b"?? no entry", *wax.entries(reply.token)[1:]])]
        made += [wax.claiming(reply.token, claims) for claims in ("", [1, "f" * len(call), state])]
        made += [wax.made(reply.token, tag + wax.state(reply.token)[1:]) for tag in ("Z", "m", "", " M", "\n")]
        for token in made:
            result = await answer(client, reply, token, "by_hand")
            assert refused(result) and log.entered == 0, (token, result.message)
            assert "Traceback" not in caplog.text, token
        assert "the handler was not entered" in caplog.text
        assert (await answer(client, reply, tool="by_hand")).text == "mine x"


async def test_a_carried_pickle_where_none_may_be(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    async with at(worker(log), hand_worker(log)) as client:
        reply, by_hand = await parked(client), await parked(client, "by_hand")
    log.ran, log.after = [], []
    async with at(worker(log), hand_worker(log), pickle=False) as client:
        assert refused(await answer(client, reply)) and "FRAMEHOLD_PICKLE is off" in caplog.text
        caplog.clear()
        assert refused(await answer(client, by_hand, tool="by_hand")) and "FRAMEHOLD_PICKLE is off" in caplog.text
    assert log.ran == log.after == []


async def test_a_token_of_a_handler_that_is_not_marked_any_more() -> None:
    """The promise is that of the present code: without the mark the handler is not entered again."""
    entered: list[str] = []

    async def work(ctx: Context) -> str:
        entered.append("work")
        return said(await ctx.elicit("one?", Word))

    async with at(framehold.reentrant(work)) as client:
        reply = await client.call("work")

    async def unmarked(ctx: Context) -> str:
        return await work(ctx)

    unmarked.__name__ = "work"
    async with at(unmarked, strategy="hold") as client:
        result = await answer(client, reply)
        assert result.code == -32603 and "not marked as safe to be entered again" in result.text
        assert "nothing was started" in result.text
    assert entered == ["work"]


@pytest.mark.parametrize("strategy", ["replay", "by hand", "by hand, learned"])
async def test_each_token_that_goes_out_may_come_in(strategy: str, caplog: pytest.LogCaptureFixture) -> None:
    """Up to the limit what a client was given to send fits into a request of its, with its arguments and answers.
    Beyond it the call ends, in words that name the limit; nothing is asked."""

    @framehold.reentrant
    async def work(size: int, ctx: Context) -> str | InputRequiredResult:
        if strategy != "by hand":
            await framehold.once("large", lambda: "x" * size)
        if strategy == "replay":
            return said(await ctx.elicit("one?", Word))
        if ctx.request_state is not None:
            return "x"
        return asking("s" * size if strategy == "by hand" else "s", q="by hand?")

    minted = 0
    async with at(work, max_body=8_000) as client:
        for size in range(1_000, 6_500, 100):
            caplog.clear()
            reply = await client.call("work", arguments={"size": size})
            if "error" in reply.message or reply.result.get("isError"):
                told = reply.text + caplog.text
                assert "FRAMEHOLD_MAX_BODY" in told and "nothing was asked" in told
                continue
            minted += 1
            done = await client.retry("work", reply.token, reply.accept(word="x"), arguments={"size": size})
            assert done.status == 200, (size, len(reply.token), done.text)
        assert not len(client.runtime.table)
    assert 10 < minted < 50


async def test_an_older_token_branches_the_history() -> None:
    """Each branch runs its own tail: once per branch, and on all branches the same idempotency key, uuid4, random and
    now."""
    log, seen = Log(), []

    @framehold.reentrant
    async def branching(ctx: Context) -> str:
        await framehold.once("trunk", log.plain, "trunk")
        one = said(await ctx.elicit("one?", Word))
        drawn = framehold.uuid4(), framehold.random(), framehold.now(), framehold.idempotency_key("k")
        named = framehold.uuid4("n"), framehold.random("n"), framehold.now("n")
        await framehold.once("tail", log.plain, f"tail {one}")
        two = said(await ctx.elicit("two?", Word))
        seen.append((*drawn, *named, framehold.uuid4("late")))
        return f"{one} {two}"

    async with at(branching) as client:
        first = await client.call("branching")
        branches = [await answer(client, first, tool="branching", word=word) for word in ("a", "b", "a")]
        done = [await answer(client, reply, tool="branching", word="z") for reply in (*branches, branches[1])]
        assert [reply.text for reply in done] == ["a z", "b z", "a z", "b z"]
        assert not [kind for kind, count in client.runtime.store.request_counts.items() if count and kind in WRITES]
    assert log.ran == ["trunk", "tail a", "tail b", "tail a"]
    assert len(seen) == 4 and len({repr(values[:7]) for values in seen}) == 1
    assert len({values[-1] for values in seen}) == 1


WRITES = {"read", "commit", "intent", "result", "finish", "claim", "verify", "heal", "release"}


async def test_two_retries_of_one_token_at_once() -> None:
    """Neither waits for the other, nor hears what the other did: each is a branch, and the same answers end alike."""
    log, both = Log(), asyncio.Barrier(2)

    @framehold.reentrant
    async def meeting(ctx: Context) -> str:
        one = said(await ctx.elicit("one?", Word))

        async def met() -> str:
            await asyncio.wait_for(both.wait(), 5)
            return log.plain(one)["what"]

        return f"{await framehold.once('meet', met)} {framehold.uuid4()}"

    async with at(meeting, max_round=20) as client:
        first = await client.call("meeting")
        for words in (("a", "b"), ("c", "c")):
            result = await asyncio.gather(*(answer(client, first, tool="meeting", word=word) for word in words))
            assert [reply.text.split()[0] for reply in result] == list(words)
            assert len({reply.text.split()[1] for reply in result}) == 1
        assert not len(client.runtime.table)
    assert sorted(log.ran) == ["a", "b", "c", "c"]


async def test_no_call_of_the_store_under_strategy_replay() -> None:
    log = Log()
    async with at(worker(log)) as client:
        reply = await parked(client)
        again = await client.retry("work", reply.token, {})
        assert again.messages == ["two?"]
        assert (await answer(client, again)).text == "x x"
        assert not WRITES & {kind for kind, count in client.runtime.store.request_counts.items() if count}
    assert log.ran == [*EFFECTS, "after"]


async def test_each_node_takes_the_tokens_of_either_strategy() -> None:
    log = Log()
    async with at(worker(log), strategy="replay") as replaying:
        carried = await replaying.call("work")
        assert carried.token.startswith("s1.")
        assert (await client_ends(replaying, carried)) == "x x"
        replaying.runtime.settings.__dict__["strategy"] = "hold"
        held = await replaying.call("work")
        assert held.token.startswith("h1.")
        replaying.runtime.settings.__dict__["strategy"] = "replay"
        assert (await client_ends(replaying, held)) == "x x"
        replaying.runtime.settings.__dict__["strategy"] = "hold"
        assert (await client_ends(replaying, carried)) == "x x"
    async with at(worker(log), strategy="hold") as holding:
        assert (await client_ends(holding, carried)) == "x x"
        assert not WRITES & {kind for kind, count in holding.runtime.store.request_counts.items() if count}


async def client_ends(client: Served, reply: Reply) -> str:
    reply = await answer(client, reply)
    assert reply.messages == ["two?"]
    return (await answer(client, reply)).text


async def test_a_handlers_own_ttl() -> None:
    """`options(ttl=...)` shortens the life of its tokens, and of the frame that waits; other handlers' live on."""

    @framehold.options(ttl=1)
    @framehold.reentrant
    async def brief(ctx: Context) -> str:
        return said(await ctx.elicit("quick?", Word))

    @framehold.reentrant
    async def patient(ctx: Context) -> str:
        return said(await ctx.elicit("slow?", Word))

    async with at(brief, patient) as client:
        envelope = wax.envelope((await client.call("brief")).token)
        assert envelope["exp"] - envelope["iat"] == 1
    async with at(brief, patient, strategy="hold") as client:
        long, short = await client.call("patient"), await client.call("brief")
        await until(lambda: client.runtime.counts["expired"] == 1, "the brief one's end")
        assert len(client.runtime.table) == 1
        result = await answer(client, short, tool="brief")
        assert (result.status, result.code, result.text) == BAD_STATE
        assert (await answer(client, long, tool="patient")).text == "x"

"""Tokens that carry what a call has learned: strategy replay's, and those of handlers that park by hand.

A client can't make one, but may send one as often as it likes; who has the keys can make any, and none is run on that
can't be read."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.request_state import AESGCMRequestStateCodec
from mcp.types import InputRequiredResult

import framehold
from framehold.config import Settings
from framehold.engine import runtime
from tests.node.asking import asking
from tests.node.nodes import KEY, served
from tests.node.spoil import (
    ANSWERS,
    EFFECTS,
    EVERYTHING,
    Bomb,
    Log,
    Place,
    Spoil,
    hand_worker,
    worker,
)
from tests.node.stage import Stage, Word, said, server_of
from tests.processes import until
from tests.wire import Reply

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
async def at(*tools: Any, **settings: Any) -> AsyncIterator[Stage]:
    """A node whose keys are known here; strategy replay, where nothing else is said."""
    server = server_of("stage", *tools)
    result = {"node_id": "stage", "keys": (KEY,), "strategy": "replay", "max_round": 20, **settings}
    app = framehold.asgi(server, Settings(**result))
    async with served(app) as url, Stage(url) as caller:
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


async def parked(client: Stage, tool: str = "work") -> Reply:
    """A call of `work` that has answered its first question, or one of `by_hand`."""
    reply = await client.call(tool)
    if tool == "work":
        reply = await answer(client, reply)
    assert reply.messages == ["two?" if tool == "work" else "by hand?"], reply.message
    return reply


async def answer(client: Stage, reply: Reply, token: str | None = None, tool: str = "work", word: str = "x") -> Reply:
    return await client.retry(tool, reply.token if token is None else token, reply.accept(word=word))


def place(client: Stage, reply: Reply, other: Reply, tmp_path: Path) -> Place:
    call = wax.claims(reply.token)[1]
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    payloads = client.runtime.payloads
    return Place(
        call, wax.entries(reply.token), wax.entries(other.token), payloads, client.runtime.settings.namespace, bomb
    )


def _shifted(spoils: dict[str, Spoil]) -> dict[str, Spoil]:
    return {name: spoil for name, spoil in spoils.items() if name != "empty"}


CUT: dict[str, Spoil] = {
    "the last entry gone": lambda at_: at_.entries[:-1],
    "the last two gone": lambda at_: at_.entries[:-2],
    "half of it gone": lambda at_: at_.entries[:6],
    "all of it gone": lambda at_: [],
    "an answer of another round": lambda at_: at_.changed(at_.index("answer"), ROUND=2),
    "a question of another text": lambda at_: at_.changed(at_.index("ask"), FP="0" * 32),
}
HAND = {name: spoil for name, spoil in EVERYTHING.items() if name != "empty"}
CARRIED = {**HAND, **ANSWERS, **CUT}
CASES = {"work": ("replay", CARRIED, "x x"), "by_hand": ("hold", HAND, "mine x")}


@pytest.mark.parametrize("tool", CASES)
async def test_entries_that_were_spoiled(tool: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By somebody who has the keys of the tokens: each is refused by name, no handler goes on, no effect runs; the
    token as it was completes after each. One that parks by hand is not even entered."""
    strategy, spoils, text = CASES[tool]
    log = Log()
    async with at(worker(log), hand_worker(log), strategy=strategy) as client:
        reply, other = await parked(client, tool), await parked(client, tool)
        where = place(client, reply, other, tmp_path)
        log.ran, log.after, log.entered = [], [], 0
        for name, spoil in spoils.items():
            caplog.clear()
            result = await answer(client, reply, wax.carrying(reply.token, spoil(where)), tool)
            assert refused(result), (name, result.message)
            assert log.ran == log.after == [] and (tool == "work" or not log.entered), (name, log)
            assert "can't be read" in caplog.text or "can't be continued" in caplog.text, (name, caplog.text)
            assert tool == "work" or "the handler was not entered" in caplog.text, (name, caplog.text)
            assert "Traceback" not in caplog.text and not (tmp_path / "exploded").exists(), (name, caplog.text)
            assert not len(client.runtime.table), name
        assert (await answer(client, reply, tool=tool)).text == text and client.runtime.counts["broken"] == 0
    assert log.ran == ["after"] and log.after == ["answered"]


async def test_where_one_answer_can_not_be_read_none_is_given() -> None:
    """Two branches of a task group, whose answers came in one round: what is recorded of the second was altered, and
    the first doesn't go on either."""
    after: list[str] = []

    @framehold.reentrant
    async def pair(ctx: Context) -> str:
        async def branch(key: str) -> None:
            await framehold.ask(key, "Well?", Word)
            after.append(key)

        async with asyncio.TaskGroup() as group:
            group.create_task(branch("a"))
            group.create_task(branch("b"))
        return said(await ctx.elicit("sure?", Word))

    async with at(pair) as client:
        reply = await answer(client, await client.call("pair"), tool="pair")
        assert reply.messages == ["sure?"] and sorted(after) == ["a", "b"]
        after.clear()
        entries = wax.entries(reply.token)
        last = max(n for n, item in enumerate(entries) if json.loads(item)[2] == "answer")
        row = json.loads(entries[last])
        row[8] = base64.b64encode(base64.b64decode(row[8])[:-1] + b"?").decode()
        entries[last] = json.dumps(row, separators=(",", ":")).encode()
        assert refused(await answer(client, reply, wax.carrying(reply.token, entries), "pair")) and after == []
        assert (await answer(client, reply, tool="pair")).text == "x"


async def test_a_carried_pickle_where_none_may_be(caplog: pytest.LogCaptureFixture) -> None:
    """A node on which FRAMEHOLD_PICKLE is off goes on with neither kind of token, and says why."""
    log = Log()
    async with at(worker(log), hand_worker(log)) as client:
        reply, by_hand = await parked(client), await parked(client, "by_hand")
    log.ran, log.after = [], []
    async with at(worker(log), hand_worker(log), pickle=False) as client:
        assert refused(await answer(client, reply)) and "FRAMEHOLD_PICKLE is off" in caplog.text
        caplog.clear()
        assert refused(await answer(client, by_hand, tool="by_hand")) and "FRAMEHOLD_PICKLE is off" in caplog.text
    assert log.ran == log.after == []


async def test_claims_that_no_node_writes(caplog: pytest.LogCaptureFixture) -> None:
    """Of another shape, round, call or seed: refused by name, no effect runs, and the token as it was completes."""
    log = Log()

    @framehold.reentrant
    async def drawing(ctx: Context) -> str:
        said(await ctx.elicit("one?", Word))
        said(await ctx.elicit("two?", Word))
        log.after.append(f"{framehold.now()} {framehold.uuid4()}")
        return "done"

    async with at(drawing) as client:
        reply = await answer(client, await client.call("drawing"), tool="drawing")
        other = wax.claims((await client.call("drawing")).token)
        claims = wax.claims(reply.token)
        seed = claims[5]
        odd: dict[str, Any] = {"none": "", "another call": [1, "f" * 32, *claims[2:]]}
        odd |= {f"round {n}": [*claims[:2], n, *claims[3:]] for n in (1, 3, 10**300)}
        seeds = ("", "not base64!", "ключ", seed[:20], ("A" if seed[0] != "A" else "B") + seed[1:])
        seeds += (base64.b64encode(b"s" * 16).decode(), other[5])
        odd |= {f"seed {text}": [*claims[:5], text, *claims[6:]] for text in seeds}
        for name, made in odd.items():
            caplog.clear()
            result = await answer(client, reply, wax.claiming(reply.token, made), "drawing")
            assert refused(result), (name, result.message)
            assert log.after == [] and "Traceback" not in caplog.text, (name, log, caplog.text)
            assert not len(client.runtime.table), name
        assert "does not verify" in caplog.text, "a seed that was sealed for another call"
        assert (await answer(client, reply, tool="drawing")).text == "done"
        assert client.runtime.counts["broken"] == 0


async def test_authors_states_that_no_node_writes(caplog: pytest.LogCaptureFixture) -> None:
    """The same for the claims beside an author's state, and for states under a tag that nobody has."""
    log = Log()
    async with at(hand_worker(log), strategy="hold") as client:
        reply = await parked(client, "by_hand")
        _, call, state = wax.claims(reply.token)
        log.ran, log.after, log.entered = [], [], 0
        made = [wax.claiming(reply.token, claims) for claims in ("", [1, "f" * len(call), state])]
        made += [wax.made(reply.token, tag + wax.state(reply.token)[1:]) for tag in ("Z", "m", "", " M", "\n")]
        for token in made:
            result = await answer(client, reply, token, "by_hand")
            assert refused(result) and log.entered == 0, (token, result.message)
            assert "Traceback" not in caplog.text, token
        assert (await answer(client, reply, tool="by_hand")).text == "mine x"


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


# Sizes


async def test_a_token_beyond_the_limit_that_would_go_out(caplog: pytest.LogCaptureFixture) -> None:
    """The call ends, in words that name the limit, what was done, and what to do; nothing is asked."""
    log = Log()

    @framehold.reentrant
    async def learned(ctx: Context) -> str:
        await framehold.once("large", lambda: log.plain("x" * 20_000))
        return said(await ctx.elicit("one?", Word))

    async with at(learned, max_body=20_000) as client:
        result = await client.call("learned")
        assert result.result["isError"] and "too much for its token to carry" in result.text
        assert not len(client.runtime.table)
    assert "FRAMEHOLD_MAX_BODY" in caplog.text and "nothing was asked" in caplog.text and len(log.ran) == 1


@pytest.mark.parametrize("learns", [False, True], ids=["its own", "what it learned"])
async def test_an_authors_state_beyond_the_limit(learns: bool) -> None:
    @framehold.reentrant
    async def by_hand(ctx: Context) -> InputRequiredResult:
        if learns:
            await framehold.once("large", lambda: "x" * 20_000)
        return asking("s" if learns else "s" * 20_000, q="by hand?")

    async with at(by_hand, max_body=20_000, strategy="hold") as client:
        result = await client.call("by_hand")
        assert result.code == -32603 and "FRAMEHOLD_MAX_BODY" in result.text and "nothing was asked" in result.text


@pytest.mark.parametrize("strategy", ["replay", "by hand"])
async def test_each_token_that_goes_out_may_come_in(strategy: str) -> None:
    """Up to the limit: what a client was given to send fits into a request of its, with its arguments and answers."""
    limit = 8_000

    @framehold.reentrant
    async def work(size: int, ctx: Context) -> str | InputRequiredResult:
        if strategy == "replay":
            await framehold.once("large", lambda: "x" * size)
            return said(await ctx.elicit("one?", Word))
        if ctx.request_state is not None:
            return "x"
        return asking("s" * size, q="by hand?")

    minted = 0
    async with at(work, max_body=limit) as client:
        for size in range(1_000, 6_500, 100):
            reply = await client.call("work", arguments={"size": size})
            if "error" in reply.message or reply.result.get("isError"):
                continue
            minted += 1
            done = await client.retry("work", reply.token, reply.accept(word="x"), arguments={"size": size})
            assert done.status == 200, (size, len(reply.token), done.text)
    assert minted > 10


# Branches


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
    """Not for questions, effects, values, partial answers, divergence or an end."""
    log = Log()
    async with at(worker(log)) as client:
        reply = await parked(client)
        again = await client.retry("work", reply.token, {})
        assert again.messages == ["two?"]
        assert (await answer(client, again)).text == "x x"
        assert not WRITES & {kind for kind, count in client.runtime.store.request_counts.items() if count}
    assert log.ran == [*EFFECTS, "after"]


async def test_each_node_takes_the_tokens_of_either_strategy() -> None:
    """The setting says how calls begin; a token says how its call goes on."""
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


async def client_ends(client: Stage, reply: Reply) -> str:
    reply = await answer(client, reply)
    assert reply.messages == ["two?"]
    return (await answer(client, reply)).text


async def test_one_replayed_tool_beside_held_ones() -> None:
    """`options(strategy=...)` decides for one handler, either way, whatever the setting."""

    @framehold.options(strategy="replay")
    @framehold.reentrant
    async def replayed(ctx: Context) -> str:
        return said(await ctx.elicit("replayed?", Word))

    @framehold.options(strategy="hold")
    async def held(ctx: Context) -> str:
        return said(await ctx.elicit("held?", Word))

    @framehold.reentrant
    async def usual(ctx: Context) -> str:
        return said(await ctx.elicit("usual?", Word))

    for setting in ("hold", "replay"):
        async with at(replayed, held, usual, strategy=setting) as client:
            for tool, strategy in {"replayed": "replay", "held": "hold", "usual": setting}.items():
                prefix = "s1." if strategy == "replay" else "h1."
                reply = await client.call(tool)
                assert reply.token.startswith(prefix), (setting, tool)
                assert len(client.runtime.table) == (prefix == "h1.")
                assert (await answer(client, reply, tool=tool)).text == "x"
                assert not len(client.runtime.table)


async def test_a_sync_tool_without_a_mark_is_served_under_strategy_replay() -> None:
    """It can't ask, so nothing of it is ever replayed."""

    def plain(name: str) -> str:
        return f"hello {name} {framehold.idempotency_key('k')[:0]}"

    async with at(plain) as client:
        reply = await client.call("plain", arguments={"name": "Ada"})
        assert reply.text.strip() == "hello Ada", reply.message


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

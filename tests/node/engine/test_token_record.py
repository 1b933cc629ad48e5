"""Tokens that carry what a call has learned: strategy replay's, and those of handlers that park by hand.

A client can't make one, but may send one as often as it likes; who has the keys can make any, and none is run on that
can't be read."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.request_state import AESGCMRequestStateCodec
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

import framehold
from framehold.config import Settings
from framehold.engine import runtime
from tests.node.nodes import KEY, served
from tests.node.spoil import (
    ANSWERS,
    CODECS,
    EFFECTS,
    ORDERS,
    RESULTS,
    SHAPES,
    VALUES,
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
CARRIED = {**_shifted(SHAPES), **ORDERS, **RESULTS, **ANSWERS, **VALUES, **CODECS, **CUT}


async def test_entries_that_were_spoiled_in_a_replayed_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By somebody who has the keys of the tokens: each is refused by name, no handler goes on, no effect runs; the
    token as it was completes after each."""
    log = Log()
    async with at(worker(log)) as client:
        reply, other = await parked(client), await parked(client)
        where = place(client, reply, other, tmp_path)
        assert len(where.entries) == len(where.other) == 12
        log.ran, log.after = [], []
        for name, spoil in CARRIED.items():
            caplog.clear()
            result = await answer(client, reply, wax.carrying(reply.token, spoil(where)))
            assert refused(result), (name, result.message)
            assert log.ran == log.after == [], (name, log)
            assert "can't be read" in caplog.text or "can't be continued" in caplog.text, (name, caplog.text)
            assert "Traceback" not in caplog.text and not (tmp_path / "exploded").exists(), (name, caplog.text)
            assert not len(client.runtime.table), name
        assert (await answer(client, reply)).text == "x x" and client.runtime.counts["broken"] == 0
    assert log.ran == ["after"]


HAND = {
    **_shifted(SHAPES),
    **ORDERS,
    **RESULTS,
    **VALUES,
    **CODECS,
}


async def test_entries_that_were_spoiled_in_an_authors_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same for a handler that parks by hand: it is not even entered."""
    log = Log()
    async with at(hand_worker(log), strategy="hold") as client:
        reply, other = await parked(client, "by_hand"), await parked(client, "by_hand")
        where = place(client, reply, other, tmp_path)
        log.ran, log.after, log.entered = [], [], 0
        for name, spoil in HAND.items():
            caplog.clear()
            result = await answer(client, reply, wax.carrying(reply.token, spoil(where)), "by_hand")
            assert refused(result) and log.entered == 0, (name, result.message)
            assert "can't be read" in caplog.text and "the handler was not entered" in caplog.text, (name, caplog.text)
            assert "Traceback" not in caplog.text and not (tmp_path / "exploded").exists(), name
        assert (await answer(client, reply, tool="by_hand")).text == "mine x"
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
        value = bytearray(base64.b64decode(row[8]))
        value[-1] ^= 1
        row[8] = base64.b64encode(value).decode()
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


def _odd_claims(claims: list[Any]) -> dict[str, Any]:
    """Claims that no node of this release writes."""
    call, seed = claims[1], claims[5]
    assert (len(claims), claims[0], claims[2]) == (8, 1, 2)

    def but(index: int, value: Any) -> list[Any]:
        return [*claims[:index], value, *claims[index + 1 :]]

    odd: dict[str, Any] = {
        "empty": "",
        "no JSON": "[1,",
        "a text": '"1"',
        "a number": "1",
        "null": "null",
        "an object": '{"1":1}',
        "no claims": "[]",
        "a version only": "[1]",
        "one less": claims[:-1],
        "one more": [*claims, 1],
        "newer": but(0, 2),
        "older": but(0, 0),
        "a version as text": but(0, "1"),
        "deep": "[" * 50_000,
        "deep and closed": "[" * 50_000 + "]" * 50_000,
        "too many digits": "[1," + "9" * 5000 + "]",
        "no call": but(1, ""),
        "a call that is none": but(1, "../../etc"),
        "a call of another kind": but(1, 17),
        "a call as a list": but(1, [call]),
        "another call": but(1, "f" * len(call)),
        "round 0": but(2, 0),
        "a negative round": but(2, -1),
        "a round as text": but(2, "2"),
        "a round as float": but(2, 2.0),
        "a round as truth": but(2, True),
        "an earlier round": but(2, 1),
        "a later round": but(2, 3),
        "a huge round": but(2, 10**300),
        "epoch 0": but(3, 0),
        "a negative epoch": but(3, -5),
        "an epoch as text": but(3, "1"),
        "a code of another kind": but(4, None),
        "no seed": but(5, ""),
        "a seed that is no base64": but(5, "not base64!"),
        "a seed that is no ASCII": but(5, "ключ"),
        "a seed of another kind": but(5, 17),
        "a short seed": but(5, seed[:20]),
        "a seed with a bit flipped": but(5, ("A" if seed[0] != "A" else "B") + seed[1:]),
        "a seed that is not sealed": but(5, base64.b64encode(b"s" * 16).decode()),
        "an instant as text": but(6, "now"),
        "an instant as an integer": but(6, 17),
        "no instant": but(6, math.nan),
        "an endless instant": but(6, math.inf),
        "an instant before all": but(6, -1e300),
        "an instant after all": but(6, 1e300),
        "a lifetime as text": but(7, "long"),
        "a lifetime as null": but(7, None),
    }
    return odd


async def test_claims_that_no_node_writes(caplog: pytest.LogCaptureFixture) -> None:
    """Wrong types, huge numbers, deep nesting, other versions, other rounds, other seeds: refused by name, no effect
    runs, and the token as it was completes after each."""
    log = Log()

    @framehold.reentrant
    async def drawing(ctx: Context) -> str:
        said(await ctx.elicit("one?", Word))
        said(await ctx.elicit("two?", Word))
        log.after.append(f"{framehold.now()} {framehold.uuid4()}")
        return "done"

    async with at(drawing) as client:
        reply = await answer(client, await client.call("drawing"), tool="drawing")
        assert reply.messages == ["two?"]
        for name, claims in _odd_claims(wax.claims(reply.token)).items():
            caplog.clear()
            result = await answer(client, reply, wax.claiming(reply.token, claims), "drawing")
            assert refused(result), (name, result.message)
            assert log.after == [] and "Traceback" not in caplog.text, (name, log, caplog.text)
            assert not len(client.runtime.table), name
        # Sealed for its own call, a seed opens in no other one.
        other = await client.call("drawing")
        claims = wax.claims(reply.token)
        claims[5] = wax.claims(other.token)[5]
        result = await answer(client, reply, wax.claiming(reply.token, claims), "drawing")
        assert refused(result) and "does not verify" in caplog.text
        assert (await answer(client, reply, tool="drawing")).text == "done"
        assert client.runtime.counts["broken"] == 0


async def test_authors_states_that_no_node_writes(caplog: pytest.LogCaptureFixture) -> None:
    """The same for the claims beside an author's state, and for states under a tag that nobody has."""
    log = Log()
    async with at(hand_worker(log), strategy="hold") as client:
        reply = await parked(client, "by_hand")
        version, call, state = claims = wax.claims(reply.token)
        assert (version, state) == (1, "mine")
        log.ran, log.after, log.entered = [], [], 0
        odd: dict[str, Any] = {
            "empty": "",
            "no JSON": "[1,",
            "null": "null",
            "an object": '{"1":1}',
            "newer": [2, call, state],
            "one less": [1, call],
            "one more": [*claims, 1],
            "a call that is none": [1, "nobody", state],
            "a call of another kind": [1, 17, state],
            "another call": [1, "f" * len(call), state],
            "a state of another kind": [1, call, 17],
            "a state as a list": [1, call, ["mine"]],
            "deep": "[" * 50_000 + "]" * 50_000,
            "too many digits": "[1," + "9" * 5000 + "]",
        }
        made = {name: wax.claiming(reply.token, result) for name, result in odd.items()}
        for tag in ("Z", "m", "", " M", "\n"):
            made[f"tag {tag!r}"] = wax.made(reply.token, tag + wax.state(reply.token)[1:])
        for name, token in made.items():
            result = await answer(client, reply, token, "by_hand")
            assert refused(result) and log.entered == 0, (name, result.message)
            assert "Traceback" not in caplog.text, name
        assert (await answer(client, reply, tool="by_hand")).text == "mine x"


async def test_tokens_that_a_client_makes_up() -> None:
    """Without the keys nothing that is sent as a token is even looked into: plain states, encoded ones, cut ones,
    swapped halves, another tool's or another argument's token."""

    @framehold.reentrant
    async def other(ctx: Context) -> str:
        return said(await ctx.elicit("two?", Word))

    log = Log()
    async with at(worker(log), hand_worker(log), other) as client:
        for tool in ("work", "by_hand"):
            reply = await parked(client, tool)
            log.after, log.ran, log.entered = [], [], 0
            state, token = wax.state(reply.token), reply.token
            encoded = base64.urlsafe_b64encode(state.encode()).decode().rstrip("=")
            middle = len(token) // 2
            foreign = AESGCMRequestStateCodec([b"a key of 32 bytes that nobody has"])
            made = {
                "plain": state,
                "plain, with a prefix": f"s1.{state}",
                "encoded": f"s1.{encoded}",
                "encoded, named as held": f"h1.{wax.claims(token)[1]}.{encoded}",
                "named as held": f"h1.{wax.claims(token)[1]}.{token[3:]}",
                "another version": f"s2.{token[3:]}",
                "cut short": token[:-4],
                "cut in half": token[:middle],
                "twice": token + token,
                "a bit flipped": token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :],
                "under another key": "s1." + foreign.seal(json.dumps(wax.envelope(token)).encode()),
                "padded": token + "=",
                "empty": "s1.",
            }
            for name, forged in made.items():
                result = await answer(client, reply, forged, tool)
                assert (result.status, result.code, result.text) == BAD_STATE, (tool, name)
            for stranger in ("other", "by_hand" if tool == "work" else "work"):
                result = await answer(client, reply, token, stranger)
                assert (result.status, result.code, result.text) == BAD_STATE, (tool, stranger)
            result = await client.retry(tool, token, reply.accept(word="x"), arguments={"extra": 1})
            assert (result.status, result.code, result.text) == BAD_STATE
            assert log.entered == 0
            assert (await answer(client, reply, tool=tool)).text in ("x x", "mine x")


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


async def test_a_token_beyond_the_limit_that_comes_in() -> None:
    """413, by the setting's name, before anything of it is looked at."""
    async with at(worker(Log()), max_body=10_000) as client:
        reply = await client.call("work")
        async with asyncio.timeout(10):
            response = await client._http.post(
                client.url,
                json=client.envelope("tools/call", {"name": "work", "requestState": "s1." + "A" * 20_000}).body,
                headers=client.envelope("tools/call", {"name": "work"}).headers,
            )
        assert response.status_code == 413 and "FRAMEHOLD_MAX_BODY" in response.text
        assert "nothing was started" in response.text
        reply = await answer(client, reply)
        assert (await answer(client, reply)).text == "x x"


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
    """The call ends with an error that names the limit; nothing is asked."""

    @framehold.reentrant
    async def by_hand(ctx: Context) -> InputRequiredResult:
        if learns:
            await framehold.once("large", lambda: "x" * 20_000)
        schema = {"type": "object", "properties": {}}
        asked = ElicitRequest(params=ElicitRequestFormParams(message="by hand?", requested_schema=schema))
        return InputRequiredResult(input_requests={"q": asked}, request_state="s" if learns else "s" * 20_000)

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
        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        asked = ElicitRequest(params=ElicitRequestFormParams(message="by hand?", requested_schema=schema))
        return InputRequiredResult(input_requests={"q": asked}, request_state="s" * size)

    minted = 0
    async with at(work, max_body=limit) as client:
        for size in range(1_000, 6_500, 50):
            reply = await client.call("work", arguments={"size": size})
            if "error" in reply.message or reply.result.get("isError"):
                continue
            minted += 1
            envelope = client.envelope(
                "tools/call",
                {
                    "name": "work",
                    "arguments": {"size": size},
                    "requestState": reply.token,
                    "inputResponses": reply.accept(word="x"),
                },
            )
            response = await client._http.post(client.url, json=envelope.body, headers=envelope.headers)
            assert response.status_code == 200, (size, len(reply.token), response.text)
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
    """The setting says how calls begin; a token says how its call goes on. In one process, which holds the frames, and
    across two settings of one server."""
    log = Log()

    async def begin(client: Stage) -> Reply:
        return await client.call("work")

    async with at(worker(log), strategy="replay") as replaying:
        carried = await begin(replaying)
        assert carried.token.startswith("s1.")
        assert (await client_ends(replaying, carried)) == "x x"
        replaying.runtime.settings.__dict__["strategy"] = "hold"
        held = await begin(replaying)
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
            for tool, prefix in (
                ("replayed", "s1."),
                ("held", "h1."),
                ("usual", "s1." if setting == "replay" else "h1."),
            ):
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


@pytest.mark.parametrize("strategy", ["hold", "replay"])
async def test_a_handlers_own_ttl(strategy: str) -> None:
    """`options(ttl=...)` shortens the life of its tokens, and of the frame that waits; other handlers' live on."""

    @framehold.options(ttl=1)
    @framehold.reentrant
    async def brief(ctx: Context) -> str:
        said(await ctx.elicit("quick?", Word))
        return said(await ctx.elicit("again?", Word))

    @framehold.reentrant
    async def patient(ctx: Context) -> str:
        return said(await ctx.elicit("slow?", Word))

    async with at(brief, patient, strategy=strategy) as client:
        long, short = await client.call("patient"), await client.call("brief")
        short = await answer(client, short, tool="brief")
        assert short.messages == ["again?"]
        if strategy == "hold":
            assert len(client.runtime.table) == 2
            await until(lambda: client.runtime.counts["expired"] == 1, "the brief one's end")
            assert len(client.runtime.table) == 1
        else:
            envelope = wax.envelope(short.token)
            assert envelope["exp"] - envelope["iat"] == 1

        async def late() -> Reply:
            return await answer(client, short, tool="brief")

        async with asyncio.timeout(10):
            while "result" in (result := await late()).message:
                await asyncio.sleep(0.1)
        assert (result.status, result.code, result.text) == BAD_STATE
        assert (await answer(client, long, tool="patient")).text == "x"

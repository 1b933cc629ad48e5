"""Tokens as a client may bring them: forged, foreign, stale, swapped; and what each is answered.

After each bad one the good one completes: nothing was consumed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.request_state import AESGCMRequestStateCodec
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

import framehold
from framehold.config import Settings
from framehold.sdk.state_codec import PrefixCodec
from framehold_core.clock import Clock
from framehold_core.ids import is_call_id
from tests.kit.client import Caller, Reply, accepted
from tests.kit.nodes import served
from tests.kit.serving import Word, said, server_of, serving

pytestmark = pytest.mark.anyio

OLD, NEW = "old key, of 32 bytes and some more", "new key, of 32 bytes and some more"
BAD_STATE = (400, -32602, "Invalid or expired requestState")


def told(reply: Reply) -> tuple[int, int, str]:
    return reply.status, reply.code, reply.text


async def rounds(count: int, ctx: Context) -> str:
    words = [said(await ctx.elicit(f"word {number}?", Word)) for number in range(1, count + 1)]
    return " ".join(words)


async def other(count: int, ctx: Context) -> str:
    return said(await ctx.elicit("other?", Word))


async def by_hand(text: str, ctx: Context) -> str | InputRequiredResult:
    if ctx.request_state is not None:
        return f"state: {ctx.request_state}"
    schema = {"type": "object", "properties": {}}
    asks = {"q": ElicitRequest(params=ElicitRequestFormParams(message="by hand?", requested_schema=schema))}
    return InputRequiredResult(input_requests=asks, request_state=text)


class Talk:
    """One call of `rounds`, told what to answer."""

    def __init__(self, client: Caller, count: int) -> None:
        self.client, self.arguments = client, {"count": count}

    async def start(self) -> Reply:
        return await self.client.call("rounds", arguments=self.arguments)

    async def send(self, reply: Reply, word: str = "x", *, token: str | None = None, tool: str = "rounds") -> Reply:
        answers, state = reply.accept(word=word), reply.token if token is None else token
        return await self.client.retry(tool, state, answers, arguments=self.arguments)


def mutations(token: str) -> dict[str, str]:
    kind, call, sealed = token.split(".", 2)
    another = ("1" if call[0] == "0" else "0") + call[1:]
    middle = len(sealed) // 2
    flipped = "B" if sealed[middle] == "A" else "A"
    return {
        "empty": "",
        "forged": "forged",
        "the prefix alone": f"{kind}.{call}.",
        "no seal": f"{kind}.{call}",
        "cut short": token[:-1],
        "cut in half": token[: len(token) // 2],
        "longer": token + "A",
        "padded": token + "=",
        "spaced": " " + token,
        "twice": token + token,
        "a bit flipped": f"{kind}.{call}.{sealed[:middle]}{flipped}{sealed[middle + 1 :]}",
        "another call": f"{kind}.{another}.{sealed}",
        "a call in capitals": f"{kind}.{call.upper()}.{sealed}" if call.upper() != call else "forged",
        "no call": f"{kind}..{sealed}",
        "another version": f"h2.{call}.{sealed}",
        "hold as stateless": f"s1.{sealed}",
        "hold as stateless, with its call": f"s1.{call}.{sealed}",
        "without a prefix": sealed,
        "what is sealed, in the open": f'F[1,"{call}",1,1,1,"","stage","","hold"]',
        "no ASCII": f"{kind}.{call}.ключ",
        "NUL": f"{kind}.{call}.\0",
        "long": f"{kind}.{call}." + "A" * 1_000_000,
    }


async def test_a_token_that_was_never_minted() -> None:
    async with serving(rounds) as client:
        talk = Talk(client, 1)
        asked = await talk.start()
        kind, call, _ = asked.token.split(".", 2)
        assert kind == "h1" and is_call_id(call)
        for name, token in mutations(asked.token).items():
            assert told(await talk.send(asked, token=token)) == BAD_STATE, name
        assert client.runtime.counts["resumed"] == 0
        assert (await talk.send(asked)).text == "x"
        assert client.runtime.counts["entered"] == 1


async def test_a_token_of_another_call() -> None:
    async with serving(rounds) as client:
        talk = Talk(client, 1)
        one, two = await talk.start(), await talk.start()
        (kind, call, _), (_, _, sealed) = one.token.split(".", 2), two.token.split(".", 2)
        assert told(await talk.send(one, token=f"{kind}.{call}.{sealed}")) == BAD_STATE
        assert (await talk.send(one, "a")).text == "a"
        assert (await talk.send(two, "b")).text == "b"


async def test_a_token_for_other_arguments_or_another_tool() -> None:
    async with serving(rounds, other) as client:
        talk = Talk(client, 1)
        asked = await talk.start()
        assert told(await talk.send(asked, tool="other")) == BAD_STATE
        for count in (2, 1.5, "1", True):
            answers = asked.accept(word="x")
            reply = await client.retry("rounds", asked.token, answers, arguments={"count": count})
            assert told(reply) == BAD_STATE, count
        reply = await client.send("prompts/get", {"name": "rounds", "requestState": asked.token})
        assert reply.status in (400, 404) and reply.code in (-32602, -32601)
        assert (await talk.send(asked)).text == "x"


@pytest.mark.parametrize("ordinary", [True, False])
@pytest.mark.parametrize("size", [10, 2000], ids=["light", "heavy"])
async def test_a_token_for_arguments_that_a_retry_changes_or_leaves_out(size: int, ordinary: bool) -> None:
    own = {"arguments": {"count": 1, "more": "x" * size}}
    async with serving(rounds, ordinary=ordinary) as client:
        # The head is known from the second call on.
        await client.call("rounds", **own)
        asked = await client.call("rounds", **own)
        retry = {"name": "rounds", "requestState": asked.token, "inputResponses": asked.accept(word="w")}
        others: list[dict[str, Any]] = [{"arguments": {"count": 1, "more": "y" * size}}, {"arguments": {}}, {}]
        for changed in others:
            assert told(await client.send("tools/call", {**retry, **changed})) == BAD_STATE, changed
        assert client.runtime.counts["resumed"] == 0
        assert (await client.send("tools/call", {**retry, **own})).text == "w"


@asynccontextmanager
async def node(name: str, *keys: str) -> AsyncIterator[Caller]:
    server = server_of(name, rounds, by_hand)
    async with served(framehold.asgi(server, Settings(node_id="n", keys=keys))) as url, Caller(url) as caller:
        yield caller


async def answered(client: Caller, token: str, text: str) -> Reply:
    return await client.retry("by_hand", token, {"q": accepted()}, arguments={"text": text})


async def test_keys_rotate_and_old_ones_still_open() -> None:
    async with node("fleet", OLD) as before, node("fleet", NEW, OLD) as between, node("fleet", NEW) as after:
        old = (await before.call("by_hand", arguments={"text": "t"})).token
        new = (await between.call("by_hand", arguments={"text": "t"})).token
        assert (await answered(between, old, "t")).text == "state: t"
        assert told(await answered(after, old, "t")) == BAD_STATE
        assert told(await answered(before, new, "t")) == BAD_STATE
        assert (await answered(after, new, "t")).text == "state: t"


async def test_a_token_of_another_server_or_key() -> None:
    async with node("one", OLD) as one, node("two", OLD) as two, node("one", NEW) as foreign:
        token = (await one.call("by_hand", arguments={"text": "t"})).token
        asked = await Talk(one, 1).start()
        for stranger in (two, foreign):
            assert told(await answered(stranger, token, "t")) == BAD_STATE
            assert told(await Talk(stranger, 1).send(asked)) == BAD_STATE
        assert (await answered(one, token, "t")).text == "state: t"
        assert (await Talk(one, 1).send(asked)).text == "x"


@pytest.mark.parametrize("ordinary", [True, False])
async def test_an_expired_token(ordinary: bool) -> None:
    """By the time that is sealed in it, on the clock of the store, though its frame still waits; in time it completes.
    A token that was made before that clock was set back is taken."""
    async with serving(rounds, ordinary=ordinary) as client:
        talk, clock = Talk(client, 1), client.runtime.clock
        asked = await talk.start()
        for seconds in (601.0, -601.0):
            clock.measured(clock.time() + seconds, clock.now(), clock.now())
            if seconds > 0:
                assert told(await talk.send(asked)) == BAD_STATE
        clock.measured(clock.time() - 601.0, clock.now(), clock.now())
        assert (await talk.send(asked)).text == "x"


@pytest.mark.parametrize(("here", "there"), [(90.0, -90.0), (-90.0, 90.0), (0.0, 1e6)])
def test_a_token_has_the_times_of_the_store(here: float, there: float) -> None:
    """Each machine's SDK reads them on its own wall clock, however wrong that is."""

    def machine(wrong: float) -> tuple[PrefixCodec, float]:
        clock = Clock(lambda: 50.0, lambda: 1000.0 + wrong, bytes)
        clock.measured(1000.0, 50.0, 50.0)
        return PrefixCodec(AESGCMRequestStateCodec([OLD]), clock), 1000.0 + wrong

    (minting, wall), (opening, elsewhere) = machine(here), machine(there)
    token = minting.seal(json.dumps({"v": 1, "iat": wall, "exp": wall + 600.0, "s": "Amine"}).encode())
    assert json.loads(minting.inner.unseal(token.removeprefix("s1."))) == {
        "v": 1,
        "s": "Amine",
        "iat": 1000.0,
        "exp": 1600.0,
    }
    assert json.loads(opening.unseal(token)) == {"v": 1, "iat": elsewhere, "exp": elsewhere + 600.0, "s": "Amine"}


@pytest.mark.parametrize("back", [61.0, 1200.0, 1e8])
async def test_no_token_is_refused_because_the_stores_clock_was_set_back(back: float) -> None:
    async with serving(rounds) as client:
        talk, clock = Talk(client, 1), client.runtime.clock
        here = clock.time()
        clock.measured(here + back, clock.now(), clock.now())
        asked = await talk.start()
        clock.measured(here, clock.now(), clock.now())
        assert (await talk.send(asked)).text == "x"


async def test_a_stale_token() -> None:
    """The retry table of docs/protocol-tables.md, over HTTP: by which round it names, and by what it answers."""
    async with serving(rounds) as client:
        talk = Talk(client, 3)
        first = await talk.start()
        second = await talk.send(first, "a")
        again = await talk.send(first, "a")
        assert again.asked == second.asked and again.token != second.token
        assert (await talk.send(first, "b")).message["error"]["data"] == {"reason": "answers_conflict"}
        third = await talk.send(again, "b")
        assert third.messages == ["word 3?"]
        early = await talk.send(first, "a")
        assert (early.status, early.code) == (400, -32602)
        assert early.message["error"]["data"] == {"reason": "already_answered"}
        assert (await talk.send(first, "b")).message["error"]["data"] == {"reason": "answers_conflict"}
        assert (await talk.send(second, "b")).asked == third.asked
        for _ in range(2):
            assert (await talk.send(third, "c")).text == "a b c"
        assert client.runtime.counts["entered"] == 1


async def test_a_token_after_the_call_finished() -> None:
    async with serving(rounds) as client:
        talk = Talk(client, 2)
        first = await talk.start()
        second = await talk.send(first, "a")
        done = await talk.send(second, "b")
        for token, word in ((second, "b"), (first, "a"), (second, "b")):
            assert (await talk.send(token, word)).result == done.result
        for token in (first, second):
            late = await talk.send(token, "c")
            assert (late.status, late.code) == (400, -32602)
            assert late.message["error"]["data"] == {"reason": "answers_conflict"}
        assert (client.runtime.counts["entered"], client.runtime.counts["resumed"]) == (1, 2)
        assert len(client.runtime.table) == 0


async def test_an_authors_own_state_round_trips_unchanged() -> None:
    """Also where its text looks like one of ours, and even where it is one: what was sealed for an author opens as an
    author's, and its token can't be dressed up as a call's."""
    async with serving(by_hand, rounds) as client:
        talk = Talk(client, 1)
        asked = await talk.start()
        call = asked.token.split(".")[1]
        (slot,) = client.runtime.table
        at = slot.call
        claims = f'[1,"{call}",1,1,{at.position},"{at.round_history}","stage","{at.incarnation}","hold"]'
        texts = ["", "F", "A", "Fx", "AF[1]", "[1,2]", '["h1"]', claims, "F" + claims, "A" + claims, "ü\0", asked.token]
        for text in texts:
            own = await client.call("by_hand", arguments={"text": text})
            assert own.token.startswith("s1."), text
            assert (await answered(client, own.token, text)).text == f"state: {text}"
            dressed = f"h1.{call}.{own.token.removeprefix('s1.')}"
            assert told(await answered(client, dressed, text)) == BAD_STATE
            assert told(await talk.send(asked, token=dressed)) == BAD_STATE
            assert told(await talk.send(asked, token=own.token)) == BAD_STATE
        assert (await talk.send(asked)).text == "x"
        assert client.runtime.counts["resumed"] == 1


async def test_a_tool_that_parks_both_ways() -> None:
    """A client whose text becomes an author's state can't make it name a parked call of the same tool and arguments,
    and the tool never gets to see a token of ours as its author's state."""
    texts: list[str] = []

    async def both(ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is not None or texts:
            return await by_hand(texts[0], ctx)
        return said(await ctx.elicit("word?", Word))

    async with serving(both) as client:
        asked = await client.call("both")
        _, call, sealed = asked.token.split(".", 2)
        for token in (f"s1.{sealed}", sealed):
            assert told(await client.retry("both", token, asked.accept(word="x"))) == BAD_STATE
        (slot,) = client.runtime.table
        at = slot.call
        texts.append(
            f'F[1,"{call}",{at.round},{at.epoch},{at.position},"{at.round_history}","stage","{at.incarnation}","hold"]'
        )
        own = (await client.call("both")).token
        assert told(await client.retry("both", f"h1.{call}.{own[3:]}", asked.accept(word="x"))) == BAD_STATE
        assert (await client.retry("both", own, asked.accept(word="x"))).text == f"state: {texts[0]}"
        assert client.runtime.counts["resumed"] == 0
        assert (await client.retry("both", asked.token, asked.accept(word="x"))).text == "x"

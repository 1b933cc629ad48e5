"""Each limit: what meets it is refused in words that name its setting, and nothing else suffers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2
import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.engine import runtime
from framehold.engine.replies import Ended
from framehold.frame.frame import Frame
from framehold.http import entry
from framehold.http.client_identities import ClientIdentities
from framehold_core.errors import StoreUnavailable
from framehold_core.requests import Reply as StoreReply
from framehold_core.requests import Request, Result
from framehold_store import memory
from tests.kit.beside_sdk import raw, send, twins
from tests.kit.client import Reply
from tests.kit.engine import engine, turns
from tests.kit.processes import until
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass that finds what is due comes at once, not within a second."""
    monkeypatch.setattr(runtime, "SWEEP", 0.02)


EXPIRED = (400, -32602, "Invalid or expired requestState")
ENDED: list[str] = []
"""How the handlers of a test ended."""


async def ask(ctx: Context) -> str:
    try:
        return said(await ctx.elicit("Which word?", Word))
    except asyncio.CancelledError:
        ENDED.append("cancelled")
        raise
    finally:
        ENDED.append("finally")


@pytest.fixture(autouse=True)
def nothing_ended() -> None:
    ENDED.clear()


async def answer(client: Served, asked: Reply) -> Reply:
    return await client.retry("ask", asked.token, asked.accept(word="aye"))


def full(reply: Reply, setting: str) -> None:
    """Refused for now, with the setting's name and when to come again."""
    assert (reply.status, reply.code) == (503, -32603)
    assert setting in reply.text and "nothing was started" in reply.text
    assert int(reply.headers["retry-after"]) >= 1


async def test_max_parked() -> None:
    async with serving(ask, max_parked=2) as client:
        parked = [await client.call("ask") for _ in range(2)]
        for _ in range(2):
            full(await client.call("ask"), "FRAMEHOLD_MAX_PARKED")
        listed = await client.send("tools/list", {})
        assert [tool["name"] for tool in listed.result["tools"]] == ["ask"]
        assert client.runtime.counts["entered"] == 2
        assert client.runtime.table.met["FRAMEHOLD_MAX_PARKED", False][0] == 2
        assert (await answer(client, parked[0])).text == "aye"
        for asked in (parked[1], await client.call("ask")):
            assert (await answer(client, asked)).text == "aye"


async def test_expiry_makes_room_and_runs_finally() -> None:
    async with serving(ask, max_parked=1, token_ttl=0.3) as client:
        asked = await client.call("ask")
        full(await client.call("ask"), "FRAMEHOLD_MAX_PARKED")
        await until(lambda: ENDED, "the expiry")
        assert ENDED == ["cancelled", "finally"]
        late = await answer(client, asked)
        assert (late.status, late.code, late.text) == EXPIRED
        assert (await answer(client, await client.call("ask"))).text == "aye"
        assert client.runtime.counts["entered"] == 2


@pytest.mark.parametrize("round_", [1, 2])
async def test_max_round(round_: int) -> None:
    ended: list[str] = []

    async def slow(ctx: Context) -> str:
        try:
            if round_ == 2:
                await ctx.elicit("Which word?", Word)
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("finally")
        return "never"

    async with serving(slow, max_round=0.2) as client:
        reply = await client.call("slow")
        if round_ == 2:
            reply = await client.retry("slow", reply.token, reply.accept(word="x"))
        assert reply.result["isError"] is True
        assert "0.2 s (FRAMEHOLD_MAX_ROUND)" in reply.text and "cancelled" in reply.text
        await until(lambda: ended, "the handler's end")
        assert len(client.runtime.table) == 0 and client.runtime.counts["overran"] == 1


async def test_max_round_counts_no_time_between_rounds() -> None:
    async with serving(ask, max_round=5, token_ttl=60) as client:
        asked = await client.call("ask")
        (slot,) = client.runtime.table
        slot.due -= 3600
        assert not list(client.runtime.table.due(slot.due + 1800))
        assert (await answer(client, asked)).text == "aye"


async def test_without_a_store_a_call_whose_result_had_to_go_is_not_called_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client's late duplicate hears that it finished, and not that it may start a new call."""
    monkeypatch.setattr(memory, "MAX_OUTCOME_BYTES", 0)
    async with serving(ask) as client:
        asked = await client.call("ask")
        assert (await answer(client, asked)).text == "aye"
        again = await answer(client, asked)
        assert again.code == -32602 and "it finished; its result is not kept any more" in again.text


@pytest.mark.parametrize("strategy", ["hold", "replay"])
async def test_max_value_of_an_answer(strategy: str) -> None:
    """A longer one is refused by name and nothing is taken: the same round is answered by a shorter one. So it is where
    it comes with the first request."""

    @framehold.reentrant
    async def tell(ctx: Context) -> str:
        return str(len(said(await framehold.ask("word", "Which word?", Word))))

    async with serving(tell, strategy=strategy, max_value=1000) as client:
        asked = await client.call("tell")
        for size in (960, 1000, 100_000):
            answers = asked.accept(word="x" * size)
            first = {"name": "tell", "arguments": {}, "inputResponses": answers}
            for reply in (await client.retry("tell", asked.token, answers), await client.send("tools/call", first)):
                assert (reply.status, reply.code) == (400, -32602), size
                assert "FRAMEHOLD_MAX_VALUE" in reply.text and "no answer was taken" in reply.text
        assert (await client.retry("tell", asked.token, asked.accept(word="x" * 900))).text == "900"


async def test_answers_that_are_too_much_for_a_journal() -> None:
    """Each may be as long as a value, and together they are more than another node would read: nothing is taken."""

    async def tell(ctx: Context) -> str:
        asks = (framehold.ask(f"k{number}", f"Word {number}?", Word) for number in range(6))
        return str(sum(len(said(word)) for word in await asyncio.gather(*asks)))

    async with serving(tell, max_value=1000, max_journal=1000) as client:
        asked = await client.call("tell")
        reply = await client.retry("tell", asked.token, asked.accept(word="x" * 900))
        assert (reply.status, reply.code) == (400, -32602)
        assert "FRAMEHOLD_MAX_JOURNAL" in reply.text and "no answer was taken" in reply.text
        assert (await client.retry("tell", asked.token, asked.accept(word="x" * 20))).text == "120"


async def test_results_that_end_while_others_are_written_count_too() -> None:
    """The journal of a call stays what another node reads. What is too much for it is not kept, by name."""
    ends, goes_on = [asyncio.Event() for _ in range(9)], asyncio.Event()
    held, refused = list[Callable[[], None]](), list[framehold.ResultNotKept]()

    async def effect(number: int) -> str:
        await ends[number].wait()
        return "x" * 900

    async def one(frame: Frame, number: int) -> None:
        try:
            await frame.recorded.effects.once(f"k{number}", effect, (number,), {}, True)
        except framehold.ResultNotKept as error:
            refused.append(error)

    async def gathers(frame: Frame) -> str:
        await asyncio.gather(*(one(frame, number) for number in range(len(ends))))
        await goes_on.wait()
        return "done"

    async with engine(max_journal=2000, max_value=1000) as at, asyncio.timeout(10):
        submit = at.store.submit

        def slow(request: Request, done: Callable[[StoreReply | StoreUnavailable], None]) -> None:
            if isinstance(request, Result):
                held.append(lambda: submit(request, done))
            else:
                submit(request, done)

        vars(at.store)["submit"] = slow
        call = asyncio.create_task(at.start(gathers))
        ends[0].set()
        await until(lambda: bool(held), "the first result is on its way to the store")
        for end in ends[1:5]:
            end.set()
        await turns(30)
        # These are on their way now, and all that follow end meanwhile.
        held.pop()()
        await turns(30)
        for end in ends[5:]:
            end.set()
        await turns(30)
        while held:
            held.pop()()
            await turns(30)
        (slot,) = at.runtime.table
        assert refused and slot.size <= at.runtime.settings.store().max_journal
        goes_on.set()
        assert await call == Ended("done")


@pytest.mark.parametrize("chunked", [False, True])
async def test_max_body(chunked: bool) -> None:
    async with twins(max_body=4000) as client:
        _, retry = await client.parked()
        large = retry.params(padding="x" * 4000)
        for body in (large, retry.saying(retry.body + b" " * (4001 - len(retry.body)))):
            request = body if not chunked else type(body)(body.headers, body.body, chunked=True)
            ours, theirs = await client.both(request)
            assert ours.status == theirs.status == 413
            assert "4000 bytes (FRAMEHOLD_MAX_BODY)" in ours.body.decode()
        assert client.runtime.counts["resumed"] == 0
        await client.completes(retry.saying(retry.body + b" " * (4000 - len(retry.body))))


async def test_max_body_is_told_to_a_client_that_sends_all_before_it_reads() -> None:
    """What it still sends is thrown away; the connection is not closed over it, which would take the reply along."""
    async with twins(compared=False, max_body=4000) as client:
        _, retry = await client.parked()
        # The length that is declared decides, before a byte of the body is read, whatever the method.
        for method in ("tools/call", "tools/list"):
            never = await send(client.url, retry.having(mcp_method=method, content_length="999999999").saying(b""))
            assert never.status == 413 and "FRAMEHOLD_MAX_BODY" in never.body.decode()
        await client.completes(retry)
        large = client.envelope("tools/call", {"name": "echo", "arguments": {}, "padding": "x" * 8_000_000})
        async with httpx2.AsyncClient() as http:
            result = await http.post(client.url, json=large.body, headers=large.headers)
        assert result.status_code == 413 and "FRAMEHOLD_MAX_BODY" in result.text


async def test_a_clients_long_identity_is_served_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Identities are remembered to save time; one that a client chose to be long is not, nor is a long header."""
    identities = ClientIdentities()
    monkeypatch.setattr(entry, "ClientIdentities", lambda: identities)
    async with twins(compared=False) as client:
        _, retry = await client.parked()
        before = len(identities._valid)
        assert before and len(identities._connections) == before
        asked = raw(client.envelope("tools/call", {"name": "echo", "arguments": {}}))
        for number in range(3):
            info = {"name": "n", "version": "1", "title": f"{number}" + "x" * 100_000}
            result = await send(client.url, asked.meta(clientInfo=info).having(accept="*/*," + "x" * 10_000))
            assert result.verdict == (200, "result")
        assert len(identities._valid) == len(identities._connections) == before
        await client.completes(retry)

"""A new call that a node does not take goes to another node, if the node proves that nothing was started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from framehold_core.ids import NodeId
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Address
from framehold_router.routing.declined import DeclinedResponse
from tests.kit.proofs import BOOT
from tests.router.test_placement import START, Stage, call_of, fleet, member
from tests.router.wires import CALL, TRUST, Answer, Node, Reply, Router, both_loops, node, nowhere, ok, post, router

anyio_backend = both_loops

Before = tuple[Router, list[Node]]
OTHERS = Trust([b"o" * 32])
BODY = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"full"}}'


def declining(
    wait: int = 5, trust: Trust = TRUST, call: str = "", status: str = "503 No", tail: bytes = b"", boot: str = BOOT
) -> Answer:
    """A node that takes no new call. `call` is the id that it proves it for, if it is another one than it got, and
    `boot` the process; `tail` is what it sends of the body at last, if it breaks off before."""

    async def answer(asked: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = asked.one(b"framehold-call-id") or b""
        proof = trust.statements.not_taken(boot, call or got.decode()).decode()
        data = ok(BODY, f"framehold-not-taken: {proof}", f"Retry-After: {wait}", "framehold-node: n", status=status)
        writer.write(data[: len(data) - len(tail)])
        if tail:
            writer.close()

    return answer


@asynccontextmanager
async def before(*answers: Answer | bytes, mint: bool = True, more: Address | None = None) -> AsyncIterator[Before]:
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node(answer)) for answer in answers]
        addresses = [*(each.address for each in nodes), *([more] if more else [])]
        yield await stack.enter_async_context(router(*addresses, mint=mint)), nodes


async def test_a_new_call_goes_to_a_node_with_room() -> None:
    async with before(declining(), ok(b"taken")) as (it, (full, free)):
        reply = await it.ask(post(b"{}"))
        assert (reply.status, reply.body) == (200, b"taken")
        ids = [upstream.requests[0].one(b"framehold-call-id") for upstream in (full, free)]
        assert ids == [CALL[:-1].encode() + b"0", CALL[:-1].encode() + b"1"]
        assert full.requests[0].body == free.requests[0].body == b"{}"
        assert it.placer.refusing == ["n0"] and it.placer.unreached == []


async def test_two_further_nodes_and_no_more() -> None:
    async with before(declining(9), declining(3), declining(5), ok()) as (it, full):
        client = await it.client()
        reply = await client.ask(post())
        assert (reply.status, reply.body, reply.one(b"retry-after")) == (503, BODY, b"3")
        assert {name for name, _ in reply.headers if name.startswith(b"framehold-")} == set()
        assert [len(each.requests) for each in full] == [1, 1, 1, 0]
        assert (await client.ask(post())).status == 503, "the connection is whole"
    async with before(declining(4), more=nowhere()) as (it, _):
        reply = await it.ask(post())
        assert (reply.status, reply.body, reply.one(b"retry-after")) == (503, BODY, b"4"), "the only one is heard"


@pytest.mark.parametrize(
    ("lines", "passed_on"),
    [
        (b"x-retry-after: 7\r\nretry-after: 9\r\na: b\r\n", b"x-retry-after: 7\r\na: b\r\nretry-after: 9\r\n"),
        (b"x-retry-after: 7\r\n", b"x-retry-after: 7\r\nretry-after: 1\r\n"),
        (b"retry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n", b"retry-after: 1\r\n"),
        (b"a: retry-after: 3\r\nretry-after: 3s\r\n", b"a: retry-after: 3\r\nretry-after: 1\r\n"),
    ],
)
def test_when_to_come_again_is_said_once(lines: bytes, passed_on: bytes) -> None:
    """It replaces what the node said, in whatever form; no other header is touched."""
    assert DeclinedResponse(lines, None).lines == passed_on


async def test_a_refusal_that_breaks_off_is_a_refusal() -> None:
    """What proves that nothing was started is in its head."""
    async with before(declining(tail=b"}"), ok(b"taken")) as (it, _):
        assert (await it.ask(post())).body == b"taken"
    async with before(declining(tail=b"}")) as (it, _):
        reply = await it.ask(post())
        assert reply.status == 503 and "nothing was started" in reply.error["message"]


@pytest.mark.parametrize(
    ("mint", "answer"),
    [
        pytest.param(True, declining(trust=OTHERS), id="not one of the fleet"),
        pytest.param(True, declining(call=CALL[:-1] + "7"), id="of another call"),
        pytest.param(True, declining(boot="another"), id="of another process"),
        pytest.param(True, declining(status="200 OK"), id="no refusal"),
        pytest.param(False, declining(call=CALL), id="no new call"),
        pytest.param(True, ok(BODY, status="503 No"), id="no proof: a limit of one user, or a paused tool"),
    ],
)
async def test_what_is_not_sent_again(mint: bool, answer: Answer | bytes) -> None:
    async with before(answer, ok(), mint=mint) as (it, (_, second)):
        reply = await it.ask(post())
        assert reply.body == BODY and second.requests == [] and it.placer.refusing == []


async def test_a_client_that_leaves_meanwhile_leaves_nothing_behind() -> None:
    """The router is closed by its fixture, which counts what is in flight."""
    heard = asyncio.Event()

    async def slow(asked: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proof = TRUST.statements.not_taken(BOOT, (asked.one(b"framehold-call-id") or b"").decode()).decode()
        writer.write(ok(BODY, f"framehold-not-taken: {proof}", status="503 No")[:-1])
        heard.set()

    async with before(slow, ok()) as (it, (full, free)):
        client = await it.client()
        client.send(post())
        await heard.wait()
        client.writer.close()
        await full.closed.get()
        assert free.requests == []


def test_a_node_that_declined_is_not_drawn_until_its_next_heartbeat() -> None:
    a, b, c = (NodeId(name) for name in "abc")
    stage = Stage(a, b, c)

    def drawn() -> set[NodeId]:
        return {stage.place(START).node for _ in range(30)}

    stage.declined(NodeId("nobody"))
    stage.declined(a)
    assert drawn() == {b, c}
    assert stage.retry(call_of(stage, a)) == a
    stage.fleet = fleet(a, b, member(c)._replace(beat=1))
    assert drawn() == {b, c}, "another node had a heartbeat"
    stage.fleet = fleet(member(a)._replace(beat=1), b, c)
    assert drawn() == {a, b, c}
    for each in (a, b, c):
        stage.declined(each)
    assert drawn() == {a, b, c}
    assert stage.place(START, a, c).node == b

"""A new call that a node does not take goes to another node, if the node proves that nothing was started."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from framehold_core.ids import CallId, NodeId
from framehold_fleet.identity.trust import Trust
from tests.proofs import BOOT
from tests.router.test_placement import START, Stage, fleet, member
from tests.router.wires import CALL, TRUST, Answer, Node, Reply, both_loops, node, nowhere, ok, post, router

anyio_backend = both_loops

OTHERS = Trust([b"o" * 32])
BODY = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"full"}}'


def declining(
    wait: int = 5,
    trust: Trust = TRUST,
    call: str = "",
    status: str = "503 No",
    tail: bytes = b"",
    boot: str = BOOT,
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


async def nodes(stack: AsyncExitStack, *answers: Answer | bytes) -> list[Node]:
    return [await stack.enter_async_context(node(answer)) for answer in answers]


async def test_a_new_call_goes_to_a_node_with_room() -> None:
    """Under another id, and the client sees nothing of it. The node is not drawn again for now."""
    async with AsyncExitStack() as stack:
        full, free = await nodes(stack, declining(), ok(b"taken"))
        it = await stack.enter_async_context(router(full.address, free.address, mint=True))
        reply = await it.ask(post(b"{}"))
        assert (reply.status, reply.body) == (200, b"taken")
        ids = [upstream.requests[0].one(b"framehold-call-id") for upstream in (full, free)]
        assert ids == [CALL[:-1].encode() + b"0", CALL[:-1].encode() + b"1"]
        assert full.requests[0].body == free.requests[0].body == b"{}"
        assert it.placer.refusing == ["n0"] and it.placer.unreached == []


async def test_two_further_nodes_and_no_more() -> None:
    """Then the client gets the last refusal, with the smallest Retry-After."""
    async with AsyncExitStack() as stack:
        full = await nodes(stack, declining(9), declining(3), declining(5), ok())
        it = await stack.enter_async_context(router(*(each.address for each in full), mint=True))
        client = await it.client()
        reply = await client.ask(post())
        assert (reply.status, reply.body, reply.one(b"retry-after")) == (503, BODY, b"3")
        assert {name for name, _ in reply.headers if name.startswith(b"framehold-")} == set()
        assert [len(each.requests) for each in full] == [1, 1, 1, 0]
        assert (await client.ask(post())).status == 503, "the connection is whole"


async def test_the_only_node_that_refuses_is_heard() -> None:
    async with AsyncExitStack() as stack:
        (full,) = await nodes(stack, declining(4))
        it = await stack.enter_async_context(router(full.address, nowhere(), mint=True))
        reply = await it.ask(post())
        assert (reply.status, reply.body, reply.one(b"retry-after")) == (503, BODY, b"4")


async def test_a_refusal_that_breaks_off_is_a_refusal() -> None:
    """What proves that nothing was started is in its head."""
    async with AsyncExitStack() as stack:
        full, free = await nodes(stack, declining(tail=b"}"), ok(b"taken"))
        it = await stack.enter_async_context(router(full.address, free.address, mint=True))
        assert (await it.ask(post())).body == b"taken"
        (alone,) = await nodes(stack, declining(tail=b"}"))
        other = await stack.enter_async_context(router(alone.address, mint=True))
        reply = await other.ask(post())
        assert reply.status == 503 and "nothing was started" in reply.error["message"]


@pytest.mark.parametrize(
    ("mint", "how"),
    [
        pytest.param(True, {"trust": OTHERS}, id="not one of the fleet"),
        pytest.param(True, {"call": CALL[:-1] + "7"}, id="of another call"),
        pytest.param(True, {"boot": "another"}, id="of another process"),
        pytest.param(True, {"status": "200 OK"}, id="no refusal"),
        pytest.param(False, {"call": CALL}, id="no new call"),
    ],
)
async def test_what_is_not_sent_again(mint: bool, how: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        first, second = await nodes(stack, declining(**how), ok())
        it = await stack.enter_async_context(router(first.address, second.address, mint=mint))
        reply = await it.ask(post())
        assert reply.body == BODY and second.requests == [] and it.placer.refusing == []


async def test_a_refusal_without_a_proof_is_relayed() -> None:
    """A limit of one user, or a paused tool."""
    refusal = ok(BODY, "Retry-After: 5", status="503 No")
    async with AsyncExitStack() as stack:
        first, second = await nodes(stack, refusal, ok())
        it = await stack.enter_async_context(router(first.address, second.address, mint=True))
        assert (await it.ask(post())).body == BODY and second.requests == []


async def test_a_client_that_leaves_meanwhile_leaves_nothing_behind() -> None:
    """The router is closed by its fixture, which counts what is in flight."""
    heard = asyncio.Event()

    async def slow(asked: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proof = TRUST.statements.not_taken(BOOT, (asked.one(b"framehold-call-id") or b"").decode()).decode()
        writer.write(ok(BODY, f"framehold-not-taken: {proof}", status="503 No")[:-1])
        heard.set()

    async with AsyncExitStack() as stack:
        full, free = await nodes(stack, slow, ok())
        it = await stack.enter_async_context(router(full.address, free.address, mint=True))
        client = await it.client()
        client.send(post())
        await heard.wait()
        client.writer.close()
        await full.closed.get()
        assert free.requests == []


# ---- who is drawn


def drawn(stage: Stage, count: int = 30) -> set[NodeId]:
    return {stage.place(START).node for _ in range(count)}


def test_a_node_that_declined_is_not_drawn_until_its_next_heartbeat() -> None:
    a, b, c = (NodeId(name) for name in "abc")
    stage = Stage(a, b, c)
    stage.placer.declined(a)
    assert drawn(stage) == {b, c}
    stage.fleet = fleet(a, b, member(c)._replace(beat=1))
    assert drawn(stage) == {b, c}, "another node had a heartbeat"
    stage.fleet = fleet(member(a)._replace(beat=1), b, c)
    assert drawn(stage) == {a, b, c}


def test_where_all_have_declined_any_of_them_is_drawn() -> None:
    a, b = NodeId("a"), NodeId("b")
    stage = Stage(a, b)
    for each in (a, b):
        stage.placer.declined(each)
    assert drawn(stage) == {a, b}
    assert stage.place(START, a).node == b


def test_its_calls_and_other_requests_are_sent_to_it() -> None:
    a, b = NodeId("a"), NodeId("b")
    stage = Stage(a, b)
    call = next(CallId(f"{n:032x}") for n in range(99) if stage.retry(CallId(f"{n:032x}")) == a)
    stage.placer.declined(a)
    stage.placer.declined(NodeId("nobody"))
    assert stage.retry(call) == a

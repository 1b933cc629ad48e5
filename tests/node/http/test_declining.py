"""Which responses prove to a router that nothing was started of its call."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from framehold.engine.memory import Footprint
from framehold_core.errors import LimitExceeded, StoreUnavailable
from framehold_fleet.headers import CALL_ID
from framehold_fleet.identity.statements import Role
from tests.kit.beside_sdk import raw
from tests.kit.client import Reply
from tests.kit.operators import Node, marked, pair, unmarked
from tests.kit.proofs import sent_as, stated, statements
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio
CALL = "0123456789abcdef0123456789abcdef"
ROUTER = sent_as("router", CALL)


@pytest.fixture(params=[100])
async def node(redis: RedisServer, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    """A node with one unmarked call, and room for so many."""
    async with pair(redis, tmp_path.name, marked, unmarked, max_parked=request.param, lease_ttl=30.0) as (a, _):
        await a.caller.call("unmarked")
        yield a


async def call(node: Node, tool: str = "marked", headers: dict[str, str] = ROUTER) -> Reply:
    return await node.caller.call(tool, headers=headers)


def proves(node: Node, reply: Reply) -> bool:
    """Whether a reply has a proof, which then is one of this process for this call, and of no other."""
    proof, boot = reply.headers.get("framehold-not-taken", "").encode(), node.runtime.heartbeat.lease.boot
    judge = statements().is_not_taken
    assert not judge(proof, boot, CALL[:-1] + "0") and not judge(proof, boot[::-1], CALL)
    assert judge(proof, boot, CALL) is bool(proof)
    return bool(proof)


def short_of_memory(node: Node) -> None:
    footprint = node.runtime.eviction.footprint = Footprint(1, 1)
    assert footprint.short


def cut_off(node: Node) -> None:
    node.runtime.heartbeat.missing_from = math.inf


def closed(node: Node) -> None:
    node.runtime.draining.closed = True


def nothing(node: Node) -> None:
    """It is full as it is."""


@pytest.mark.parametrize(
    ("node", "why"), [(1, nothing), (100, short_of_memory), (100, cut_off), (100, closed)], indirect=["node"]
)
async def test_which_refusals_are_declined(node: Node, why: Callable[[Node], None]) -> None:
    """Full, without memory, without a store, leaving: of the node's own state alone. Nobody hears it but a router."""
    why(node)
    reply = await call(node)
    assert reply.status == 503 and "nothing was started" in reply.text and proves(node, reply)
    nobody = {"framehold-call-id": CALL, "framehold-proof": "v1.router.1." + "x" * 64}
    for headers in ({}, nobody, sent_as("client", CALL), sent_as("node", CALL), sent_as("admin", CALL)):
        other = await call(node, headers=headers)
        assert other.status == 503 and not proves(node, other)
    node.runtime.draining.closed = False


@pytest.mark.parametrize("role", [Role.ROUTER, Role.NODE, Role.ADMIN])
async def test_a_body_that_has_no_room_is_declined(redis: RedisServer, tmp_path: Path, role: Role) -> None:
    """It is refused before all of it has come, in the node's words. A router may send it to another node."""
    limit, most = 64 << 10, 60 << 10
    async with pair(redis, tmp_path.name, marked, max_buffered=limit, lease_ttl=30.0) as (node, _):
        host, port = node.caller.url.removeprefix("http://").partition("/")[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        name, value = stated(node.runtime, role, "{}:{}".format(*writer.get_extra_info("sockname")))
        large = raw(node.caller.envelope("tools/call", {"name": "marked", "arguments": {"name": "x" * most}}))
        sent = large.having(**{CALL_ID.decode(): CALL, name.decode(): value.decode()}).encoded(f"{host}:{port}")
        writer.write(sent[:-1])
        reply = asyncio.create_task(reader.read())
        while not reply.done():
            # Until the large one has come, there is room for both.
            assert (await node.caller.call("marked", arguments={"name": "y" * (limit - most)})).asked
        writer.close()
        head, _, body = (await reply).partition(b"\r\n\r\n")
        first, *lines = head.decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        assert " 503 " in first and b"nothing was started" in body and headers["connection"] == "close"
        assert proves(node, Reply(503, headers, {})) is (role is Role.ROUTER)
        assert headers["retry-after"] == str(node.runtime.retry_after)
        assert node.runtime.counts["refused"] == 1


async def test_which_refusals_are_not(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise LimitExceeded("you have too many; nothing was started", limit="MAX_PARKED_PER_PRINCIPAL")

    with monkeypatch.context() as patch:
        patch.setattr(node.runtime.table, "admit", exhausted)
        reply = await call(node)
        assert reply.status == 503 and "you have too many" in reply.text and not proves(node, reply)
    assert (await call(node)).asked
    twice = await call(node)
    assert twice.status == 503 and "arrived twice" in twice.text and not proves(node, twice)
    await node.runtime.door.pauses.pause("unmarked", "", "test")
    paused = await call(node, "unmarked", sent_as("router", CALL[::-1]))
    assert "is paused" in paused.text and not proves(node, paused)


async def test_a_handler_that_was_entered_is_not_declined(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsent(request: Any, replied: Any) -> None:
        replied(StoreUnavailable("away"))

    monkeypatch.setattr(node.runtime.store, "submit", unsent)
    reply = await call(node)
    assert reply.status == 503 and "first round could not be kept" in reply.text and not proves(node, reply)

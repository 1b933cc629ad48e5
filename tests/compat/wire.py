"""What routers and nodes say to each other: heard from those of the present code, and said to them by those of an
earlier release, for which a raw listener stands in."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from framehold_core.lease import end_of
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.plane import PROOF
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Address
from framehold_router.app import running
from framehold_router.config import RouterSettings
from framehold_store import lease_codec
from tests.compat.dumps import KEY, NAMESPACE, Client, Dump, admin, answers, at, node, put, store_url
from tests.compat.tools import Life
from tests.kit import proofs
from tests.kit.client import Caller, Reply
from tests.kit.proofs import AS
from tests.kit.redis_server import RedisServer
from tests.router import wires

Headers = list[tuple[str, str]]
SEALS = LeaseSeal(Trust([KEY.encode()]), NAMESPACE)
REPLY = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "content": [{"type": "text", "text": "old"}]}}
"""What the earlier release answers."""


def internal(headers: Any) -> Headers:
    """Those that only the fleet may say, sorted; `headers` are pairs of texts or bytes."""
    texts = [[part.decode() if isinstance(part, bytes) else str(part) for part in item] for item in headers]
    found = [(name.lower(), value) for name, value in texts if name.lower().startswith("framehold-")]
    # A statement is for one process, one connection and one minute: what it says to others is its role.
    return sorted((name, ".".join(value.split(".")[:2]) if name == PROOF.decode() else value) for name, value in found)


def register(redis: RedisServer, lease: str, address: Address) -> None:
    """Put a node's lease into the store as it was written, but for its address, its end and its seal."""
    node = json.loads(lease)[5]
    written = lease_codec.read(node, lease)
    assert written is not None and SEALS.holds(written), "an old lease is not believed"
    made = SEALS.seal(replace(written, address=f"http://{address[0]}:{address[1]}", expires=end_of(time.time(), 60)))
    with admin(redis) as client:
        client.set(f"fh:{NAMESPACE}:node:{node}", lease_codec.dump(made), ex=60)
        client.zadd(f"fh:{NAMESPACE}:nodes", {node: int(made.expires * 1000)})


@asynccontextmanager
async def listener(redis: RedisServer, lease: str, text: Headers, status: str = "200 OK") -> AsyncIterator[wires.Node]:
    """A node of an earlier release: what it is asked is kept, what it answers has these headers."""
    result = ["Content-Type: application/json", *(f"{name}: {value}" for name, value in text)]
    async with wires.node(wires.ok(json.dumps(REPLY).encode(), *result, status=status)) as made:
        made.key, made.boot = KEY, json.loads(lease)[3]
        register(redis, lease, made.address)
        yield made


@asynccontextmanager
async def router(redis: RedisServer, **settings: Any) -> AsyncIterator[Caller]:
    """A router of the present code, and a client at it."""
    chosen = RouterSettings(store_url=store_url(redis), namespace=NAMESPACE, keys=(KEY,), **settings)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    async with running(chosen, listening), Caller(f"http://127.0.0.1:{port}/mcp") as caller:
        yield caller


async def send(client: Client, headers: Headers, dump: Dump | None = None) -> Reply:
    """A start, or a retry of `dump`, as it comes from a router or a node."""
    added = dict(headers)
    if stated := added.pop(PROOF.decode(), ""):
        added[AS] = stated.rpartition(".")[2]
    params: dict[str, Any] = {"name": "plain", "arguments": {}}
    if dump is not None:
        state = {"requestState": dump.token, "inputResponses": answers(dump.asked)}
        params = {"name": dump.tool, "arguments": dump.arguments, **state}
    envelope = client.envelope("tools/call", params, headers=added)
    async with proofs.client(KEY) as http:
        response = await http.post(client.url, json=envelope.body, headers=envelope.headers)
    message = response.json() if response.headers.get("content-type") == "application/json" else {}
    return Reply(response.status_code, response.headers, message)


async def heard(redis: RedisServer, lease: str, parked: Dump) -> dict[str, Headers]:
    """The internal headers of everything that the present code says to a node, and is told by one. `lease` is that of
    the node that holds `parked`."""
    put(redis, parked)
    with at(parked.minted):
        async with listener(redis, lease, []) as old:
            async with router(redis) as caller:
                await caller.call("plain")
                await caller.retry(parked.tool, parked.token, answers(parked.asked), arguments=parked.arguments)
            async with node(redis, "node-2", Life()) as client:
                await client.go_on(parked)
            # A router also asks nodes how they are, by itself.
            passed = [request for request in old.requests if request.first.startswith(b"POST")]
            start, retry, relayed = (internal(request.headers) for request in passed)
        async with node(redis, "node-2", Life()) as client:
            register(redis, lease, wires.nowhere())
            begun = await send(client, start)
            refused = await send(client, relayed, parked)
    return {
        "a router starts a call": start,
        "a router passes a retry on": retry,
        "a node passes a retry on": relayed,
        "a node answers": internal(begun.headers.items()),
        "a node does not hold the call": [("status", str(refused.status)), *internal(refused.headers.items())],
    }


async def probed(client: Client) -> str:
    """What a node tells a router of itself."""
    async with proofs.client(KEY) as http:
        url = client.url.removesuffix("/mcp") + "/admin/node"
        response = await http.get(url, headers=proofs.INSIDE)
    return response.text

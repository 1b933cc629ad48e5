"""What a client meets behind the chart's HAProxy, while nothing happens to the fleet."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from framehold_core.ids import is_call_id
from tests.helm.haproxy.plane import HAProxy, node_name, planes
from tests.kit.answering import expected
from tests.kit.client import Caller
from tests.kit.fleet import Fleet, converse
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.chart, pytest.mark.fleet]

NODES = [node_name(ordinal) for ordinal in range(3)]
BUFFER = 131072
MOST = 4194304
TOKEN = "the-admin-token-of-this-fleet"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}


@dataclass
class Scene:
    """Three nodes, a router, two HAProxies, and a third that waits a second where those wait for sixty."""

    fleet: Fleet
    first: HAProxy
    second: HAProxy
    hasty: HAProxy


@pytest.fixture(scope="module")
async def scene(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder = tmp_path_factory.mktemp("plane")
    made = Fleet(folder, redis, "tests/helm/haproxy/served.py", lease_ttl="5", admin_token=TOKEN)
    try:
        await made.start_nodes(*NODES)
        await made.start_router()
        # As a Service names them.
        addresses = {name: node.root.removeprefix("http://") for name, node in made.nodes.items()}
        haproxies = [HAProxy(folder / name, addresses) for name in ("first", "second")]
        haproxies.append(HAProxy(folder / "hasty", addresses, timeouts=1))
        async with planes(*haproxies):
            for haproxy in haproxies:
                await haproxy.sees(*NODES)
            yield Scene(made, *haproxies)
    finally:
        made.stop()


async def test_each_round_goes_straight_to_its_node(scene: Scene) -> None:
    """Through two HAProxies in turn, which don't know of each other: they agree on every call, new ones and parked."""
    names = [f"guest{number}" for number in range(340)]
    ports = itertools.cycle(int(haproxy.root.rpartition(":")[2]) for haproxy in (scene.first, scene.second))

    async def alternate(request: httpx2.Request) -> None:
        request.url = request.url.copy_with(port=next(ports))

    watched = await converse([scene.first.url], names, before=alternate)
    assert watched.said == {name: expected(name) for name in names}
    assert watched.statuses == {200: 4 * len(names)}
    assert watched.routes["ring"] >= 0.999 * 3 * len(names), watched.routes
    homes = Counter(served[0] for served in watched.nodes.values())
    # A third each, give or take what chance and uneven arcs do to so few.
    assert homes.keys() == set(NODES) and min(homes.values()) > len(names) / 5, homes


async def test_long_bodies_are_answered_by_any_node(scene: Scene) -> None:
    """Beyond the buffer HAProxy finds no id. What was asked at one node is then answered through another."""
    text = "x" * 2 * BUFFER
    async with Caller(scene.first.url) as caller:
        response = await asyncio.gather(*(caller.call("measure", arguments={"text": text}) for _ in range(12)))
        sent = (
            caller.retry("measure", before.token, before.accept(word=f"w{number}"), arguments={"text": text})
            for number, before in enumerate(response)
        )
        done = await asyncio.gather(*sent)
    assert [reply.text for reply in done] == [f"{len(text)} w{number}" for number in range(12)]
    homes = [before.headers["framehold-node"] for before in response]
    assert [reply.headers["framehold-node"] for reply in done] == homes
    routes = Counter(reply.headers["framehold-route"] for reply in done)
    assert routes["lease"] and set(routes) <= {"lease", "ring"}, routes


async def test_the_largest_body_is_the_nodes_own_limit(scene: Scene) -> None:
    """Just below it a call is served, beyond it the client hears why."""
    async with Caller(scene.first.url) as caller:
        asked = await caller.call("measure", arguments={"text": "x" * (MOST - 4096)})
        assert asked.messages == ["Which word?"]
        beyond = caller.envelope("tools/call", {"name": "measure", "arguments": {"text": "x" * MOST}})
    async with httpx2.AsyncClient() as http:
        refused = await http.post(scene.first.url, json=beyond.body, headers=beyond.headers)
    assert refused.status_code == 413 and "FRAMEHOLD_MAX_BODY" in refused.text


async def test_a_clients_internal_headers_count_for_nothing(scene: Scene) -> None:
    """It can neither name its call nor pass for a part of the fleet."""
    chosen = "A" * 22
    claims = {"framehold-call-id": chosen, "framehold-via": "node", "Framehold-Secret": "guessed"}
    async with Caller(scene.first.url) as caller:
        response = [await caller.call("unmarked", arguments={"name": "n"}, headers=claims) for _ in range(12)]
        assert chosen not in {before.token.split(".")[1] for before in response}
        done = [
            await caller.retry(
                "unmarked", before.token, before.accept(word="w"), arguments={"name": "n"}, headers=claims
            )
            for before in response
        ]
    assert [(reply.text, reply.headers["framehold-route"]) for reply in done] == [("n w", "ring")] * 12


@pytest.mark.parametrize("field", ["sagaToken", "requestState"])
async def test_a_client_chooses_no_id_by_what_it_writes_into_a_request(scene: Scene, field: str) -> None:
    """A token leads to a node, and names a call only where it opens: an id that a client could choose could be chosen
    again when its record is gone, with the idempotency keys that are made of it."""
    chosen = "d" * 32
    async with Caller(scene.first.url) as caller, httpx2.AsyncClient() as http:
        sent = caller.envelope("tools/call", {"name": "unmarked", "arguments": {"name": "n"}})
        # HAProxy reads the first of two equal keys, nodes read the last one. An escape hides the id from a search.
        for hidden in (chosen, chosen.replace("d", "\\u0064", 1)):
            twice = f'"params": {{"{field}": "h1.{hidden}.x", "{field}": null, '
            body = json.dumps(sent.body).replace('"params": {', twice)
            result = (await http.post(scene.first.url, content=body, headers=sent.headers)).json()
            assert is_call_id(call := result["result"]["requestState"].split(".")[1]) and call != chosen


TOKEN_SHAPED = f"l1.{'a' * 22}.x"
"""What HAProxy takes for the token of a call: then it makes no id for a call, and sends no header but the proof."""


ADMIN = (
    "/admin/node",
    "/admin",
    "//admin/node",
    "/x/../admin/node",
    "/%61dmin/node",
    "/admin%2fnode",
    "/a%64min/leases",
)


async def test_a_body_with_a_token_opens_nothing_either(scene: Scene) -> None:
    """HAProxy proves each client's request; that must open nothing of what nodes tell their fleet. A request of the
    fleet names no call either: a client's must not look like it."""
    async with httpx2.AsyncClient() as http:
        for path in ADMIN:
            for body in (None, {"params": {"requestState": TOKEN_SHAPED}}):
                result = await http.request("GET", f"{scene.first.root}{path}", json=body)
                assert result.status_code in (403, 404), (path, result.status_code, result.text)
                assert "incarnation" not in result.text


async def test_a_client_says_its_address_in_no_header_that_a_node_gets_alone(scene: Scene) -> None:
    """As behind a router: X-Forwarded-For ends with what HAProxy saw."""
    forged = {"X-Real-IP": "9.9.9.9", "Forwarded": "for=9.9.9.9", "X-Forwarded-For": "1.1.1.1"}
    async with httpx2.AsyncClient(headers=forged) as http:
        found = (await http.get(f"{scene.first.root}/headers")).json()
    assert "9.9.9.9" not in str(found)
    assert [value for name, value in found if name == "x-forwarded-for"] == ["1.1.1.1", "127.0.0.1"]


async def test_a_stream_that_speaks_is_not_cut(scene: Scene) -> None:
    """Neither side's timeout counts while something comes: nodes ping every 15 s, and HAProxy waits for 60."""
    async with Caller(scene.hasty.url) as caller:
        reply = await caller.call("speak", meta={"progressToken": "p"})
    assert reply.text == "said" and len(reply.events) == 15


async def test_a_session_of_2025_stays_on_its_node(scene: Scene) -> None:
    """Its id names the node, which HAProxy reads; one that names nobody gets an answer too."""
    async with httpx2.AsyncClient(headers=ACCEPT) as http:
        for _ in range(6):
            begun = await http.post(scene.first.url, json=INITIALIZE)
            session = {"mcp-session-id": begun.headers["mcp-session-id"]}
            result = await http.post(scene.second.url, json=PING, headers=session)
            assert (result.status_code, result.headers["framehold-route"]) == (200, "ring")
            assert result.headers["framehold-node"] == begun.headers["framehold-node"]
        mark, _, rest = session["mcp-session-id"].split(".", 2)
        result = await http.post(scene.second.url, json=PING, headers={"mcp-session-id": f"{mark}.nobody.{rest}"})
        assert result.status_code == 404


async def test_replies_are_counted_from_the_start_as_the_alerts_ask(tmp_path: Path) -> None:
    alone = HAProxy(tmp_path, {})
    async with planes(alone):
        before = alone.replies()
        assert httpx2.post(alone.url, json=PING).status_code == 503
        assert (before["2xx"], before["5xx"], alone.replies()["5xx"]) == (0, 0, 1)

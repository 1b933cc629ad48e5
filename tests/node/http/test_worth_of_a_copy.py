"""What somebody saw of a request between routers and nodes, and shows again: it is worth nothing, at any process, at
once or later. The nodes are served by plain uvicorn, which believes what a client of this machine says of its
address."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

import framehold
from framehold.config import Settings
from framehold.http.app import Application
from framehold_fleet.headers import CALL_ID
from framehold_fleet.identity.plane import PROOF
from framehold_fleet.identity.statements import HELLO, Role
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import address_of
from framehold_fleet.members.membership import Member
from framehold_fleet.models.nodes import NodeStatus
from framehold_router.collect.node_client import NodeClient
from tests.kit import client
from tests.kit.client import Caller
from tests.kit.nodes import served
from tests.kit.proofs import planes, sent_as, stated
from tests.kit.redis_server import RedisServer
from tests.node.http.test_authentication import GUARD
from tests.node.http.test_relay import Site, fleet, say_address, server
from tests.router.wires import KEY, Reply, head, message, router

pytestmark = pytest.mark.anyio
CALL = "0123456789abcdef0123456789abcdef"


async def echo(request: Request) -> Response:
    """A page that shows the headers of its request, as debug pages and error reports do."""
    return JSONResponse(dict(request.headers))


async def passing(request: Request, call_next: Any) -> Response:
    """A middleware of an author's that hides the connection of a request from the app behind it."""
    response: Response = await call_next(request)
    return response


def app_of(name: str = "n", **settings: Any) -> Application:
    site: dict[str, Site] = {}
    app = framehold.asgi(server(site, name), Settings(node_id=name, keys=(KEY,), **settings))
    site[name] = Site(app, "")
    return app


@asynccontextmanager
async def mounted(*middleware: Middleware) -> AsyncIterator[tuple[Application, str]]:
    """An app of the author's with a page that shows headers, and Framehold's mounted in it; its root."""
    app = app_of()
    routes = [Route("/debug/headers", echo), Mount("/", app)]
    parent = Starlette(routes=routes, lifespan=app.lifespan, middleware=list(middleware))
    async with served(parent) as url:
        yield app, url.removesuffix("/mcp")


@pytest.mark.parametrize(
    "middleware", [(), (Middleware(BaseHTTPMiddleware, dispatch=passing),)], ids=["plain", "hidden"]
)
async def test_what_a_page_of_the_parent_shows_opens_nothing(middleware: tuple[Middleware, ...]) -> None:
    """On another connection of the same kind, from any address that uvicorn is told, also in the sender's stead; and
    later."""
    async with mounted(*middleware) as (app, root), httpx2.AsyncClient() as http:
        address = address_of(root)
        assert address is not None
        async with router(address, mint=True, boots=()) as front:
            seen = (await http.get(f"http://127.0.0.1:{front.port}/debug/headers")).json()
            shown = {name: value for name, value in seen.items() if name.startswith("framehold-")}
            assert shown[PROOF.decode()].startswith("v1.router.")
            peers = [link._transport.get_extra_info("sockname") for link in front.upstream.connections.open]
            told = [{}, *({"x-forwarded-for": f"{host}:{port}"} for host, port in peers)]
            for more in told:
                assert (await http.get(f"{root}/admin/node", headers={**shown, **more})).status_code == 403
                async with Caller(f"{root}/mcp") as caller:
                    asked = await caller.call("ask", headers={**shown, CALL_ID.decode(): CALL, **more})
                assert asked.token.split(".")[1] != CALL and "framehold-node" not in asked.headers
        assert not app.attached.runtime.draining.begun


async def test_a_router_beside_plain_uvicorn_is_believed() -> None:
    """Though uvicorn takes the router's client for the peer."""
    async with mounted() as (_, root):
        address = address_of(root)
        assert address is not None
        async with (
            router(address, mint=True, boots=()) as front,
            Caller(f"http://127.0.0.1:{front.port}/mcp") as caller,
        ):
            asked = await caller.call("ask")
            placed = [placement.call for placement, _ in front.placer.told]
        assert placed == [asked.token.split(".")[1]]


@dataclass
class Recorder:
    """Stands between senders and a node: it passes on all that comes, and keeps it."""

    to: tuple[str, int]
    requests: list[Reply] = field(default_factory=list)
    answers: bytearray = field(default_factory=bytearray)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward, back = await asyncio.open_connection(*self.to)
        returning = asyncio.create_task(self._copy(onward, writer))
        try:
            while True:
                request = await message(reader)
                self.requests.append(request)
                back.write(request.raw)
        except (asyncio.IncompleteReadError, ConnectionError):
            back.close()
            await returning

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.answers += data
            writer.write(data)
        writer.close()


@asynccontextmanager
async def recorded(redis: RedisServer, name: str, **settings: Any) -> AsyncIterator[tuple[Recorder, Site, Site]]:
    """Two nodes; whoever sends to `a` by its lease passes a recorder."""
    async with AsyncExitStack() as stack:
        sites = await stack.enter_async_context(
            fleet(redis, name, "a", "b", keys=(KEY,), route_headers=True, **settings)
        )
        a, b = sites["a"], sites["b"]
        host, port = a.url.split("/")[2].split(":")
        recorder = Recorder((host, int(port)))
        spy = await stack.enter_async_context(await asyncio.start_server(recorder.serve, "127.0.0.1", 0))
        await say_address(a, f"http://127.0.0.1:{spy.sockets[0].getsockname()[1]}", b)
        yield recorder, a, b


async def test_a_recorder_has_seen_nothing_that_it_could_use(redis: RedisServer, tmp_path: Any) -> None:
    """Between routers, their collecting client, nodes and a node: what passed is shown at once, as it came or as a
    request of its own, at this node and at another one. It counts as a client's: the call of another begins nothing
    under its id, and goes on with nothing."""
    async with recorded(redis, tmp_path.name) as (recorder, a, b):
        runtime = a.app.attached.runtime
        [member] = [
            Member.of(lease, a.app.attached.runtime.peers.seals)
            for lease in await runtime.store.nodes()
            if lease.node == "a"
        ]
        collecting = NodeClient(Trust([KEY.encode()]))
        assert member.address is not None
        async with router(member.address, boots=(member.boot,), mint=True) as front:
            async with Caller(f"http://127.0.0.1:{front.port}/mcp") as routed, Caller(b.url) as at_b:
                asked = await routed.call("ask")
                done = await at_b.retry("ask", asked.token, asked.accept(word="aye"))
            assert done.text == "aye at a"
            assert (await collecting.ask(member, "/admin/node", NodeStatus)).node_id == "a"
            passed = [request for request in recorder.requests if request.one(HELLO) is None]
            roles = [(request.one(PROOF) or b"").split(b".")[1] for request in passed]
            assert roles == [b"router", b"node", b"admin"], "all of them are still connected"
            for request in recorder.requests:
                for site in (a, b):
                    await _worth_nothing(site, request)
        await collecting.close()
        # A believed start would be refused, since its call has begun.
        assert not runtime.draining.begun and (a.entered, b.entered) == (["ask", "ask"], ["ask"])


async def test_what_a_recorder_has_seen_makes_it_no_user_and_no_process(redis: RedisServer, tmp_path: Any) -> None:
    """The head of each request and each proof in an answer, at every process, at once and 61 s later on the store's
    clock: with the token of a user's call, under the id of that call, and for what operators ask."""
    async with recorded(redis, tmp_path.name, guard=GUARD, lease_ttl=60.0) as (recorder, a, b):
        runtimes = [site.app.attached.runtime for site in (a, b)]
        [lease] = [lease for lease in await runtimes[0].store.nodes() if lease.node == "a"]
        member, ann = Member.of(lease, runtimes[0].peers.seals), {"authorization": "Bearer ann/ask/1"}
        assert member.address is not None
        async with (
            router(member.address, boots=(member.boot,), mint=True) as front,
            Caller(f"http://127.0.0.1:{front.port}/mcp") as through,
            Caller(a.url) as at_a,
            Caller(b.url) as at_b,
        ):
            asked = await through.call("ask", headers=ann)
            front.placer.mint = False  # It would give each call the same id.
            heads = [
                {name.decode(): value.decode() for name, value in request.headers if name.startswith(b"framehold-")}
                for request in recorder.requests
                if request.one(HELLO) is None
            ]
            heads += [
                {PROOF.decode(): shown} for shown in re.findall(rf"{PROOF.decode()}: (.+)\r", recorder.answers.decode())
            ]
            assert len(heads) > 1 and any(CALL_ID.decode() in shown for shown in heads)
            for later in (0.0, 61.0):
                for clock in (runtime.heartbeat.clock for runtime in runtimes):
                    clock.measured(clock.time() + later, clock.now(), clock.now())
                for caller, shown in product((through, at_a, at_b), heads):
                    await _opens_nothing(caller, shown, asked)
            assert not a.cancelled.is_set() and not runtimes[0].draining.begun
            done = await through.retry("ask", asked.token, asked.accept(word="aye"), headers=ann)
            assert done.text == "aye at a"


async def _opens_nothing(caller: Caller, shown: dict[str, str], asked: client.Reply) -> None:
    """What a recorder sends to a process, with what it has seen: as nobody, and as another user."""
    ben = {"authorization": "Bearer ben/ask/1"}
    for user, status in (({}, 401), (ben, 400)):
        answers = asked.accept(word="no")
        assert (await caller.retry("ask", asked.token, answers, headers={**shown, **user})).status == status
    own = await caller.call("ask", headers={**shown, **ben})
    assert own.token.split(".")[1] != asked.token.split(".")[1]
    async with httpx2.AsyncClient() as http:
        for method, path in (("GET", "/admin/node"), ("POST", "/admin/drain")):
            answer = await http.request(method, caller.url.replace("/mcp", path), headers=shown)
            assert answer.status_code in (403, 404)


async def _worth_nothing(site: Site, request: Reply) -> None:
    """Show what was recorded to a node, on new connections."""
    said, same = await _said(site, request.raw)
    assert same.one(PROOF) is None or request.one(HELLO) is not None
    assert same.status in (204, 200, 400, 403, 404, 405, 406, 421), said
    assert request.first.split()[1] != b"/admin/node" or same.status == 403
    headers = [line for line in request.headers if line[0].startswith(b"framehold-")]
    for method, path in (("GET", "/admin/node"), ("POST", "/admin/drain")):
        lines = b"".join(b"%b: %b\r\n" % item for item in headers if item[0] != HELLO)
        own = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n".encode()
        assert (await _said(site, own + lines + b"\r\n"))[1].status == 403


async def _said(site: Site, data: bytes) -> tuple[bytes, Reply]:
    host, port = site.url.split("/")[2].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        answer = await head(reader)
        return answer.raw, answer
    finally:
        writer.close()


async def test_a_hop_that_drops_headers_lets_nobody_in(redis: RedisServer, tmp_path: Any) -> None:
    """Whichever of them it drops: who asks for a client never becomes a part of the fleet."""
    app = app_of(store_url=redis.url, namespace=tmp_path.name)
    async with app.lifespan():
        runtime, peer = app.attached.runtime, ("10.0.0.1", 40_000)
        values = [planes("GET", "/admin/node", CALL, KEY)]
        values += [stated(runtime, role, "10.0.0.1:40000", KEY)[1] for role in (Role.ROUTER, Role.NODE)]
        for value in values:
            every = [(PROOF, value), (CALL_ID, CALL.encode()), (b"host", b"127.0.0.1"), (b"x-own", b"1")]
            for size in range(len(every) + 1):
                for kept in combinations(every, size):
                    assert await _status(app, list(kept), peer) == 403
        own = [stated(runtime, Role.ADMIN, "10.0.0.1:40000", KEY), (b"host", b"127.0.0.1")]
        assert await _status(app, own, peer) == 200
        assert await _status(app, own, ("10.0.0.1", 40_001)) == await _status(app, own, None) == 403
        late = stated(runtime, Role.ADMIN, "10.0.0.1:40000", KEY, time.time() - 61)
        assert await _status(app, [late], peer) == 403


async def _status(app: Any, headers: list[tuple[bytes, bytes]], client: tuple[str, int] | None) -> int:
    """The status of `/admin/node`, as a server would have it served that tells the peer and nothing else."""
    found: list[int] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(sent: Any) -> None:
        found.extend([sent["status"]] if sent["type"] == "http.response.start" else [])

    scope = {"type": "http", "method": "GET", "path": "/admin/node", "query_string": b"", "headers": headers}
    await app({**scope, "client": client}, receive, send)
    [status] = found
    return status


async def test_a_load_balancers_proof_is_for_one_request() -> None:
    """It names the call of a client, and makes of nobody a part of the fleet."""
    app = app_of()
    async with served(app) as url, Caller(url) as caller:
        asked = await caller.call("ask", headers=sent_as(Role.CLIENT, CALL))
        assert asked.token.split(".")[1] != CALL, "the key is another fleet's"
        for path, call, at in (
            ("/mcp", CALL, None),
            ("/mcp", CALL[::-1], None),
            ("/", CALL, None),
            ("/mcp", CALL, 0.0),
        ):
            proof = planes("POST", path, call, KEY, at).decode()
            asked = await caller.call("ask", headers={PROOF.decode(): proof, CALL_ID.decode(): CALL})
            is_proved = (path, call, at) == ("/mcp", CALL, None)
            assert (asked.token.split(".")[1] == CALL) is is_proved


async def test_a_stranger_at_the_address_of_a_node_gets_nothing(redis: RedisServer, tmp_path: Any) -> None:
    """A node that passes a retry on, and a router that asks nodes how they are, send neither token nor body, nor what
    proves them; even where the stranger repeats what another node answers."""
    heard = bytearray()
    asked_of: list[tuple[str, int]] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward, back = await asyncio.open_connection(*asked_of[0])
        data = await reader.read(65536)
        heard.extend(data)
        back.write(data)
        writer.write(await onward.read(65536))
        back.close()
        heard.extend(await reader.read(65536))
        writer.close()

    made = fleet(redis, tmp_path.name, "a", "b", keys=(KEY,), lease_ttl=1.0)
    async with made as sites, await asyncio.start_server(listen, "127.0.0.1", 0) as spy:
        a, b = sites["a"], sites["b"]
        host, port = b.url.split("/")[2].split(":")
        asked_of.append((host, int(port)))
        collecting = NodeClient(Trust([KEY.encode()]))
        async with Caller(a.url) as at_a, Caller(b.url) as at_b:
            asked = await at_a.call("ask")
            where = a.app.attached.runtime.heartbeat.address
            await say_address(a, f"http://127.0.0.1:{spy.sockets[0].getsockname()[1]}", b)
            hush = {"authorization": "Bearer hush"}
            refused = await at_b.retry("ask", asked.token, asked.accept(word="aye"), headers=hush)
            assert (refused.status, refused.code) == (503, -32603) and "can't be reached" in refused.text
            [lease] = [lease for lease in await a.app.attached.runtime.store.nodes() if lease.node == "a"]
            with pytest.raises(Exception, match="not the process that the lease names"):
                await collecting.ask(Member.of(lease, a.app.attached.runtime.peers.seals), "/admin/node", NodeStatus)
            await say_address(a, where, b)
            assert (await at_b.retry("ask", asked.token, asked.accept(word="aye"))).text == "aye at a"
        await collecting.close()
    assert HELLO in heard
    assert not [part for part in (b"hush", b"requestState", b"jsonrpc", PROOF) if part in heard]


async def test_two_servers_of_one_process_prove_both(redis: RedisServer, tmp_path: Any) -> None:
    """They have one address: whichever of them is asked answers for the other, and believes what is stated to it."""
    apps = [app_of(name, store_url=redis.url, namespace=tmp_path.name) for name in ("one", "two")]
    routes = [Mount("/one", apps[0]), Mount("/two", apps[1])]

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with apps[0].lifespan(), apps[1].lifespan():
            yield

    async with served(Starlette(routes=routes, lifespan=lifespan)) as url:
        for app in apps:
            app.attached.runtime.heartbeat.address = url.removesuffix("/mcp")
        address = address_of(url.removesuffix("/mcp"))
        assert address is not None
        other = apps[1].attached.runtime.heartbeat.lease.boot
        async with router(address, boots=(other,), mint=True) as front:
            async with Caller(f"http://127.0.0.1:{front.port}/one/mcp") as caller:
                asked = await caller.call("ask")
            placed = [placement.call for placement, _ in front.placer.told]
        assert placed == [asked.token.split(".")[1]]

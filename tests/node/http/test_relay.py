"""A node that does not hold a call, a session or its code passes the request on (docs/protocol.md, rules 19 and 28)."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequestParams, ElicitResult

import framehold
from framehold.config import Settings
from framehold.engine.heartbeat import Heartbeat
from framehold.hosts.listeners import bus_of
from framehold.http.app import Application
from framehold_core.ids import is_call_id
from framehold_core.lease import MAX_CODES, code_names
from framehold_fleet.headers import CALL_ID
from framehold_fleet.members.membership import LIVE
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.processes import DEADLINE, until
from tests.kit.proofs import client, sent_as
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word
from tests.node.code.releases import release

pytestmark = pytest.mark.anyio


@dataclass
class Site:
    """One node of the test's own."""

    app: Application
    url: str
    entered: list[str] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[dict[str, str]] = field(default_factory=list)


def server(site_of: dict[str, Site], name: str, **guard: Any) -> MCPServer[Any]:
    """The same tools on every node, which note where they run. `guard`: what authenticates users."""
    mcp: MCPServer[Any] = MCPServer("pair", **guard)

    @mcp.tool()
    async def ask(ctx: Context) -> str:
        """Ask once, then say where."""
        site = site_of[name]
        site.entered.append("ask")
        request = ctx.request_context.request
        assert request is not None
        site.seen.append(dict(request.headers))
        answer = await ctx.elicit("Which word?", Word)
        await ctx.report_progress(1, 2, "half")
        assert answer.action == "accept"
        return f"{answer.data.word} at {name}"

    @mcp.tool()
    async def linger(ctx: Context) -> str:
        """Ask once, then run until it is cancelled."""
        site = site_of[name]
        await ctx.elicit("Which word?", Word)
        site.entered.append("lingers")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            site.cancelled.set()
            raise
        return "never"

    return mcp


@asynccontextmanager
async def fleet(
    redis: RedisServer, namespace: str, *names: str, guard: Mapping[str, Any] = MappingProxyType({}), **settings: Any
) -> AsyncIterator[dict[str, Site]]:
    """Nodes in this process that share a store."""
    sites: dict[str, Site] = {}
    # Whoever goes gives its lease back: a process that stands still for a second must not look as if somebody had died.
    async with AsyncExitStack() as stack:
        for name in names:
            common = {"store_url": redis.url, "namespace": namespace, "keys": (KEY,), "lease_ttl": 5.0}
            app = framehold.asgi(server(sites, name, **guard), Settings(node_id=name, **{**common, **settings}))
            sites[name] = Site(app, await stack.enter_async_context(served(app)))
        yield sites


@pytest.fixture
async def pair(redis: RedisServer, tmp_path: Any) -> AsyncIterator[tuple[Site, Site]]:
    async with fleet(redis, tmp_path.name, "a", "b", route_headers=True) as sites:
        yield sites["a"], sites["b"]


async def say_address(site: Site, address: str, to: Site) -> None:
    """Have a node's lease say that it is reached there, until another one knows. Neither waits for its next time."""
    heartbeat, peers = site.app.attached.runtime.heartbeat, to.app.attached.runtime.peers
    heartbeat.address = address
    heartbeat.announce(heartbeat.state)
    peers.mint()
    node = heartbeat.lease.node
    membership = peers._membership
    assert membership is not None, "it has a store"
    async with asyncio.timeout(DEADLINE):
        while _url(peers, node) != address:
            await membership.refresh()
            await asyncio.sleep(0.01)


def _url(peers: Any, node: str) -> str | None:
    member = peers._membership.fleet.members.get(node)
    return None if member is None else member.url


async def test_a_retry_finds_its_frame_through_any_node(pair: tuple[Site, Site]) -> None:
    """Entered once, resumed where it parked, its progress on the way; the response says who served and how. A malformed
    answer is refused by the owner, with its status, and consumes nothing."""
    a, b = pair
    async with Caller(a.url) as at_a, Caller(b.url) as at_b:
        asked, direct = await at_a.call("ask"), await at_a.call("ask")
        own = await at_a.retry("ask", direct.token, direct.accept(word="aye"))
        bad = await at_b.retry("ask", asked.token, dict.fromkeys(asked.asked, 12))
        done = await at_b.retry("ask", asked.token, asked.accept(word="aye"), meta={"progressToken": "p"})
    ways = [(reply.headers["framehold-node"], reply.headers["framehold-route"]) for reply in (asked, own, done)]
    assert ways == [("a", "start"), ("a", "ring"), ("a", "lease")]
    assert (bad.status, bad.code) == (400, -32602)
    assert done.text == "aye at a"
    assert [event["params"]["message"] for event in done.events] == ["half"]
    assert (a.entered, b.entered) == (["ask"] * 2, [])


async def test_a_client_that_leaves_cancels_the_round_at_the_owner(pair: tuple[Site, Site]) -> None:
    """Closing the response is the protocol's cancellation, through a relay too."""
    a, b = pair
    async with Caller(a.url) as at_a, Caller(b.url) as at_b:
        asked = await at_a.call("linger")
        waiting = asyncio.create_task(at_b.retry("linger", asked.token, asked.accept(word="x")))
        await until(lambda: a.entered == ["lingers"], "the round at its owner")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(10):
        await a.cancelled.wait()


async def test_what_was_relayed_is_not_relayed_again(pair: tuple[Site, Site]) -> None:
    a, b = pair
    async with Caller(a.url) as at_a, Caller(b.url) as at_b:
        asked = await at_a.call("ask")
        params = {"name": "ask", "arguments": {}, "requestState": asked.token, "inputResponses": asked.accept(word="x")}
        envelope = at_b.envelope("tools/call", params, headers=sent_as("node"))
        async with client() as http:
            result = await http.post(b.url, json=envelope.body, headers=envelope.headers)
            assert result.status_code == 421
            assert result.headers["framehold-not-held"] == "1"
            # Whoever proves nothing is anybody: the request is relayed.
            done = await http.post(b.url, json=envelope.body, headers={**envelope.headers, **sent_as("")})
            assert done.headers["framehold-node"] == "a"


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "ftp://127.0.0.1:1"], ids=["nobody listens", "no address"])
async def test_an_owner_that_is_out_of_reach(address: str, redis: RedisServer, tmp_path: Any) -> None:
    """Its lease stands, but nobody listens at its address: 503 when a dead one's lease would have run out, and nothing
    was consumed."""
    async with fleet(redis, tmp_path.name, "a", "b", lease_ttl=2.0) as sites:
        a, b = sites["a"], sites["b"]
        async with Caller(a.url) as at_a, Caller(b.url) as at_b:
            asked = await at_a.call("ask")
            answers = asked.accept(word="aye")
            where = a.app.attached.runtime.heartbeat.address
            await say_address(a, address, b)
            async with asyncio.timeout(6):
                result = await at_b.retry("ask", asked.token, answers)
            assert (result.status, result.code) == (503, -32603)
            assert int(result.headers["retry-after"]) >= 1
            assert "can't be reached" in result.text
            await say_address(a, where, b)
            assert (await at_b.retry("ask", asked.token, answers)).text == "aye at a"


async def test_a_router_names_the_call(pair: tuple[Site, Site]) -> None:
    """The id that a router names is taken; that of anybody else, or a malformed one, is not. No handler sees such a
    header."""
    a, _ = pair
    wanted = "c0ffee" * 5 + "00"
    async with Caller(a.url) as caller:
        named = await caller.call("ask", headers=sent_as("router", wanted))
        again = await caller.call("ask", headers=sent_as("router", wanted))
        forged = await caller.call("ask", headers={CALL_ID.decode(): wanted, "framehold-proof": "v1.router.1.0"})
        garbled = await caller.call("ask", headers=sent_as("router", "no id{}"))
    assert named.token.split(".")[1] == wanted
    assert (again.status, again.code) == (503, -32603)
    assert "begun once" in again.text
    assert wanted not in (forged.token, garbled.token)
    assert a.entered == ["ask"] * 3
    assert not [name for headers in a.seen for name in headers if name.startswith("framehold-")]


@pytest.mark.parametrize("field", ["sagaToken", "requestState", "x"])
async def test_a_router_that_copies_an_id_of_the_client_names_no_call(pair: tuple[Site, Site], field: str) -> None:
    """An id that stands in the request is the client's choice, whoever sends it on. So is one that
    two readers of the body see differently."""
    a, _ = pair
    chosen = "d" * 32
    async with Caller(a.url) as caller:
        sent = caller.envelope("tools/call", {"name": "ask", "arguments": {}})
        # The first of two equal keys leads a proxy, the last one counts here.
        begin = f'"params": {{"{field}": "h1.{chosen}.x", "{field}": null, '
        twice = json.dumps(sent.body).replace('"params": {', begin)
        named = {**sent.headers, **sent_as("router", chosen)}
        async with client() as http:
            result = (await http.post(a.url, content=twice, headers=named)).json()
    assert a.entered == ["ask"]
    assert is_call_id(call := result["result"]["requestState"].split(".")[1]) and call != chosen


async def test_headers_are_off_by_default(redis: RedisServer, tmp_path: Any) -> None:
    async with fleet(redis, tmp_path.name, "a") as sites, Caller(sites["a"].url) as caller:
        plain = await caller.call("ask")
        inside = await caller.call("ask", headers=sent_as("router"))
    assert not [name for name in plain.headers if name.startswith("framehold-")]
    assert inside.headers["framehold-node"] == "a"


async def test_ids_are_minted_for_the_ring(redis: RedisServer, tmp_path: Any) -> None:
    async with fleet(redis, tmp_path.name, "a", "b", "c") as sites:
        for name, site in sites.items():
            peers = site.app.attached.runtime.peers
            membership = peers._membership
            assert membership is not None
            peers.mint()
            await until(partial(lambda one: len(one.fleet.members) == 3, membership), "all to know all")
            assert {membership.fleet.ring.owner(peers.mint()) for _ in range(50)} == {name}


async def _yes(context: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"word": "aye"})


async def test_a_session_of_2025_is_served_where_it_lives(pair: tuple[Site, Site]) -> None:
    a, b = pair
    async with httpx2.AsyncClient(event_hooks={"request": [_to(a.url, b.url)]}) as http:
        transport = _transport(a.url, http)
        async with Client(transport, mode="legacy", elicitation_callback=_yes) as client:
            result = await client.call_tool("ask", {})
    assert "aye at a" in str(result.content)
    assert (a.entered, b.entered) == (["ask"], [])


def _transport(url: str, http: httpx2.AsyncClient) -> Any:
    from mcp.client.streamable_http import streamable_http_client

    return streamable_http_client(url, http_client=http)


def _to(first: str, other: str) -> Any:
    """Sends every request but the first to another node."""
    count = 0

    async def send_elsewhere(request: httpx2.Request) -> None:
        nonlocal count
        count += 1
        if count > 1:
            request.url = httpx2.URL(other)

    return send_elsewhere


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


async def test_a_lost_session_is_404(redis: RedisServer, tmp_path: Any) -> None:
    async with fleet(redis, tmp_path.name, "b") as sites, httpx2.AsyncClient(headers=ACCEPT) as http:
        async with fleet(redis, tmp_path.name, "a") as gone:
            begun = await http.post(gone["a"].url, json=INITIALIZE)
            assert begun.status_code == 200
        session = begun.headers["mcp-session-id"]
        mark, node, boot, rest = session.split(".")
        assert (mark, node) == ("l1", "a")
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for text in (session, f"l1.b.{boot}.{rest}", f"l1.nobody.{boot}.{rest}", rest, "l1...", "l1.b"):
            result = await http.post(sites["b"].url, json=ping, headers={"mcp-session-id": text})
            assert result.status_code == 404, (text, result.text)


async def test_a_session_outlives_a_lapse(redis: RedisServer, tmp_path: Any) -> None:
    """The lease went and came again, under a new incarnation: the process, and its sessions, are what they were."""
    async with fleet(redis, tmp_path.name, "a", "b") as sites, httpx2.AsyncClient(headers=ACCEPT) as http:
        begun = await http.post(sites["a"].url, json=INITIALIZE)
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        heartbeat = sites["a"].app.attached.runtime.heartbeat
        before = heartbeat.lease.incarnation
        with redis.client() as client:
            client.delete(f"fh:{tmp_path.name}:node:a")
        heartbeat.announce(heartbeat.state)
        await until(lambda: heartbeat.lease.incarnation != before and heartbeat.lease.beat, "the new incarnation")
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for site in sites.values():
            assert (await http.post(site.url, json=ping, headers=session)).status_code == 200


async def test_events_reach_listeners_of_every_node(redis: RedisServer, tmp_path: Any) -> None:
    async with fleet(redis, tmp_path.name, "a", "b") as sites:
        buses = {name: _bus(site.app) for name, site in sites.items()}
        reply: dict[str, list[str]] = {name: [] for name in buses}
        for name, bus in buses.items():
            bus.subscribe(lambda event, name=name: reply[name].append(type(event).__name__))
        from mcp.server.subscriptions import ToolsListChanged

        rounds = 0
        while not reply["b"]:
            rounds += 1
            await buses["a"].publish(ToolsListChanged())
            await asyncio.sleep(0.02)
        await until(lambda: len(reply["b"]) <= rounds, "no echo")
        assert reply["a"] == ["ToolsListChanged"] * rounds


def _bus(app: Application) -> Any:
    bus = bus_of(app.attached.server)
    assert bus is not None
    return bus


OLD = """\
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

server = MCPServer("halves")


class Word(BaseModel):
    word: str


@server.tool()
@framehold.reentrant
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("early question?", Word)
    return "early " + answer.data.word
"""
NEW = OLD.replace("early", "later")


class Halves:
    """Nodes of two releases in one fleet. `apps` has the app of each."""

    def __init__(self, redis: RedisServer, folder: Path, **settings: Any) -> None:
        self._redis, self._folder, self._settings = redis, folder, settings
        self.apps: dict[str, Application] = {}

    @asynccontextmanager
    async def node(self, name: str, text: str) -> AsyncIterator[Caller]:
        """A node that serves one release. Only one module `server` can be imported at a time: the node has started when
        the next one is."""
        usual = {"store_url": self._redis.url, "namespace": self._folder.name, "keys": (KEY,), "node_id": name}
        async with AsyncExitStack() as stack:
            with release(self._folder / name, text) as module:
                settings = Settings(**{**usual, "lease_ttl": 5.0, "route_headers": True, **self._settings})
                app = self.apps[name] = framehold.asgi(module.server, settings)
                caller = await stack.enter_async_context(Caller(await stack.enter_async_context(served(app))))
            yield caller

    async def ends(self) -> Reply:
        """The end of a call of the old release that node a began, and that node c, of the new one, is asked for."""
        async with self.node("b", OLD):
            async with self.node("a", OLD) as at_a:
                asked = await at_a.call("ask")
                assert asked.messages == ["early question?"]
            await self.before_the_retry()
            async with self.node("c", NEW) as at_c:
                return await at_c.retry("ask", asked.token, asked.accept(word="w"))

    async def before_the_retry(self) -> None:
        """What happens between the end of node a and the retry: nothing."""


class Unreached(Halves):
    """Node b is out of reach when the retry comes."""

    async def before_the_retry(self) -> None:
        beat = self.apps["b"].attached.runtime.heartbeat
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            beat.address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        known = beat.lease.beat
        beat.announce(LIVE)
        await until(lambda: beat.lease.beat > known, "the lease with the other address")


@pytest.mark.parametrize("keep_code", [True, False])
async def test_a_retry_goes_to_the_node_that_has_the_very_code(
    keep_code: bool, redis: RedisServer, tmp_path: Path
) -> None:
    """The old half of a fleet carries on what the new half could not, or would have to load."""
    end = await Halves(redis, tmp_path, keep_code=keep_code).ends()
    assert end.text == "early w"
    assert end.headers["framehold-node"] == "b" and "framehold-code" not in end.headers


async def test_a_node_with_the_code_that_is_out_of_reach_holds_nobody_up(redis: RedisServer, tmp_path: Path) -> None:
    """Its lease would last for five seconds: the node that was asked takes the call, with the kept code."""
    async with asyncio.timeout(4.0):
        end = await Unreached(redis, tmp_path, lease_ttl=60.0).ends()
    assert end.text == "early w"
    assert end.headers["framehold-node"] == "c" and end.headers["framehold-code"] == "kept"


async def test_a_lease_names_the_codes_of_the_marked_handlers(redis: RedisServer, tmp_path: Path) -> None:
    """Eight characters each; none of a handler that is never entered again."""
    text = NEW + "\n\n@server.tool()\nasync def once(ctx: Context) -> str:\n    return 'x'\n"
    halves = Halves(redis, tmp_path)
    async with halves.node("a", text):
        attached = halves.apps["a"].attached
        heartbeat = attached.runtime.heartbeat
        assert isinstance(heartbeat, Heartbeat)
        assert heartbeat.codes == attached.handlers.find("tools/call", {"name": "ask"}).code()[:8]
        assert await heartbeat._store.nodes() and attached.handlers.find("tools/call", {"name": "once"}).code()


def test_a_lease_names_a_bounded_number_of_codes() -> None:
    names = code_names(f"{number:032x}"[::-1] for number in range(1000)).split()
    assert len(names) == MAX_CODES and {len(name) for name in names} == {8}
    assert code_names(["", "0123456789", "0123456789"]) == "01234567"

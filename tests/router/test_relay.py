"""What becomes of each request: what a node and a client get to read, and what each failure says."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from framehold_core.ids import NodeId
from framehold_fleet.http_server.request_head import first_segment
from framehold_fleet.http_server.server import close_server
from framehold_fleet.identity.plane import PROOF
from framehold_fleet.identity.statements import HELLO
from tests.kit.proofs import answered
from tests.router.wires import (
    CALL,
    KEY,
    Reply,
    Router,
    at,
    both_loops,
    chunk,
    closing,
    head,
    node,
    nowhere,
    ok,
    post,
    router,
    silent,
)

anyio_backend = both_loops


async def test_a_request_reaches_the_node_as_it_was_sent() -> None:
    sent = [
        ("Origin", "HTTPS://Here.test"), ("X-Odd", 'a, "b" ; c=\t\xe4'), ("Cookie", "a=b"), ("Cookie", "c=d"),
        ("Authorization", "Bearer T"), ("Empty", ""), ("MCP-Protocol-Version", "2026-07-28"),
    ]  # fmt: skip
    target = "/mcp/%2e%2e/A%20b?x=/../&y=%00"
    lines = [f"DELETE {target} HTTP/1.1", "Host: Router.Test:80", *(f"{name}: {value}" for name, value in sent)]
    async with node(ok()) as upstream, router(upstream.address, mint=True) as it:
        assert (await it.ask("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")).status == 200
        (reply,) = upstream.requests
        assert reply.first == b"DELETE /mcp/%2e%2e/A%20b?x=/../&y=%00 HTTP/1.1"
        assert reply.headers == [
            (b"host", b"Router.Test:80"),
            *((name.lower().encode(), value.encode("latin-1")) for name, value in sent),
            (b"x-forwarded-for", b"127.0.0.1"),
            (b"framehold-call-id", CALL[:-1].encode() + b"0"),
            (PROOF, reply.one(PROOF)),
        ]


GATEWAYS = {"x-forwarded-for": "1.1.1.1", "x-forwarded-proto": "https", "mcp-name": "one", "origin": "b", "accept": "a"}
OWN = {
    "none": {},
    "of the connection": {
        "connection": "close, X-Mine", "x-mine": "a", "keep-alive": "5", "proxy-connection": "a",
        "proxy-authorization": "b", "te": "trailers", "trailer": "X", "upgrade": "h2c",
    },
    "what a node decides by": {
        "connection": "Host, Content-Length, Authorization, Origin, X-Forwarded-For, X-Forwarded-Proto, Mcp-Name",
    },
}  # fmt: skip


@pytest.mark.parametrize("own", OWN.values(), ids=OWN.keys())
async def test_what_belongs_to_the_connection_stays_behind(own: dict[str, str]) -> None:
    """And nothing else: a client could shed what a gateway before us has put there."""
    async with node(ok()) as upstream, router(upstream.address) as it:
        await it.ask(post(b"x", *(f"{name}: {value}" for name, value in {**GATEWAYS, **own}.items())))
        found = {name.decode(): value.decode() for name, value in upstream.requests[0].headers if name != PROOF}
        forwarded = {**GATEWAYS, "x-forwarded-for": "1.1.1.1, 127.0.0.1"}
        assert found == {"host": "router.test", "content-length": "1", **forwarded}


async def test_a_client_says_its_address_in_no_other_header() -> None:
    """Also where `Connection` names them. A response passes as it is, but for them."""
    forged = ["X-Real-IP: 9.9.9.9", "Forwarded: for=9.9.9.9;proto=https", "X-REAL-IP: 8.8.8.8"]
    async with node(ok()) as upstream, router(upstream.address) as it:
        for more in ([], ["Connection: X-Real-IP, Forwarded, X-Other", "X-Other: 9.9.9.9"]):
            assert (await it.ask(post(b"x", *forged, *more))).status == 200
        for reply in upstream.requests:
            assert not [value for _, value in reply.headers if b"9.9.9.9" in value or b"8.8.8.8" in value]
            assert reply.one(b"x-forwarded-for") == b"127.0.0.1"


async def test_the_client_is_added_to_those_it_was_forwarded_for() -> None:
    async with node(ok()) as upstream, router(upstream.address) as it:
        await it.ask(post(b"x", "X-Forwarded-For: 1.1.1.1, 2.2.2.2", "X-Forwarded-For: 3.3.3.3"))
        assert upstream.requests[0].one(b"x-forwarded-for") == b"1.1.1.1, 2.2.2.2, 3.3.3.3, 127.0.0.1"


async def test_internal_headers_of_a_client_never_get_past() -> None:
    forged = ["framehold-role: admin", "Framehold-Call-Id: forged", "FRAMEHOLD-PROOF: wrong", "framehold-x: y"]
    async with node(ok()) as upstream, router(upstream.address) as it:
        assert (await it.ask(post(b"x", *forged))).status == 200
        reply = upstream.requests[0]
        text = {name: value for name, value in reply.headers if name.startswith(b"framehold-")}
        assert list(text) == [PROOF] and text[PROOF].startswith(b"v1.router.")


async def test_a_router_is_no_node(caplog: pytest.LogCaptureFixture) -> None:
    """A lease that names a router, or a load balancer before it, would send requests in a circle."""
    async with node(ok()) as upstream, router(upstream.address) as inner, router(("127.0.0.1", inner.port)) as it:
        reply = await it.ask(post(b'{"id": 3}'))
        assert (reply.status, reply.error["id"]) == (503, 3)
        assert "nothing was started" in reply.error["message"]
        assert upstream.requests == []
        assert "does a FRAMEHOLD_ADVERTISE_URL name a router" in caplog.text


ANSWER = ok(
    b"fine", "Framehold-Node: n7", "framehold-route: lease", "framehold-not-held: 1", "framehold-proof: s",
    "Set-Cookie: a", "Set-Cookie: b", "Connection: keep-alive, X-Mine", "X-Mine: c", "Keep-Alive: 5",
)  # fmt: skip


@pytest.mark.parametrize("shown", [False, True])
async def test_a_response_reaches_the_client_less_what_is_internal(shown: bool) -> None:
    async with node(ANSWER) as upstream, router(upstream.address, route_headers=shown, mint=True) as it:
        reply = await it.ask(post())
        route = [(b"framehold-node", b"n7"), (b"framehold-route", b"lease")] if shown else []
        plain = [(b"content-length", b"4"), (b"set-cookie", b"a"), (b"set-cookie", b"b")]
        assert sorted(reply.headers) == sorted(plain + route)
        assert reply.body == b"fine"
        ((placement, served_by),) = it.placer.told
        assert (placement.node, placement.call, served_by) == ("n0", CALL[:-1] + "0", "n7")


async def test_events_are_passed_on_as_they_come() -> None:
    events: asyncio.Queue[bytes] = asyncio.Queue()

    async def stream(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        while event := await events.get():
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        writer.write(b"0\r\n\r\n")

    async with node(stream) as upstream, router(upstream.address) as it:
        client = await it.client()
        client.send(post())
        assert (await head(client.reader)).one(b"content-type") == b"text/event-stream"
        for event in (b"data: 1\n\n", b": ping\n\n", b"data: 2\n\n"):
            events.put_nowait(event)
            assert await chunk(client.reader) == event
        events.put_nowait(b"")
        assert await chunk(client.reader) == b""


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("/dashboard", b"dashboard"), ("/dashboard/x?y", b"dashboard"), ("/metrics", b"metrics"),
        ("/healthz", b"healthz"),
        ("/readyz?a", b"readyz"), ("/api/v1/nodes", b"dashboard"), ("/api/v2/nodes", b"api"), ("/api", b"api"),
        ("/mcp", b"mcp"), ("/mcp/dashboard", b"mcp"), ("/dashboards", b"dashboards"), ("/", b""), ("*", b"*"),
        ("/a/../metrics", b"metrics"), ("/%6detrics", b"metrics"),
    ],
)  # fmt: skip
def test_the_path_says_whose_a_request_is(target: str, first: bytes) -> None:
    assert first_segment(target.encode()) == first


async def test_the_routers_own_pages_are_served_beside_the_nodes(tmp_path: Path) -> None:
    reply: list[Reply] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reply.append(await head(reader))
        writer.write(ok(b"page"))
        writer.close()

    path = str(tmp_path / "pages")
    server = await asyncio.start_unix_server(serve, path)
    async with node(ok()) as upstream, router(upstream.address, pages=path) as it:
        for target in ("/dashboard", "/api/v1/nodes?x=y", "/metrics"):
            assert (await it.ask(post(target=target))).body == b"page"
            assert reply[-1].first == f"POST {target} HTTP/1.1".encode()
            assert not [name for name, _ in reply[-1].headers if name.startswith(b"framehold-")]
        assert upstream.bytes == b""
        assert it.placer.begun == 0
    await close_server(server)
    async with router(nowhere(), pages=nowhere()) as it:
        absent = await it.ask(post(target="/readyz"))
        assert (absent.status, absent.one(b"retry-after")) == (503, b"1")
        assert absent.one(b"content-type") == b"text/plain; charset=utf-8"
    async with node(closing(b"")) as broken, router(pages=broken.address) as it:
        assert (await it.ask(post(target="/readyz"))).status == 502


async def test_a_node_that_cannot_be_reached_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async with node(ok()) as upstream, router(nowhere(), nowhere(), upstream.address, mint=True) as it:
        assert (await it.ask(post())).status == 200
        assert it.placer.unreached == ["n0", "n1"]
        assert it.placer.begun == 3
        assert upstream.requests[0].one(b"framehold-call-id") == CALL[:-1].encode() + b"2"
    assert "n0 accepts no connection or does not say who it is: nothing was sent, the next node is tried" in caplog.text


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        (b'{"id": 1}', 1), (b'{"id": "x"}', "x"), (b'{"id": 1.5}', 1.5), (b'{"id": null}', None), (b"{}", None),
        (b'{"id": []}', None), (b"[]", None), (b"", None), (b"\xff", None), (b'{"id": "\xff"}', None),
        (b'{"a": ' + b"[" * 100_000, None), (b'{"id": 123456789012345678901234567890}', 123456789012345678901234567890),
    ],
    ids=range(12),
)  # fmt: skip
@pytest.mark.parametrize("count", [0, 2])
async def test_without_a_node_nothing_was_started(count: int, body: bytes, asked: object) -> None:
    async with router(*[nowhere() for _ in range(count)]) as it:
        client = await it.client()
        for _ in range(2):
            reply = await client.ask(post(body))
            assert (reply.status, reply.one(b"retry-after")) == (503, b"1")
            assert reply.one(b"content-type") == b"application/json"
            assert reply.error["id"] == asked
            assert "nothing was started" in reply.error["message"]


@pytest.mark.parametrize("served", [0, 1], ids=["the first request", "on an idle connection"])
@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", b"junk\r\n\r\n", b"HTTP/1.1 103 Hm\r\n\r\n"])
async def test_a_node_that_breaks_before_it_answers_leaves_it_unknown(
    data: bytes, served: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The request may have been run, so no other node gets it. That nothing was read, where an idle connection was
    closed meanwhile, is only likely."""
    async with node(ok()) as broken, node(ok()) as other, router(broken.address, other.address) as it:
        client = await it.client()
        for _ in range(served):
            assert (await client.ask(post())).status == 200
        broken.answer = closing(data)
        reply = await client.ask(post(b'{"id": 5}'))
        assert (reply.status, reply.error["id"]) == (502, 5)
        assert "is not known" in reply.error["message"]
        assert other.bytes == b""
        assert it.placer.unreached == []
        assert (await client.ask(post())).status == 502
    assert "n0 did not answer" in caplog.text and "nobody knows what ran" in caplog.text


RETRY = json.dumps({"id": 5, "method": "tools/call", "params": {"requestState": f"h1.{CALL}.sealed"}}).encode()


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", b"junk\r\n\r\n"])
async def test_a_round_with_a_token_is_sent_to_the_next_node_when_one_breaks(data: bytes) -> None:
    """As it was: its answers are the same wherever they arrive, and another node carries the call on. One that breaks
    two nodes leaves it unknown, and is risked on no third."""
    async with (
        node(closing(data)) as broken,
        node(ok()) as other,
        node(ok()) as third,
        router(broken.address, other.address, third.address) as it,
    ):
        assert (await it.ask(post(RETRY))).body == b"fine"
        assert [reply.body for reply in (*broken.requests, *other.requests)] == [RETRY, RETRY]
        other.answer = closing(data)
        reply = await it.ask(post(RETRY))
        assert (reply.status, reply.error["id"]) == (502, 5) and "is not known" in reply.error["message"]
        assert (len(broken.requests), len(other.requests), len(third.requests)) == (2, 2, 0)


async def test_a_round_is_not_left_with_a_node_whose_lease_is_gone() -> None:
    """It may be paused for good. A request without a token waits: nobody else may run it."""
    async with (
        node(silent) as paused,
        node(ok()) as other,
        router(paused.address, other.address, upstream_timeout=1.2) as it,
    ):
        retried, begun = asyncio.create_task(it.ask(post(RETRY))), asyncio.create_task(it.ask(post(b'{"id": 6}')))
        await paused.arrived.wait()
        it.placer.fallen.add(NodeId("n0"))
        assert (await retried).body == b"fine"
        given_up = await begun
        assert (given_up.status, given_up.error["id"]) == (504, 6)
        assert "FRAMEHOLD_UPSTREAM_TIMEOUT" in given_up.error["message"]
        assert {await paused.closed.get() for _ in range(2)} == {0, 1}
        assert [reply.body for reply in other.requests] == [RETRY]


async def test_nobody_else_waits_for_a_node_that_does_not_say_who_it_is() -> None:
    """Nothing was sent to it, so the next node gets the request. A round with a token waits while the lease stands, and
    the last node that is left is waited for."""
    begins = asyncio.Event()

    async def late(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await begins.wait()
        hello = reply.one(HELLO)
        writer.write(ok(b"late") if hello is None else answered(hello, writer.get_extra_info("peername"), KEY))

    start = post(b'{"id": 6, "method": "tools/call"}', "MCP-Protocol-Version: 2026-07-28")
    async with node(late) as busy, node(ok()) as other, router(busy.address, other.address) as it:
        busy.boot = None
        asked = [asyncio.create_task(it.ask(data)) for data in (start, post(), post(RETRY))]
        while not all(task.done() for task in asked[:2]):
            await check(it)
        assert [task.result().body for task in asked[:2]] == [b"fine", b"fine"]
        it.placer.addresses.pop()
        last = asyncio.create_task(it.ask(start))
        while len(busy.received) < 4:
            await asyncio.sleep(0)
        for _ in range(5):
            await check(it)
        begins.set()
        assert [(await task).body for task in (asked[2], last)] == [b"late", b"late"]
        assert it.placer.unreached == ["n0", "n0"]


async def check(router: Router) -> None:
    """Look whether those who wait for a node want to wait on, as the upstream does now and then."""
    for link in tuple(router.upstream.connections.open):
        link.sweep(router.upstream.loop.time())
    await asyncio.sleep(0)


async def test_a_round_that_is_being_answered_stays_where_it_is() -> None:
    async with (
        node(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc") as paused,
        node(ok()) as other,
        router(paused.address, other.address, upstream_timeout=1.2) as it,
    ):
        client = await it.client()
        client.send(post(RETRY))
        await paused.arrived.wait()
        it.placer.fallen.add(NodeId("n0"))
        assert (await client.reader.readuntil(b"abc")).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionResetError):
            await client.rest()
        assert other.requests == []


LENGTH, CHUNKS = b"Content-Length: 9\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"


@pytest.mark.parametrize("rest", [LENGTH, CHUNKS], ids=["length", "chunks"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("silence", [False, True], ids=["closes", "silent"])
async def test_a_response_that_breaks_off_is_seen_to(rest: bytes, version: str, silence: bool) -> None:
    """Also by a client that takes the connection's end for the body's."""
    read = asyncio.Event()

    async def breaks(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + rest)
        await read.wait()
        if not silence:
            writer.close()

    async with node(breaks) as upstream, router(upstream.address, upstream_timeout=0.3 if silence else 30.0) as it:
        client = await it.client()
        client.send(post(version=version))
        await client.reader.readuntil(b"abc")
        read.set()
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_a_client_that_leaves_before_there_is_a_connection_is_not_relayed() -> None:
    async with node(ok()) as upstream, router(upstream.address) as it:
        client = await it.client()
        await client.ask(post())
        pool = it.upstream._idle[at(upstream.address)]
        pool.clear()
        it.placer.addresses.append(upstream.address)

        async def never(*_: object) -> None:
            await asyncio.Event().wait()

        it.upstream._open = never  # type: ignore[assignment]  # it takes whatever that one takes
        client.send(post(b"never"))
        while not +it.placer.counts:
            await asyncio.sleep(0)
        client.writer.transport.abort()
        while +it.placer.counts:
            await asyncio.sleep(0)
        assert b"never" not in upstream.bytes


async def test_a_line_about_a_request_names_its_call_and_its_node(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "framehold_router.routing.relay"):
        async with router(nowhere()) as it:
            assert {(await it.ask(post(RETRY))).status for _ in range(20)} == {503}
    lines = [(vars(record).get("call"), vars(record).get("node"), record.levelname) for record in caplog.records]
    assert set(lines) == {(CALL[:8], "n0", level) for level in ("WARNING", "DEBUG")}
    assert [level for _, _, level in lines].count("WARNING") == 2, "it can't be reached, and there is no other"
    caplog.clear()
    async with node(closing(b"")) as broken, router(broken.address, mint=True) as it:
        await it.ask(post(b'{"method": "tools/call"}', "MCP-Protocol-Version: 2026-07-28"))
    (record,) = caplog.records
    assert (vars(record)["call"], vars(record)["node"]) == (CALL[:8], "n0")
    assert CALL not in caplog.text and "sealed" not in caplog.text


async def test_a_host_that_a_node_refuses_is_told(caplog: pytest.LogCaptureFixture) -> None:
    refusal = b"HTTP/1.1 421 Misdirected Request\r\ncontent-length: 0\r\n\r\n"
    async with node(refusal) as upstream, router(upstream.address) as it:
        request = f"POST /mcp HTTP/1.1\r\nHost: {'h' * 200}\r\nContent-Length: 0\r\n\r\n".encode()
        assert {(await it.ask(request)).status for _ in range(5)} == {421}
        assert it.placer.refused_hosts.now() == {"n0": 5}
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.startswith("node n0 refused the Host 'hhh") and "FRAMEHOLD_ALLOWED_HOSTS of that node" in line
    assert line.count("h" * 60) == 0

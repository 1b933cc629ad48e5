"""What a router answers by itself, over HTTP, with nodes that answer, hang, lie and are not there."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from framehold_core.ids import Boot, NodeId
from framehold_fleet.http_server.request_reader import MAX_LINE
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models.calls import LeasesView
from framehold_router.collect import node_client, shared_look, survey
from framehold_router.collect.node_client import QUICK_BYTES, NodeClient
from framehold_router.config import RouterSettings
from framehold_router.pages import serve_pages
from tests.router.cast import (
    SOON,
    STATS,
    TRUST,
    Answer,
    Cast,
    cast_of,
    cut,
    get,
    guarded,
    hang,
    is_inside,
    member,
    said,
    saying,
)


async def test_the_probes(cast: Cast) -> None:
    client = await cast.client()
    assert await get(client, "/healthz") == "ok\n"
    assert "no live node" in await get(client, "/readyz", 503)
    cast.members.append(member("a", "http://a:1", "draining"))
    assert "no live node" in await get(client, "/readyz", 503)
    cast.members.append(member("b", "http://b:1"))
    assert await get(client, "/readyz") == "ready: 1 live nodes are known\n"


async def test_nodes_say_how_they_are_now(cast: Cast) -> None:
    await cast.node("b", saying(said("b", state="draining", later=[1])))
    await cast.node("a", saying(said("a")))
    body = await get(await cast.client(), "/api/v1/nodes")
    urls = {found.node: found.url for found in cast.members}
    shares = cast.fleet.ring.shares()
    assert [{name: node[name] for name in (*said("a"), "address", "started", "share")} for node in body["nodes"]] == [
        said(name, state=state) | {"address": urls[NodeId(name)], "started": 1000.5, "share": shares[NodeId(name)]}
        for name, state in (("a", "live"), ("b", "draining"))
    ]
    assert body["nodes"][0]["rss"] is None, "it did not say"


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        while True:
            await response.write(b" " * 65536)
    except ConnectionError:
        return response


BAD: dict[str, Answer] = {
    "an error": saying(said("a"), 500),
    "a refusal": saying(said("a"), 403),
    "no JSON": saying("<html>"),
    "a list": saying([]),
    "missing fields": saying({"node_id": "a"}),
    "fields of other types": saying(said("a", parked="many")),
    "a negative count": saying(said("a", parked=-1)),
    "another node's name": saying(said("b")),
    "deep nesting": saying("[" * 50_000),
    "a novel": saying(said("a", later="x" * node_client.MAX_STATUS_BYTES)),
    "no end": endless,
    "a cut connection": cut,
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
async def test_a_node_that_does_not_answer_well_is_unreachable(cast: Cast, answer: Answer) -> None:
    await cast.node("a", answer)
    await cast.node("z", saying(said("z")))
    body = await get(await cast.client(), "/api/v1/nodes")
    result = {name: value for name, value in body["nodes"][0].items() if value not in (None, [])}
    assert result.pop("unanswered")
    [name] = [name for name in BAD if BAD[name] is answer]
    unread = {"an error": 500, "a refusal": 403, "a cut connection": 0, "another node's name": 0}
    assert result.pop("answer_status", 0) == unread.get(name, 200)
    # An answer that is wrong was given by the process all the same: it had proved who it is.
    assert result.pop("lives") is (answer not in (BAD["a cut connection"], BAD["another node's name"]))
    assert result == {
        "node_id": "a",
        "incarnation": "i-lease",
        "boot": "b-lease",
        "state": "unreachable",
        "address": cast.members[0].url,
        "share": cast.fleet.ring.shares()[NodeId("a")],
        **{name: value for name, value in STATS._asdict().items() if name != "admin_port" and value},
    }
    assert body["nodes"][1]["state"] == "live"


async def test_a_redirect_is_not_followed(cast: Cast) -> None:
    await cast.node("a", saying(said("b")))
    there = cast.members.pop().url

    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"{there}/admin/node")

    await cast.node("b", elsewhere)
    body = await get(await cast.client(), "/api/v1/nodes")
    assert [node["state"] for node in body["nodes"]] == ["unreachable"]
    assert len(cast.asked) == 1


async def test_a_node_below_a_prefix_is_asked_there(cast: Cast) -> None:
    there = saying(said("a"))
    await cast.node("a", saying("", 404), {"GET /weather/admin/node": there}, stats=Stats(prefix="/weather"))
    await get(await cast.client(), "/api/v1/nodes")
    [request] = cast.asked
    assert request.path == "/weather/admin/node" and is_inside(request), "nodes tell nobody else"


async def test_a_node_that_hangs_costs_its_limit_only(cast: Cast) -> None:
    await cast.node("a", hang)
    await cast.node("b", saying(said("b")))
    async with cast.survey(0.1) as asking, asyncio.timeout(SOON):
        hung, well = await asking.nodes()
    assert (hung.state, hung.lives, well.state) == ("unreachable", False, "live")
    assert hung.unanswered == "it did not answer within 0.1 s"


GONE = "http://127.0.0.1:1"
"""Nobody listens there."""


async def test_only_a_heartbeat_after_the_failure_shows_that_a_node_lives(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One from before it may be of a process that has died since."""
    monkeypatch.setattr(survey, "_EXACT", 0.0)
    cast.members += [member("a", GONE), member("b", "nowhere", stats=Stats())]
    async with cast.survey(0.1, lambda: {NodeId("a"): 0.0}) as asking:
        node, without = await asking.nodes()
        assert (node.state, node.parked, node.heartbeat_age, node.lives) == ("unreachable", 2, 0.0, False)
        assert node.unanswered == "the connection was refused: nobody listens there"
        assert (without.state, without.parked, without.lives) == ("unreachable", None, False)
        assert without.unanswered == "its lease has no address to which anything is sent"
        cast.members[0] = cast.members[0]._replace(state="draining")
        node, _ = await asking.nodes()
    assert node.lives


async def test_a_stranger_at_the_address_is_told_as_one(cast: Cast) -> None:

    async def absent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(absent, "127.0.0.1", 0) as server:
        cast.members.append(member("a", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        body = await get(await cast.client(), "/api/v1/nodes")
    assert body["nodes"][0]["unanswered"] == (
        "what listens there is not the process that the lease names (asked who it is, it answered HTTP 404)"
    )


async def test_a_node_that_stops_listening_while_it_drains_is_leaving(cast: Cast) -> None:
    """It gives its lease back a moment later: a rolling restart needs nobody. One that hangs does."""
    cast.members.append(member("a", GONE, "draining"))
    await cast.node("b", hang, state="draining")
    overview = await get(await cast.client(0.1), "/api/v1/overview")
    assert overview["nodes"] == {"draining": 1, "unreachable": 1}
    found = {(problem["kind"], problem["node"]) for problem in overview["problems"]}
    assert found == {("node_unreachable", "b")}, "a node that does not answer this router may be live"


async def test_nodes_are_asked_side_by_side_and_not_all_at_once(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_client, "MAX_NODES_AT_ONCE", 2)
    now = most = 0
    full = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 2:
            full.set()
        # Fails by its time-out unless a second one is asked meanwhile.
        await full.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        now -= 1
        return await saying(said("a"))(request)

    for _ in range(5):
        await cast.node("a", slow)
    cast.members = [member(f"n{number}", found.url) for number, found in enumerate(cast.members)]
    async with cast.survey(SOON) as asking:
        assert len(await asking.nodes()) == 5
    assert (len(cast.asked), most) == (5, 2)


async def test_a_lease_of_other_keys_does_not_silence_the_node_at_its_address(cast: Cast) -> None:
    """Nothing is sent to the address in such a lease: anybody who can write to the store can write one."""
    await cast.node("b", saying(said("b")))
    cast.members.insert(0, cast.members[0]._replace(node=NodeId("a"), address=None, state="other keys"))
    body = await get(await cast.client(), "/api/v1/nodes")
    assert [node["state"] for node in body["nodes"]] == ["other keys", "live"]


async def test_many_readers_share_one_survey(cast: Cast) -> None:
    """A crowd before the page is no crowd before the nodes, and who leaves takes the answer from nobody."""
    go = asyncio.Event()

    async def wait(request: web.Request) -> web.StreamResponse:
        await go.wait()
        return await saying(said("a"))(request)

    await cast.node("a", wait)
    async with cast.survey(SOON) as asking:
        readers = [asyncio.create_task(asking.nodes()) for _ in range(10)]
        while not cast.asked:
            await asyncio.sleep(0)
        readers[0].cancel()
        go.set()
        answers = await asyncio.gather(*readers[1:])
    assert all(answer[0].parked == 12 for answer in answers)
    assert len(cast.asked) == 1


async def test_a_survey_is_repeated_when_it_is_stale(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second later the nodes are asked again; at once where a node has come, is another process, or drains."""
    await cast.node("a", saying(said("a")))
    async with cast.survey(SOON) as asking:
        for _ in range(2):
            assert [node.node_id for node in await asking.nodes()] == ["a"]
        assert len(cast.asked) == 1
        await cast.node("b", saying(said("b")))
        assert [node.node_id for node in await asking.nodes()] == ["a", "b"]
        first, second = cast.members
        for other in (second._replace(boot=Boot("another")), second._replace(state="draining")):
            before, cast.members = len(cast.asked), [first, other]
            await asking.nodes()
            assert len(cast.asked) == before + 2
        monkeypatch.setattr(shared_look, "FRESH", 0.0)
        asking._shared._until = 0.0
        await asking.nodes()
        await asking.nodes()
    assert len(cast.asked) == before + 6


async def test_the_ring(cast: Cast) -> None:
    empty = {"nodes": [], "points": 0, "arcs": [], "moved": 0.0, "moved_together": 0.0, "changed": None}
    assert await get(await cast.client(), "/api/v1/ring") == empty
    cast.members = [member("b", "http://b:1"), member("a", "http://a:1"), member("c", "http://c:1", "draining")]
    body = await get(await cast.client(), "/api/v1/ring")
    assert [(node["node_id"], node["ideal_share"]) for node in body["nodes"]] == [("a", 0.5), ("b", 0.5), ("c", 0.0)]
    assert body["nodes"][2] == {"node_id": "c", "state": "draining", "ideal_share": 0.0, "share": 0.0, "points": 0}
    shares = cast.fleet.ring.shares()
    assert {node["node_id"]: node["share"] for node in body["nodes"][:2]} == shares
    assert body["points"] == sum(node["points"] for node in body["nodes"]) == 320


async def test_errors_are_json_in_the_api_and_a_sentence_elsewhere(cast: Cast) -> None:
    client = await cast.client()
    for path in ("/api/v1/none", "/api/v1/", "/api/v2/nodes", "/api/v1/nodes/a/b"):
        assert await get(client, path, 404) == {"error": f"GET {path} is not served here"}
    assert await get(client, "/none", 404) == "GET /none is not served here\n"
    async with client.post("/api/v1/nodes") as response:
        assert (response.status, response.content_type) == (405, "application/json")
        assert "GET" in response.headers["Allow"]


async def test_a_bug_in_a_page_says_nothing_of_itself(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    """The log has it, and of a call's id no more than its first letters."""
    cast.store.run = None  # type: ignore[assignment]  # so that it raises
    body = await get(await cast.client(), f"/api/v1/leases/{'0123abcd' * 4}", 500)
    assert body == {"error": "a bug in this page; the router's log has more"}
    assert "a bug in /api/v1/leases/{call_id}" in caplog.text and "0123abcd" * 2 not in caplog.text


async def test_the_pages_are_served_on_a_socket(cast: Cast, tmp_path: Path) -> None:
    path = tmp_path / "pages.sock"
    for _ in range(2):
        async with serve_pages(guarded(await cast.sources()), str(path), LIMITS):
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as http,
                http.get("http://localhost/healthz") as response,
            ):
                assert (response.status, await response.text()) == (200, "ok\n")
            assert stat.S_ISSOCK(os.stat(path).st_mode)
            os.link(path, tmp_path / "left")
        assert not path.exists()
        os.rename(tmp_path / "left", path)


async def test_closing_does_not_wait_for_a_node(cast: Cast) -> None:
    await cast.node("a", hang)
    async with cast.survey(3600.0) as asking:
        reader = asyncio.create_task(asking.nodes())
        while not cast.asked:
            await asyncio.sleep(0)
    async with asyncio.timeout(SOON):
        await asyncio.wait((reader,))
    assert reader.cancelled()


LIMITS = RouterSettings(max_headers=400).limits
LOOKUP = json.dumps({"token": "t"}).encode()


@pytest.fixture
async def http(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the pages as a front serves them. Nobody's request is a fault of the router's: none is logged."""
    path = str(tmp_path / "pages.sock")
    async with cast_of() as cast:
        app = guarded(await cast.sources())
        connector = aiohttp.UnixConnector(path)
        async with (
            serve_pages(app, path, LIMITS),
            aiohttp.ClientSession("http://localhost", connector=connector) as made,
        ):
            yield made
    assert not caplog.get_records("call")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
async def test_a_packed_body_is_not_unpacked(http: aiohttp.ClientSession, coding: str) -> None:
    """Two megabytes of it are gigabytes, which held the loop for seconds, whoever sent them."""
    for body in (gzip.compress(LOOKUP), b"no such thing"):
        headers = {"Content-Encoding": coding, "Content-Type": "application/json"}
        async with http.post("/api/v1/lookup", data=body, headers=headers) as response:
            assert (response.status, "the body is wrong" in await response.text()) == (400, True)


async def test_long_heads_are_read_as_the_front_reads_them(http: aiohttp.ClientSession) -> None:
    """One that was refused here was logged with how it began: a client's cookie or token."""
    target = "/api/v1/ring?" + "x" * (MAX_LINE - 13)
    async with http.get(target) as response:
        assert (response.status, "is wrong" in await response.text()) == (400, True)
    async with http.get("/api/v1/ring", headers={"Cookie": "s" * (LIMITS.max_head - 300)}) as response:
        assert response.status == 200
    many = {f"x-{number}": "1" for number in range(LIMITS.max_headers - 4)}
    async with http.get("/api/v1/ring", headers=many) as response:
        assert response.status == 200


async def test_nodes_long_answers_are_read_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two of them the loop turns: what all nodes remember would hold every request for a tenth of a second."""
    turns, read_in = 0, list[int]()

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    class Noted(LeasesView):
        @classmethod
        def model_validate_json(cls, *given: Any, **more: Any) -> Any:
            read_in.append(turns)
            return super().model_validate_json(*given, **more)

    async def at_once(*_: Any, **more: Any) -> tuple[int, bytes]:
        return 200, b'{"items": [], "total": 0}'.ljust(QUICK_BYTES + 1)

    asker, loop = NodeClient(TRUST), asyncio.get_running_loop()
    monkeypatch.setattr(asker, "_exchange", at_once)
    loop.call_soon(turn)
    nodes = [member(f"n{number}", f"http://127.0.0.1:{number}") for number in range(1, 21)]
    await asyncio.gather(*(asker.ask(node, "/admin/leases", Noted) for node in nodes))
    await asker.close()
    assert len(set(read_in)) == len(read_in) == 20

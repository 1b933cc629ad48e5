"""A node's `/admin` paths: who may ask, how, and what is said to whoever asks wrongly."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import framehold
from framehold.admin import lease_list
from framehold.config import Settings
from framehold_core.ids import CallId
from framehold_fleet.guard import guesses
from framehold_fleet.models.calls import LeasesView
from tests.kit.nodes import KEY, node, served
from tests.kit.operators import SHOWN, TOKEN, Operator, call_of, marked, noted, pair, unmarked
from tests.kit.processes import until
from tests.kit.proofs import INSIDE, sent_as
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Served, serving

pytestmark = pytest.mark.anyio

READS = ("leases", "tools", "profile")
ACTIONS = ("drain", "undrain", "kill", "cancel", "evict", "pause", "resume")
PATHS = [("GET", path) for path in (*READS, "node")] + [("POST", path) for path in ACTIONS]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers to wrong tokens wait for a moment only: `router/test_guard.py` is about that."""
    monkeypatch.setattr(guesses, "MAX_DELAY", 0.0)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The node lives longer than a test, so its loop does."""
    return "asyncio"


@pytest.fixture(scope="module")
async def at() -> AsyncIterator[Served]:
    async with serving(marked, unmarked, admin_token=TOKEN, keys=(KEY,)) as it:
        yield it


@pytest.fixture(scope="module")
async def operator(at: Served) -> AsyncIterator[Operator]:
    async with Operator(at.url) as it:
        yield it


NOT_ALLOWED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "another token": {"authorization": "Bearer another-admin-token!"},
    "a part of the token": {"authorization": f"Bearer {TOKEN[:-1]}"},
    "a token that is not ASCII": {"authorization": b"Bearer t\xf6ken"},
    "no token": {"authorization": "Bearer"},
    "what a browser adds by itself": {"authorization": "Basic Ong="},
    "a wrong proof": {"framehold-proof": f"v1.admin.{time.time():.0f}." + "0" * 64},
    "what a router passes on for a client": sent_as("router"),
    "what a load balancer passes on for a client": sent_as("client"),
    "what a node passes on for a client": sent_as("node"),
}


@pytest.mark.parametrize("shown", NOT_ALLOWED.values(), ids=NOT_ALLOWED)
async def test_whoever_may_not_is_told_and_does_nothing(at: Served, operator: Operator, shown: dict[str, Any]) -> None:
    held = await at.call("marked")
    for method, path in PATHS:
        answer = await operator.ask(method, path, shown, json={"call_id": call_of(held.token)})
        assert answer.status == 403 and list(answer.json) == ["error"], path
        assert TOKEN not in answer.text and "nothing was returned or done" in answer.text
    assert not at.runtime.draining.begun
    assert (await at.retry("marked", held.token, held.accept(word="x"))).messages == [" two?"]
    assert at.runtime.counts["rebuilt"] == 0


@pytest.mark.parametrize("shown", [SHOWN, {"authorization": f"bearer  {TOKEN}"}, INSIDE])
async def test_the_token_and_the_fleet_itself_are_let_in(operator: Operator, shown: dict[str, str]) -> None:
    for path in READS:
        assert (await operator.ask("GET", path, shown)).status == 200
    unknown = {"call_id": "x" * 22}
    for path in ("cancel", "evict"):
        answer = await operator.ask("POST", path, shown, json=unknown)
        assert answer.status == 404 and "call xxxxxxxx has no frame on this node; nothing was done" in answer.text


@pytest.mark.parametrize("settings", [{}, {"keys": (KEY,)}, {"admin_token": ""}])
async def test_where_no_token_is_set_nobody_outside_is_let_in(settings: dict[str, Any]) -> None:
    async with serving(marked, **settings) as at, Operator(at.url) as operator:
        for shown in (SHOWN, {"authorization": "Bearer"}, {}):
            answer = await operator.ask("GET", "leases", shown)
            assert answer.status == 403 and "FRAMEHOLD_ADMIN_TOKEN is not set" in answer.text


async def test_a_node_is_not_killed_unless_its_own_setting_says_so(operator: Operator) -> None:
    answer = await operator.ask("POST", "kill")
    assert answer.status == 409 and "FRAMEHOLD_PLAYGROUND is not `kill`; nothing was done" in answer.text
    assert (await operator.ask("GET", "leases")).status == 200


async def test_a_node_of_a_playground_is_killed_as_by_sigkill(tmp_path: Path) -> None:
    """The reply comes first; then the process is gone, without a drain."""
    async with node("framehold.examples.booking", tmp_path, playground="kill", admin_token=TOKEN) as child:
        async with Operator(child.url) as operator:
            answer = await operator.ask("POST", "kill")
        assert answer.status == 202 and "is killed now" in answer.text
        assert await child.ends() == -signal.SIGKILL


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_each_path_takes_one_method(operator: Operator, method: str) -> None:
    for right, path in PATHS:
        if method != right and path != "node":
            answer = await operator.ask(method, path)
            assert (answer.status, answer.headers["allow"]) == (405, right)
            assert answer.text == f"/admin/{path} takes {right} only; nothing was done"


DEEP = b"[" * 2000
WRONG_BODIES = {
    b"": "not JSON",
    b"\xff": "not JSON",
    DEEP: "not JSON",
    b"{": "not JSON",
    b"[]": "field the body is wrong",
    b"{}": "field call_id is wrong",
    b'{"call_id": 5}': "field call_id is wrong",
    b'{"call_id": null}': "field call_id is wrong",
    b'{"call_id": "short"}': "call_id is wrong: a call's id has 22 to 36",
    b'{"call_id": "%s"}' % (b"x" * 65): "field call_id is wrong",
    b'{"call_id": "../../../../etc/passwd"}': "call_id is wrong: a call's id has 22 to 36",
    b'{"call_id": "\\ud800xxxxxxxxxxxxxxxxxxxxxxx"}': "call_id is wrong",
    b'{"call_id": "xxxxxxxxxxxxxxxxxxxxxx", "force": true}': "field force is wrong",
    b'{"call_id": "xxxxxxxxxxxxxxxxxxxxxx", "\\ud800": 1}': "field the body is wrong",
    b" " * 5000: "longer than 4096 bytes",
}


@pytest.mark.parametrize("body", WRONG_BODIES)
async def test_a_wrong_body_is_refused_by_the_name_of_its_field(operator: Operator, body: bytes) -> None:
    for path in ("cancel", "evict"):
        answer = await operator.ask("POST", path, content=body)
        assert answer.status == 400 and WRONG_BODIES[body] in answer.text and "nothing was" in answer.text


WRONG_QUERIES = ["state=asleep", "limit=0", "limit=1001", "limit=x", "expiring=0", "expiring=nan", "expiring=inf",
                 "replayed=perhaps", "sort=tool", "descending=2", "after=%00", "after=WzEsMl0", "tool=" + "x" * 201,
                 "node=" + "x" * 64, "call=" + "x" * 65, "wanted=1", "%ED%A0%80=1"]  # fmt: skip


@pytest.mark.parametrize("query", WRONG_QUERIES)
async def test_a_wrong_query_is_refused_by_the_name_of_its_parameter(operator: Operator, query: str) -> None:
    answer = await operator.ask("GET", f"leases?{query}")
    assert answer.status == 400
    name = query.partition("=")[0]
    assert (name if name.isascii() and "%" not in name else "parameter") in answer.text
    assert "x" * 65 not in answer.text


async def test_calls_are_listed_for_one_at_a_time(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A portion of each pass in the same turn of the loop: thirty of them would hold it for a fifth of a second."""
    under_way, most, went_on = 0, 0, asyncio.Event()

    async def listed(*_: Any) -> LeasesView:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await went_on.wait()
        under_way -= 1
        return LeasesView(items=[], total=0)

    monkeypatch.setattr(lease_list, "leases", listed)
    asked = [asyncio.create_task(operator.leases(limit=number)) for number in range(1, 6)]
    while not under_way:
        await asyncio.sleep(0.005)
    assert (await operator.ask("GET", "node")).status == 200, "others go on"
    went_on.set()
    await asyncio.gather(*asked)
    assert most == 1


async def test_an_authors_own_route_is_the_authors() -> None:
    """Whatever an app serves itself is not covered by a page of ours."""
    server: MCPServer[Any] = MCPServer("own")

    @server.custom_route("/admin/profile", methods=["GET"])  # type: ignore[untyped-decorator]  # the SDK's has no type
    async def own(request: Request) -> Response:
        return PlainTextResponse("the author's")

    app = framehold.asgi(server, Settings(node_id="own", admin_token=TOKEN))
    async with served(app) as url, Operator(url) as operator:
        response = await operator._http.get(f"{operator.root}/admin/profile")
        assert response.text == "the author's"
        assert (await operator.ask("GET", "leases")).status == 200


async def test_a_node_that_is_told_to_drain_does_so_and_goes_on() -> None:
    """Its process is ended by whoever runs it, who waits for this very drain."""
    async with serving(unmarked, admin_token=TOKEN, drain_timeout=20.0) as at, Operator(at.url) as operator:
        held, happened = await at.call("unmarked"), noted(at.runtime)
        answer = await operator.ask("POST", "drain")
        assert answer.status == 202 and "keeps the rest for 20 s" in answer.text
        again = await operator.ask("POST", "drain")
        assert again.status == 202 and "drains already" in again.text
        assert (await operator.ask("GET", "node")).json["state"] == "draining"
        assert (await at.call("unmarked")).status == 503
        ended = asyncio.create_task(at.runtime.drain(20.0))
        assert (await at.retry("unmarked", held.token, held.accept(word="x"))).text == " x"
        async with asyncio.timeout(5):
            await ended
        ordered, *result = [text for kind, text, *_ in happened.events if kind == "drain"]
        assert ordered.startswith("an operator (admin token ") and TOKEN not in ordered
        assert result == [
            "node drains: 0 calls handed off; 1 parked calls and 0 rounds that run have 20 s",
            "node drained: 0 calls handed off",
        ]
        assert at.runtime.counts["deadline"] == 0


async def test_a_drain_is_taken_back_while_its_process_goes_on() -> None:
    """The node takes calls again, also after a drain that is over. Once the process leaves nothing is taken back."""
    async with serving(unmarked, admin_token=TOKEN, drain_timeout=20.0) as at, Operator(at.url) as operator:
        refused = await operator.ask("POST", "undrain")
        assert refused.status == 409 and "it does not drain; nothing was done" in refused.text
        held, happened = await at.call("unmarked"), noted(at.runtime)
        for ends_first in (False, True):
            await operator.ask("POST", "drain")
            await until(lambda: at.runtime.draining.on, "the drain to begin")
            assert (await at.call("unmarked")).status == 503
            if ends_first:
                assert (await at.retry("unmarked", held.token, held.accept(word="x"))).text == " x"
                await until(lambda: at.runtime.draining.over, "the end of the drain")
            done = await operator.ask("POST", "undrain")
            assert done.status == 200 and "takes calls again" in done.text
            state = (await operator.ask("GET", "node")).json
            assert (state["state"], state["handed_off"]) == ("live", None)
            taken = await at.call("unmarked")
            assert (await at.retry("unmarked", taken.token, taken.accept(word="y"))).text == " y"
        result = [text.split(":")[0] for kind, text, *_ in happened.events if kind in ("drain", "undrained")]
        ordered = [text for text in result if text.startswith("an operator (admin token ")]
        assert [text.partition(") ")[2] for text in ordered] == [
            "ordered this node to drain",
            "ordered this node to take calls again",
        ] * 2
        assert [text for text in result if text not in ordered] == [
            "node drains",
            "the drain was taken back",
            "node drains",
            "node drained",
            "the drain was taken back",
        ]
        undone = [text for kind, text, *_ in happened.events if kind == "undrained"]
        assert len(undone) == 4 and all("taken back" in text or "to take calls again" in text for text in undone)
        leaving = asyncio.create_task(at.runtime.drain(0.2))
        await until(lambda: at.runtime.draining.leaving, "the process to leave")
        refused = await operator.ask("POST", "undrain")
        assert refused.status == 409 and "its process leaves the fleet" in refused.text
        await leaving


async def test_what_a_node_handed_off_before_its_drain_was_taken_back_goes_on(
    redis: RedisServer, tmp_path: Path
) -> None:
    """Wherever its retry arrives: here, too. The router's view of the node is that of its lease."""
    async with pair(redis, tmp_path.name, marked) as (a, b):
        held = [await a.caller.call("marked") for _ in range(2)]
        await a.operator.ask("POST", "drain")
        await until(lambda: a.runtime.draining.released == 2, "the calls to be handed off")
        assert (await a.operator.ask("POST", "undrain")).status == 200
        for node, reply in zip((a, b), held, strict=True):
            second = await node.caller.retry("marked", reply.token, reply.accept(word="x"))
            assert second.messages == [" two?"]
            assert node.runtime.table.get(CallId(call_of(reply.token))) is not None
        assert a.runtime.heartbeat.state == "live"

"""Drain, cancel and evict through a router: who is asked, and what comes of each answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.requests import Commit
from framehold_router.collect import node_client
from tests.router.cast import Answer, Cast, Client, cast_of, get, is_inside, member, said, saying
from tests.store.calls import E0, HEAD, batch, fence

pytestmark = pytest.mark.anyio

TOKEN = "correct-horse-battery-staple"
CALL = CallId("0123456789abcdef0123456789abcdef")
NOT_HERE = saying({"error": "not here"}, 404)
CANCEL = f"/api/v1/leases/{CALL}/cancel"


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as made:
        made.token = TOKEN
        yield made


async def post(client: Client, path: str) -> tuple[int, Any]:
    async with client.post(path, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
        return response.status, await response.json()


async def node(cast: Cast, name: str, answer: Answer, action: str = "cancel", **other: Any) -> None:
    await cast.node(name, saying(said(name)), {f"POST /admin/{action}": answer}, **other)


async def recorded(cast: Cast, owner: str) -> None:
    await cast.store.run(Commit(CALL, fence(0, 0, owner=owner), batch((), E0), 600.0, None, HEAD))


def ports(cast: Cast) -> list[int | None]:
    return [request.url.port for request in cast.asked]


async def cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def test_the_owner_is_asked_and_nobody_else(cast: Cast) -> None:
    """In the router's own name, with the call's id; what it says is passed on."""
    result: list[Any] = []

    async def done(request: web.Request) -> web.StreamResponse:
        result.append((await request.json(), is_inside(request), request.headers.get("Authorization")))
        return await saying({"done": "it is cancelled"})(request)

    await node(cast, "a", NOT_HERE)
    await node(cast, "b", done)
    await recorded(cast, "b")
    assert await post(await cast.client(), CANCEL) == (200, {"done": "it is cancelled"})
    assert result == [({"call_id": CALL}, True, None)]
    assert len(cast.asked) == 1


async def test_where_the_owner_does_not_know_it_all_are_asked(cast: Cast) -> None:
    """The record may be older than the frame's last move; each node is asked once."""
    await node(cast, "a", NOT_HERE)
    await node(cast, "b", NOT_HERE)
    await node(cast, "c", saying({"done": "here it was"}))
    await recorded(cast, "b")
    assert await post(await cast.client(), CANCEL) == (200, {"done": "here it was"})
    assert len(cast.asked) == len(set(ports(cast))) == 3


async def test_a_call_without_a_record_is_looked_for_everywhere(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be in its first round; and so may any where the store is down."""
    await node(cast, "a", saying({"done": "here it was"}))
    await node(cast, "b", NOT_HERE)
    client = await cast.client()
    assert await post(client, CANCEL) == (200, {"done": "here it was"})

    async def down(_: object) -> object:
        raise StoreUnavailable("down")

    monkeypatch.setattr(cast.store, "run", down)
    assert await post(client, CANCEL) == (200, {"done": "here it was"})
    assert len(cast.asked) == 4


async def test_nobody_holds_it(cast: Cast) -> None:
    await node(cast, "a", NOT_HERE)
    status, body = await post(await cast.client(), CANCEL)
    assert (status, "no node holds this call" in body["error"]) == (404, True)


async def test_a_write_under_way_is_passed_on(cast: Cast) -> None:
    """In the node's own words."""
    await node(cast, "a", saying({"error": "a write is under way: nothing was done; try again"}, 409))
    await node(cast, "b", NOT_HERE)
    await recorded(cast, "a")
    status, body = await post(await cast.client(), CANCEL)
    assert (status, body["error"]) == (409, "a write is under way: nothing was done; try again")
    assert len(cast.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [cut, saying("<html>"), saying({"done": "x" * 100_000, "more": "y" * 100_000}), saying("", 500)],
    ids=["a cut connection", "no JSON", "a novel", "an empty error"],
)
async def test_of_what_was_not_answered_nobody_knows(cast: Cast, answer: Answer) -> None:
    """It is sent once, to one node, and the refusal says that it may have been done."""
    await node(cast, "a", answer)
    await node(cast, "b", saying({"done": "never asked"}))
    await recorded(cast, "a")
    status, body = await post(await cast.client(), CANCEL)
    assert (status, "nobody knows whether" in body["error"], "a (" in body["error"]) == (502, True, True)
    assert len(cast.asked) == 1


async def test_a_node_that_hangs_is_given_up(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that an action may take."""
    monkeypatch.setattr(node_client, "ACTION_TIMEOUT", 0.1)

    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    await node(cast, "a", hang)
    await recorded(cast, "a")
    status, body = await post(await cast.client(), CANCEL)
    assert (status, "nobody knows" in body["error"]) == (502, True)


async def test_what_never_left_was_not_done(cast: Cast) -> None:
    """Nobody listens there: that is known."""
    cast.members.append(member("a", "http://127.0.0.1:1"))
    await recorded(cast, "a")
    status, body = await post(await cast.client(), CANCEL)
    assert (status, "was not done" in body["error"], "nobody knows" in body["error"]) == (502, True, False)


async def test_a_refusal_of_the_node_is_told(cast: Cast) -> None:
    """Its keys are others, say: it did nothing."""
    await node(cast, "a", saying({"error": "the statement is missing"}, 403))
    await recorded(cast, "a")
    status, body = await post(await cast.client(), CANCEL)
    assert (status, "a refused (403)" in body["error"], "the statement is missing" in body["error"]) == (
        502, True, True
    )  # fmt: skip


async def test_an_action_follows_no_redirect(cast: Cast) -> None:
    """The secret would go along."""

    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(f"{cast.members[1].url}/admin/cancel")

    await node(cast, "a", elsewhere)
    await node(cast, "b", saying({"done": "lured"}))
    await recorded(cast, "a")
    status, _ = await post(await cast.client(), CANCEL)
    assert (status, len(cast.asked)) == (502, 1)


async def test_drain(cast: Cast) -> None:
    """The named node gets the order, and no other; for an unknown name there is a 404."""
    for name in ("a", "b"):
        await node(cast, name, saying({"done": f"{name} drains"}, 202), "drain")
    client = await cast.client()
    assert await post(client, "/api/v1/nodes/b/drain") == (202, {"done": "b drains"})
    assert len(cast.asked) == 1
    status, body = await post(client, "/api/v1/nodes/c/drain")
    assert (status, "nothing was done" in body["error"]) == (404, True)
    assert (await post(client, "/api/v1/nodes/%00%22%0A..%2F/drain"))[0] == 404


async def test_a_drain_is_taken_back(cast: Cast) -> None:
    await node(cast, "a", saying({"done": "never asked"}), "undrain")
    await node(cast, "b", saying({"error": "it does not drain; nothing was done"}, 409), "undrain")
    client = await cast.client()
    assert await post(client, "/api/v1/nodes/b/undrain") == (409, {"error": "it does not drain; nothing was done"})
    assert len(cast.asked) == 1


async def test_a_node_is_killed_only_where_the_playground_may(cast: Cast) -> None:
    """The named node gets the order. Another router's setting is no reason to send it."""
    await node(cast, "a", saying({"done": "it is killed"}, 202), "kill")
    status, body = await post(await cast.client(), "/api/v1/nodes/a/kill")
    assert (status, "nothing was done" in body["error"], len(cast.asked)) == (409, True, 0)
    cast.more["playground"] = "call"
    assert (await post(await cast.client(), "/api/v1/nodes/a/kill"))[0] == 409
    cast.more["playground"] = "kill"
    client = await cast.client()
    assert await post(client, "/api/v1/nodes/a/kill") == (202, {"done": "it is killed"})
    assert await get(client, "/api/v1/access") == {
        "token_set": True,
        "token_right": False,
        "may_read": False,
        "credential": "",
        "playground": "off",
    }


async def on_tool(client: Client, what: str, **body: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with client.post(f"/api/v1/tools/{what}", headers=headers, json=body) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("what", ["pause", "resume"])
async def test_one_node_changes_a_tool_for_all(cast: Cast, what: str) -> None:
    """One that can't be reached is passed over. The store has it for the others."""
    result: list[Any] = []

    async def done(request: web.Request) -> web.StreamResponse:
        result.append(await request.json())
        return await saying({"done": f"{what}d"})(request)

    client = await cast.client()
    status, body = await on_tool(client, what, tool="book")
    assert (status, "no node is live" in body["error"]) == (502, True)
    cast.members.append(member("a", "http://127.0.0.1:1"))
    await node(cast, "b", done, what)
    await node(cast, "c", done, what)
    assert await on_tool(client, what, tool="a/b") == (200, {"done": f"{what}d"})
    assert len(result) == 1 and result[0]["tool"] == "a/b"
    for wrong in ({}, {"tool": ""}, {"tool": "x" * 201}, {"tool": "book", "until": "noon"}):
        assert (await on_tool(client, what, **wrong))[0] == 400
    assert len(result) == 1


@pytest.mark.parametrize(("status", "text"), [(404, "there is no tool typo"), (503, "the store did not answer")])
async def test_what_a_node_says_of_a_tool_is_passed_on(cast: Cast, status: int, text: str) -> None:
    await node(cast, "a", saying({"error": text}, status), "pause")
    found, body = await on_tool(await cast.client(), "pause", tool="typo")
    assert (found, text in body["error"]) == (404 if status == 404 else 502, True)


async def test_what_is_no_call_id_is_not_looked_for(cast: Cast) -> None:
    """Neither in the store nor at nodes."""
    await node(cast, "a", saying({"done": "never asked"}))
    client = await cast.client()
    for call in ("x", "a" * 40, "h1.abc", "0123456789abcdef0123456789abcde%0A"):
        for path in (f"/api/v1/leases/{call}/cancel", f"/api/v1/leases/{call}/evict"):
            status, body = await post(client, path)
            assert (status, "leases?call=" in body["error"]) == (404, True)
    assert cast.asked == [] and not cast.store.request_counts

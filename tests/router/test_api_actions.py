"""Drain, cancel and evict through a router: who is asked, and what comes of each answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.requests import Commit
from framehold_router.collect import node_client
from tests.router.cast import Answer, Cast, Client, cast_of, cut, hang, is_inside, member, said, saying
from tests.store.calls import E0, HEAD, batch, fence

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


@pytest.fixture
async def recorded(cast: Cast) -> None:
    """The call's record names a as its owner."""
    await cast.store.run(Commit(CALL, fence(0, 0, owner="a"), batch((), E0), 600.0, None, HEAD))


async def elsewhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPTemporaryRedirect("/admin/drain")


UNKNOWN = "nobody knows whether"
OWNER_SAYS: dict[str, tuple[Answer, int, str]] = {
    "done": (saying({"done": "it is cancelled"}), 200, "it is cancelled"),
    "a write is under way": (saying({"error": "a write is under way: try again"}, 409), 409, "a write is under way"),
    "a refusal": (
        saying({"error": "the statement is missing"}, 403),
        502,
        "a refused (403) and did no cancel: the statement is missing",
    ),
    "a cut connection": (cut, 502, UNKNOWN),
    "no JSON": (saying("<html>"), 502, UNKNOWN),
    "a novel": (saying({"done": "x" * 100_000, "more": "y" * 100_000}), 502, UNKNOWN),
    "an empty error": (saying("", 500), 502, UNKNOWN),
    "nothing": (hang, 502, UNKNOWN),
    "a redirect": (elsewhere, 502, ""),
}


@pytest.mark.parametrize(("answer", "status", "says"), OWNER_SAYS.values(), ids=OWNER_SAYS)
async def test_what_the_owner_says_is_passed_on(
    cast: Cast, recorded: None, monkeypatch: pytest.MonkeyPatch, answer: Answer, status: int, says: str
) -> None:
    monkeypatch.setattr(node_client, "ACTION_TIMEOUT", 0.5)
    await node(cast, "a", answer)
    await node(cast, "b", saying({"done": "never asked"}))
    found, body = await post(await cast.client(), CANCEL)
    assert (found, says in str(body)) == (status, True), body
    assert len(cast.asked) == 1


async def test_what_never_left_was_not_done(cast: Cast, recorded: None) -> None:
    cast.members.append(member("a", "http://127.0.0.1:1"))
    status, body = await post(await cast.client(), CANCEL)
    assert (status, "was not done" in body["error"], "nobody knows" in body["error"]) == (502, True, False)


async def test_a_node_is_asked_in_the_routers_own_name(cast: Cast, recorded: None) -> None:
    """With the call's id, and without the credentials of who asked."""
    result: list[Any] = []

    async def done(request: web.Request) -> web.StreamResponse:
        result.append((await request.json(), is_inside(request), request.headers.get("Authorization")))
        return await saying({"done": "it is cancelled"})(request)

    await node(cast, "a", done)
    assert (await post(await cast.client(), CANCEL))[0] == 200
    assert result == [({"call_id": CALL}, True, None)]


@pytest.mark.parametrize("record", ["of a former owner", "none", "not to be read"])
async def test_where_the_owner_is_not_known_all_are_asked(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    """The record may be older than the frame's last move, or the call in its first round. Each node is asked once."""

    async def down(_: object) -> object:
        raise StoreUnavailable("down")

    if record == "of a former owner":
        await cast.store.run(Commit(CALL, fence(0, 0, owner="b"), batch((), E0), 600.0, None, HEAD))
    elif record == "not to be read":
        monkeypatch.setattr(cast.store, "run", down)
    for name in "ab":
        await node(cast, name, NOT_HERE)
    client = await cast.client()
    status, body = await post(client, CANCEL)
    assert (status, "no node holds this call" in body["error"]) == (404, True)
    assert len(cast.asked) == len({request.url.port for request in cast.asked}) == 2
    await node(cast, "c", saying({"done": "here it was"}))
    assert await post(client, CANCEL) == (200, {"done": "here it was"})


async def test_an_owner_whose_lease_is_read_meanwhile_is_asked_once(cast: Cast, recorded: None) -> None:
    async def not_here(request: web.Request) -> web.StreamResponse:
        cast.members[:] = [one._replace(beat=one.beat + 1) for one in cast.members]
        return await NOT_HERE(request)

    for name in "ab":
        await node(cast, name, not_here)
    assert (await post(await cast.client(), CANCEL))[0] == 404
    assert len(cast.asked) == len({request.url.port for request in cast.asked}) == 2


@pytest.mark.parametrize(
    ("action", "status", "says"),
    [
        ("drain", 202, {"done": "b drains"}),
        ("undrain", 409, {"error": "it does not drain; nothing was done"}),
    ],
)
async def test_the_named_node_gets_the_order(cast: Cast, action: str, status: int, says: Any) -> None:
    for name in ("a", "b"):
        await node(cast, name, saying(says, status), action)
    client = await cast.client()
    assert await post(client, f"/api/v1/nodes/b/{action}") == (status, says)
    assert [request.url.port for request in cast.asked] == [URL(cast.members[1].url).port]
    for name in ("c", "%00%22%0A..%2F"):
        found, body = await post(client, f"/api/v1/nodes/{name}/{action}")
        assert (found, "nothing was done" in body["error"]) == (404, True)
    assert len(cast.asked) == 1


@pytest.mark.parametrize(("playground", "status"), [("", 409), ("call", 409), ("kill", 202)])
async def test_a_node_is_killed_only_where_the_playground_may(cast: Cast, playground: str, status: int) -> None:
    await node(cast, "a", saying({"done": "it is killed"}, 202), "kill")
    if playground:
        cast.more["playground"] = playground
    found, body = await post(await cast.client(), "/api/v1/nodes/a/kill")
    assert (found, "nothing was done" in body.get("error", "")) == (status, status == 409)
    assert len(cast.asked) == (status == 202)


async def on_tool(client: Client, what: str, **body: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with client.post(f"/api/v1/tools/{what}", headers=headers, json=body) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("what", ["pause", "resume"])
async def test_one_node_changes_a_tool_for_all(cast: Cast, what: str) -> None:
    """One that can't be reached is passed over. The store has it for the others. What the node says is passed on."""
    result: list[Any] = []
    missing = saying({"error": "there is no tool typo"}, 404)
    says = [saying({"done": f"{what}d"}), missing, missing, saying({"error": "the store did not answer"}, 503)]

    async def done(request: web.Request) -> web.StreamResponse:
        result.append((await request.json())["tool"])
        return await says[len(result) - 1](request)

    client = await cast.client()
    status, body = await on_tool(client, what, tool="book")
    assert (status, "no node is live" in body["error"]) == (502, True)
    cast.members.append(member("a", "http://127.0.0.1:1"))
    await node(cast, "b", done, what)
    await node(cast, "c", done, what)
    for wrong in ({}, {"tool": ""}, {"tool": "x" * 201}, {"tool": "book", "until": "noon"}):
        assert (await on_tool(client, what, **wrong))[0] == 400
    assert await on_tool(client, what, tool="a/b") == (200, {"done": f"{what}d"})
    del cast.members[0]
    if what == "resume":
        del says[1]
    for answered, text in ((404, "there is no tool typo"), (502, "the store did not answer")):
        status, body = await on_tool(client, what, tool="typo")
        assert (status, text in body["error"]) == (answered, True)
    assert result == ["a/b", *["typo"] * (len(says) - 1)]


@pytest.mark.parametrize("first", [None, cut])
async def test_that_a_tool_is_not_paused_holds_for_the_fleet_whoever_is_silent(
    cast: Cast, first: Answer | None
) -> None:
    """The store says so, whichever node reads it, so no other node is asked."""
    if first is None:
        cast.members.append(member("a", "http://127.0.0.1:1"))
    else:
        await node(cast, "a", first, "resume")
    await node(cast, "b", saying({"error": "tool book is not paused; nothing was done"}, 404), "resume")
    await node(cast, "c", hang, "resume")
    status, body = await on_tool(await cast.client(), "resume", tool="book")
    assert (status, body["error"]) == (404, "tool book is not paused; nothing was done")
    assert len(cast.asked) == (1 if first is None else 2)


@pytest.mark.parametrize(("second", "status", "text"), [
    (saying({"done": "charge is paused"}), 200, "charge is paused"),
    (saying({"error": "there is no tool charge; there are: pay"}, 404), 404, "there are: pay"),
    (saying({"error": "the statement is missing"}, 403), 502, "b refused (403)"),
    (cut, 502, "b (the connection broke"),
    (cut, 502, "a says: there is no tool charge; there are: book"),
])  # fmt: skip
async def test_a_tool_that_one_node_does_not_have_is_changed_by_one_that_has_it(
    cast: Cast, second: Answer, status: int, text: str
) -> None:
    """In a rolling update some nodes have a new tool, and some have not."""
    await node(cast, "a", saying({"error": "there is no tool charge; there are: book"}, 404), "pause")
    await node(cast, "b", second, "pause")
    found, body = await on_tool(await cast.client(), "pause", tool="charge")
    assert (found, text in str(body)) == (status, True), body


async def test_of_a_node_whose_store_is_silent_nobody_says_that_nothing_was_done(cast: Cast) -> None:
    silent = saying({"error": "the store did not answer (timeout): it is not known whether it took the change"}, 503)
    await node(cast, "a", silent, "pause")
    status, body = await on_tool(await cast.client(), "pause", tool="charge")
    assert (status, UNKNOWN in body["error"], "the store did not answer (timeout)" in body["error"]) == (
        502,
        True,
        True,
    )
    assert "did no pause" not in body["error"]


async def test_what_is_no_call_id_is_not_looked_for(cast: Cast) -> None:
    await node(cast, "a", saying({"done": "never asked"}))
    client = await cast.client()
    for call in ("x", "a" * 40, "h1.abc", "0123456789abcdef0123456789abcde%0A"):
        for path in (f"/api/v1/leases/{call}/cancel", f"/api/v1/leases/{call}/evict"):
            status, body = await post(client, path)
            assert (status, "leases?call=" in body["error"]) == (404, True)
    assert cast.asked == [] and not cast.store.request_counts

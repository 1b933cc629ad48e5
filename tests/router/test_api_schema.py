"""What the API answers is what its document says: every route, its good answer and its refusals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from framehold_core import journal
from framehold_core.ids import CallId
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_core.requests import Batch, Commit
from framehold_fleet.models.calls import EndedCallView
from framehold_router.api.access import Need
from framehold_router.api.openapi import document
from framehold_router.api.routes import BASE, ROUTES, Route
from tests.router.cast import NOW, Cast, Client, said, saying
from tests.store.calls import HEAD, fence

TOKEN = "correct-horse-battery-staple"
CALL = CallId("0123456789abcdef0123456789abcdef")
DOCUMENT = document()
LEASE = {"call_id": CALL, "tool": "t", "node_id": "a", "state": "parked", "reentrant": True, "epoch": 1, "round": 1}
ENDED = LEASE | {"outcome": "lost", "rounds": 1, "began": NOW, "ended": NOW, "seconds": 0.0}
PAUSE = {"tool": "u", "at": NOW, "by": "framehold", "why": "it ends its processes"}
STALL = {"at": NOW, "seconds": 2.5, "tool": "t", "where": "app:t:7", "stack": ["app:t:7"]}
EVENT = {"id": "1", "at": NOW, "kind": "stuck", "text": "it is stuck"}
TAKEOVER = {"call": "01234567", "tool": "t", "reason": "died", "from_node": "z", "to_node": "a", "epoch": 2, "asked": 1}


async def on_call(request: web.Request) -> web.StreamResponse:
    held = (await request.json())["call_id"] == CALL
    return await (saying({"done": "done"}) if held else saying({"error": "not here"}, 404))(request)


NODE = {
    "GET /admin/leases": saying({"items": [LEASE], "total": 1, "next": None}),
    "GET /admin/tools": saying({"node_id": "a", "boot": "b", "tools": [{"tool": "t", "parked": 1, "oldest": 1.0}]}),
    "POST /admin/drain": saying({"done": "it drains"}, 202),
    "POST /admin/undrain": saying({"done": "it takes calls again"}),
    "POST /admin/kill": saying({"done": "it is killed"}, 202),
    "POST /admin/pause": saying({"done": "it is paused"}),
    "POST /admin/resume": saying({"done": "it takes calls again"}),
    "POST /admin/cancel": on_call,
    "POST /admin/evict": on_call,
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        cast = Cast(stack)
        cast.token, cast.more["playground"] = TOKEN, "kill"
        more = {"rounds": 3, "tools": ["t"], "rss": 5, "frames": 1, "max_parked": 9}
        await cast.node("a", saying(said("a", paused=[PAUSE], last_stall=STALL, **more)), NODE, boot="boot-1")
        await cast.logs(event=EVENT, takeover=TAKEOVER)
        await cast.ended(EndedCallView.model_validate(ENDED))
        draft = Draft(EntryKind.ASK, "k", 0, EntryLane.MAIN, "", "json", b"secret")
        line = journal.encode(journal.entry(0, draft, b"sealed"))
        batch = Batch((line,), journal.chain(journal.GENESIS, (line,)))
        await cast.store.run(Commit(CALL, fence(0, 0, owner="a"), batch, 600.0, None, HEAD))
        yield await cast.client()


def closed(schema: Any) -> Any:
    """The same schema, which lets nothing through that it doesn't name."""
    if isinstance(schema, dict):
        inner = {name: closed(value) for name, value in schema.items()}
        return {**inner, "unevaluatedProperties": False} if "properties" in schema else inner
    return [closed(value) for value in schema] if isinstance(schema, list) else schema


async def ask(client: Client, route: Route, url: str = "", **more: Any) -> tuple[int, str, str]:
    url = url or (BASE + route.path).format(node_id="a", call_id=CALL)
    if route.body is not None:
        more.setdefault("json", {"token": f"h1.{CALL}.x"} if route.answers == "lookup" else {"tool": "t"})
    headers = {"Authorization": f"Bearer {TOKEN}"} | more.pop("headers", {})
    async with client.request(route.method, url, headers=headers, **more) as response:
        if response.content_type == "text/event-stream":
            text = (await response.content.readuntil(b"\n\n")).decode()
        else:
            text = await response.text()
        return response.status, response.content_type, text


def test_the_document_is_openapi() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1")
    there = {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}
    assert there == {(BASE + route.path, route.method.lower()) for route in ROUTES}
    found = {item["name"]: item["schema"] for item in DOCUMENT["paths"]["/api/v1/leases"]["get"]["parameters"]}
    assert found["limit"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100} and "format" in found


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
async def test_a_good_answer_is_as_the_document_says(client: Client, route: Route) -> None:
    status, kind, text = await ask(client, route)
    response = DOCUMENT["paths"][BASE + route.path][route.method.lower()]["responses"][str(status)]
    assert status == route.status
    schema = response["content"][kind]["schema"]
    if kind == "application/json":
        strict = {"components": closed(DOCUMENT["components"]), **schema}
        Draft202012Validator(strict).validate(json.loads(text))
        assert route.path != "openapi.json" or json.loads(text) == json.loads(json.dumps(DOCUMENT))
    else:
        assert kind == "text/event-stream" and text.startswith("retry: ")


@pytest.mark.parametrize("route", [route for route in ROUTES if route.listed], ids=lambda route: route.path)
async def test_a_list_is_also_a_table(client: Client, route: Route) -> None:
    for url, headers in ((f"{BASE}{route.path}?format=csv", {}), (BASE + route.path, {"Accept": "text/csv"})):
        status, kind, text = await ask(client, route, url, headers=headers)
        assert (status, kind) == (200, "text/csv")
        assert len(text.splitlines()) >= 2, "a row beside the header"
        assert kind in DOCUMENT["paths"][BASE + route.path]["get"]["responses"]["200"]["content"]


@pytest.mark.parametrize("route", [route for route in ROUTES if route.view is not None], ids=lambda route: route.path)
async def test_a_refusal_is_as_the_document_says(client: Client, route: Route) -> None:
    url = (BASE + route.path).format(node_id="a", call_id=CALL)
    responses = DOCUMENT["paths"][BASE + route.path][route.method.lower()]["responses"]
    cases: list[tuple[str, dict[str, Any]]] = [(f"{url}?colour=red", {})]
    if route.need is not Need.OPEN:
        cases.append((url, {"headers": {"Authorization": "Bearer no"}}))
    if route.body is not None:
        cases += [(url, {"data": text, "json": None}) for text in (b"", b"[]", b"{", b"{}", b'{"token":"a","x":1}')]
    if "{" in route.path:
        cases.append(((BASE + route.path).format(node_id="nobody", call_id="f" * 32), {}))
    for place, more in cases:
        status, kind, text = await ask(client, route, place, **more)
        body = json.loads(text)
        assert status >= 400 and kind == "application/json"
        schema = {"components": DOCUMENT["components"], **responses[str(status)]["content"][kind]["schema"]}
        Draft202012Validator(schema).validate(body)
        assert "colour" not in place or "colour" in body["error"]


async def test_no_value_of_a_journal_is_told(client: Client) -> None:
    _, _, text = await ask(client, next(route for route in ROUTES if route.answers == "call"))
    body = json.loads(text)
    assert body["journal"] == [{"n": 0, "kind": "ask", "key": "k", "round": 0, "lane": "main", "bytes": len("sealed")}]
    assert "sealed" not in text and "secret" not in text
    assert [step["step"] for step in body["trail"]] == ["parked"]
    assert body["fate"] == "Its node holds its frame; it continues when its client answers."

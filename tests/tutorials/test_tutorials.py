"""The official client sees the same of every tutorial program, whoever serves it.

Each has the shape of a program on the SDK's pages on elicitation and on multi-round trips, and runs over real HTTP:
under the plain SDK in the revision where that can run it, under Framehold on 2026-07-28, and, where the first run was
of an older revision, under Framehold in that one too. On 2026-07-28 it makes no difference to the client whether the
frame is held, dropped and rebuilt after each round (rehearsal), or never kept at all (strategy replay). The built-in
example is one of them.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitRequest, ElicitRequestURLParams, InputRequiredResult, SamplingMessage, TextContent
from pydantic import BaseModel

import framehold
from framehold.config import Settings
from framehold.examples import booking
from tests.kit.promised import promised
from tests.tutorials.cases import CASES, Case, accept, tool
from tests.tutorials.over_http import over_http
from tests.tutorials.person import Person, folders, model, said
from tests.tutorials.programs import form_question, own_codec, url_question

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

VERSIONS = {"2025": "2025-11-25", "2026": "2026-07-28"}


async def run(case: Case, app: Any, era: str) -> None:
    """Serve, call, and compare what the client saw with what the case says. The client declares what the case says, by
    registering the callbacks for it."""
    someone = Person(case.answers)
    with over_http(app) as url:
        async with Client(
            url,
            mode="legacy" if era == "2025" else "auto",
            elicitation_callback=someone.elicit if "elicitation" in case.callbacks else None,
            sampling_callback=model if "sampling" in case.callbacks else None,
            list_roots_callback=folders if "roots" in case.callbacks else None,
        ) as client:
            assert client.protocol_version == VERSIONS[era]
            assert await case.call(client) == case.sees
    assert tuple(someone.asked) == case.asked


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("host", ["plain SDK", "framehold, 2026", "framehold, as the plain SDK"])
async def test_whoever_serves_it_the_client_sees_the_same(case: Case, host: str) -> None:
    """The program is unchanged. The plain SDK is the reference; a client of 2025 gets the SDK's own behaviour."""
    served = case.build()
    app = served.streamable_http_app() if host == "plain SDK" else framehold.asgi(served)
    await run(case, app, "2026" if host == "framehold, 2026" else case.era)


BOOKING = Case(
    "the built-in example",
    lambda: importlib.reload(booking).mcp,
    tool("book", restaurant="Luna"),
    "Booked for Ada. Luna, friday evening: a table for 2 in the garden, by candlelight. See you there!",
    answers=(accept(guests=2, evening="friday"), accept(place="garden", candles=True), accept(name="Ada")),
    asked=(
        "A table at Luna, with pleasure. Tell me about your party.",
        "For 2 on friday there is a choice of tables.",
        "Luna, friday evening: a table for 2 in the garden, by candlelight. Shall I book it?",
    ),
)
WAYS: dict[str, dict[str, Any]] = {"hold": {}, "rehearsal": {"rehearse": True}, "replay": {"strategy": "replay"}}


@pytest.mark.parametrize("case", [*CASES, BOOKING], ids=lambda case: case.name)
@pytest.mark.parametrize("way", WAYS)
async def test_marked_it_is_the_same_in_every_way(case: Case, way: str) -> None:
    """Held, rehearsed or replayed: every round but the first of a call that asks was replayed where nothing is held."""
    app = framehold.asgi(promised(case.build()), Settings(node_id="way", **WAYS[way]))
    await run(case, app, "2026")
    counts = app.attached.runtime.counts
    assert counts["rebuilt"] == (0 if way == "hold" else counts["resumed"])


# ---- what has no counterpart under the plain SDK, or differs from it


@pytest.mark.parametrize(
    ("serve", "mode"),
    [(lambda server: server.streamable_http_app(), "legacy"), (framehold.asgi, "auto"), (framehold.asgi, "legacy")],
    ids=["plain SDK, 2025", "framehold, 2026", "framehold, 2025"],
)
async def test_the_form_that_reaches_the_client_is_the_same(serve: Callable[..., Any], mode: str) -> None:
    """Only the model's own title and description stay behind: 2026-07-28 has no place for them beside the fields."""
    someone = Person([accept(take_other=False)])
    with over_http(serve(form_question.build())) as url:
        async with Client(url, mode=mode, elicitation_callback=someone.elicit) as client:
            await client.call_tool("book_repair", {"day": form_question.FULL, "bicycles": 2})
    (form,) = someone.forms
    assert (form["type"], form["required"]) == ("object", ["take_other"])
    day = {"title": "Day", "description": "Which day, as YYYY-MM-DD", "default": "2027-04-05", "type": "string"}
    other = {"title": "Take Other", "description": "Come on another day?", "type": "boolean"}
    assert form["properties"] == {"take_other": other, "day": day}


async def first_round(server: MCPServer, name: str, arguments: dict[str, Any], **callbacks: Any) -> InputRequiredResult:
    callbacks.setdefault("elicitation_callback", Person([]).elicit)
    with over_http(framehold.asgi(server)) as url:
        async with Client(url, **callbacks) as client:
            found = await client.session.call_tool(name, arguments, allow_input_required=True)
    assert isinstance(found, InputRequiredResult)
    return found


class Title(BaseModel):
    title: str


def gathered() -> MCPServer:
    """A printer's shop: what only a suspended frame can do, to ask everyone at once."""
    mcp = MCPServer("Printer")

    @mcp.tool()
    async def set_page(ctx: Context) -> str:
        prompt = SamplingMessage(role="user", content=TextContent(type="text", text="A motto, please."))
        title, motto, found = await asyncio.gather(
            ctx.elicit("Which title?", Title),
            ctx.session.create_message([prompt], max_tokens=20, related_request_id=ctx.request_id),
            ctx.session.list_roots(),
        )
        assert title.action == "accept" and isinstance(motto.content, TextContent)
        return f"{title.data.title}: {motto.content.text} ({len(found.roots)} folder)"

    return mcp


async def test_asks_made_together_leave_in_one_round() -> None:
    """Three kinds of question from one gather, and one retry that answers them all."""
    declared: dict[str, Any] = {
        "elicitation_callback": Person([accept(title="Odes")]).elicit,
        "sampling_callback": model,
        "list_roots_callback": folders,
    }
    first = await first_round(gathered(), "set_page", {}, **declared)
    methods = sorted(request.method for request in (first.input_requests or {}).values())
    assert methods == ["elicitation/create", "roots/list", "sampling/createMessage"]
    with over_http(framehold.asgi(gathered())) as url:
        async with Client(url, input_required_max_rounds=1, **declared) as client:
            assert said(await client.call_tool("set_page", {})) == "Odes: .esaelp ,ottom A (1 folder)"


async def test_a_question_awaited_is_sealed_by_the_authors_own_codec() -> None:
    first = await first_round(own_codec.build(), "certify_at_once", {})
    version, _call, sealed = (first.request_state or "").split(".", 2)
    assert version == "h1" and sealed.startswith(own_codec.MARK)


async def test_a_page_to_visit_travels_as_a_question() -> None:
    first = await first_round(url_question.build(), "request_card", {"reader": "ada"})
    (request,) = (first.input_requests or {}).values()
    assert isinstance(request, ElicitRequest) and isinstance(request.params, ElicitRequestURLParams)
    assert (request.params.url, request.params.elicitation_id) == ("https://id.example.org/check/ada", None)

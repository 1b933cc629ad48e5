"""What the tutorial programs do on 2026-07-28 that has no counterpart under the plain SDK, or differs from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitRequestURLParams, InputRequiredResult

import framehold
from tests.tutorials.cases import FULL_DAY, accept
from tests.tutorials.over_http import over_http
from tests.tutorials.person import Person, folders, model, said
from tests.tutorials.programs import form_question, gathered, own_codec, url_question

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

FULL = {"day": form_question.FULL, "bicycles": 2}
plainly = {"plain SDK, 2025": (lambda server: server.streamable_http_app(), "legacy")}
framed = {"framehold, 2026": (framehold.asgi, "auto"), "framehold, 2025": (framehold.asgi, "legacy")}


@pytest.mark.parametrize(("serve", "mode"), [*plainly.values(), *framed.values()], ids=[*plainly, *framed])
async def test_the_form_that_reaches_the_client_is_the_same(serve: Callable[..., Any], mode: str) -> None:
    """The model becomes the same fields, whichever way the question travels.

    Only the model's own title and description stay behind: 2026-07-28 has no place for them beside the fields.
    """
    someone = Person([accept(take_other=False)])
    with over_http(serve(form_question.build())) as url:
        async with Client(url, mode=mode, elicitation_callback=someone.elicit) as client:
            await client.call_tool("book_repair", FULL)
    (form,) = someone.forms
    assert form["type"] == "object"
    assert form["required"] == ["take_other"]
    assert form["properties"] == {
        "take_other": {"title": "Take Other", "description": "Come on another day?", "type": "boolean"},
        "day": {
            "title": "Day",
            "description": "Which day, as YYYY-MM-DD",
            "default": "2027-04-05",
            "type": "string",
        },
    }


@pytest.mark.parametrize(
    ("serve", "mode", "code"),
    [(*plainly["plain SDK, 2025"], -32600), (framehold.asgi, "legacy", -32600), (framehold.asgi, "auto", -32021)],
    ids=[*plainly, "framehold, 2025", "framehold, 2026"],
)
async def test_a_client_that_cannot_be_asked_gets_a_protocol_error(
    serve: Callable[..., Any], mode: str, code: int
) -> None:
    """The older client refuses the question itself; on 2026-07-28 it is not sent, and the error says what lacks."""
    with over_http(serve(form_question.build())) as url:
        async with Client(url, mode=mode) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("book_repair", FULL)
    assert caught.value.error.code == code
    if code == -32021:
        assert "elicitation" in caught.value.error.data["requiredCapabilities"]


async def test_the_token_can_be_carried_to_another_client() -> None:
    """The question is answered over a connection that never saw it asked."""
    with over_http(framehold.asgi(form_question.build())) as url:
        async with Client(url, elicitation_callback=Person([]).elicit) as one:
            first = await one.session.call_tool("book_repair", FULL, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        assert first.input_requests is not None
        ((key, request),) = first.input_requests.items()
        assert isinstance(request, ElicitRequest)
        assert isinstance(request.params, ElicitRequestFormParams)
        assert request.params.message == FULL_DAY
        async with Client(url, elicitation_callback=Person([]).elicit) as another:
            result = await another.call_tool(
                "book_repair",
                FULL,
                input_responses={key: accept(take_other=True, day="2027-04-09")},
                request_state=first.request_state,
            )
    assert said(result) == "2 bicycle(s) on 2027-04-09."


async def test_asks_made_together_leave_in_one_round() -> None:
    """Three kinds of question from one gather, and one retry that answers them all."""
    someone = Person([accept(title="Odes")])
    declared: dict[str, Any] = {
        "elicitation_callback": someone.elicit,
        "sampling_callback": model,
        "list_roots_callback": folders,
    }
    with over_http(framehold.asgi(gathered.build())) as url:
        async with Client(url, **declared) as client:
            first = await client.session.call_tool("set_page", {}, allow_input_required=True)
            assert isinstance(first, InputRequiredResult)
            methods = sorted(request.method for request in (first.input_requests or {}).values())
            assert methods == ["elicitation/create", "roots/list", "sampling/createMessage"]
        async with Client(url, input_required_max_rounds=1, **declared) as client:
            result = await client.call_tool("set_page", {})
    assert said(result) == "Odes: .esaelp ,ottom A (1 folder)"


async def test_a_question_awaited_is_sealed_by_the_authors_own_codec() -> None:
    """Framehold adds its routing prefix and leaves the sealing to whom it was given."""
    with over_http(framehold.asgi(own_codec.build())) as url:
        async with Client(url, elicitation_callback=Person([]).elicit) as client:
            first = await client.session.call_tool("certify_at_once", {}, allow_input_required=True)
    assert isinstance(first, InputRequiredResult)
    version, _call, sealed = (first.request_state or "").split(".", 2)
    assert version == "h1"
    assert sealed.startswith(own_codec.MARK)


async def test_a_page_to_visit_travels_as_a_question() -> None:
    """URL mode is one more entry of the round; the elicitation id, which the revision removed, stays behind."""
    declared = Person([])
    with over_http(framehold.asgi(url_question.build())) as url:
        async with Client(url, elicitation_callback=declared.elicit) as client:
            first = await client.session.call_tool("request_card", {"reader": "ada"}, allow_input_required=True)
    assert isinstance(first, InputRequiredResult)
    (request,) = (first.input_requests or {}).values()
    assert isinstance(request, ElicitRequest)
    assert isinstance(request.params, ElicitRequestURLParams)
    assert request.params.url == "https://id.example.org/check/ada"
    assert request.params.elicitation_id is None

"""Every tutorial program, called in the ways that its page describes, with what the client must see.

`era` is the protocol revision in which the plain SDK can run the program: "2025" for those that await their question,
because it has no way to ask them on 2026-07-28, and "2026" for those that return it. Under Framehold all of them run on
2026-07-28 and the client must see the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from mcp import Client, MCPError
from mcp.server import MCPServer
from mcp.types import ElicitResult, InputRequiredResult, TextContent, TextResourceContents

from tests.tutorials.person import refused, said
from tests.tutorials.programs import by_hand, client_model, form_question, own_codec, url_question

DECLINE = ElicitResult(action="decline")
FULL_DAY = f"The workshop is full on {form_question.FULL}. Another day?"


def accept(**content: Any) -> ElicitResult:
    """The user fills in the form; without fields, agrees to visit the page."""
    return ElicitResult(action="accept", content=content or None)


@dataclass(frozen=True)
class Case:
    """One program, one call, the answers given in order, and what the client sees of it.

    `callbacks` are those that the client registers, and thereby declares.
    """

    name: str
    build: Callable[[], MCPServer]
    call: Callable[[Client], Awaitable[str]]
    sees: str
    answers: tuple[ElicitResult, ...] = ()
    asked: tuple[str, ...] = ()
    era: Literal["2025", "2026"] = "2025"
    callbacks: tuple[str, ...] = ("elicitation",)


def tool(name: str, **arguments: Any) -> Callable[[Client], Awaitable[str]]:
    async def call(client: Client) -> str:
        try:
            return said(await client.call_tool(name, arguments))
        except MCPError as error:
            return refused(error)

    return call


async def programme(client: Client) -> str:
    (message,) = (await client.get_prompt("programme")).messages
    assert isinstance(message.content, TextContent)
    return message.content.text


async def script(client: Client) -> str:
    (part,) = (await client.read_resource("theatre://plays/Woyzeck")).contents
    assert isinstance(part, TextResourceContents)
    return part.text


async def certify_with_altered_state(client: Client) -> str:
    first = await client.session.call_tool("certify", {}, allow_input_required=True)
    assert isinstance(first, InputRequiredResult) and own_codec.MARK in (first.request_state or "")
    answers: dict[str, Any] = {"seal": accept(seal="wax")}
    for token in (f"{first.request_state}0", first.request_state):
        try:
            last = await client.session.call_tool("certify", {}, input_responses=answers, request_state=token)
        except MCPError as error:
            why = refused(error)
    return f"{why}; {said(last)}"


_book = tool("book_repair", day=form_question.FULL, bicycles=2)
_card = tool("request_card", reader="ada")
_VISIT = ("Please prove who you are. https://id.example.org/check/ada",)
_WAX = "wax after awaiting the seal"

CASES = [
    Case("a default fills what the user left out", form_question.build, _book, "2 bicycle(s) on 2027-04-05.",
         (accept(take_other=True),), (FULL_DAY,)),
    Case("the same question can be asked again", form_question.build, _book, "2 bicycle(s) on 2027-04-07.",
         (accept(take_other=True, day=form_question.FULL), accept(take_other=True, day="2027-04-07")), (FULL_DAY,) * 2),
    Case("declining is an answer", form_question.build, _book, "Not booked.", (DECLINE,), (FULL_DAY,)),
    Case("a tool that need not ask needs no callback", form_question.build,
         tool("book_repair", day="2027-04-08", bicycles=1), "1 bicycle(s) on 2027-04-08.", callbacks=()),
    Case("an answer that does not fit the model is a tool error", form_question.build, _book,
         "error: Error executing tool book_repair", (accept(take_other="perhaps"),), (FULL_DAY,)),
    Case("the user agrees to visit a page", url_question.build, _card, "Finish in your browser.", (accept(),), _VISIT),
    Case("the user does not", url_question.build, _card, "No card: decline.", (DECLINE,), _VISIT),
    Case("the server reports that the page is done with", url_question.build, tool("identity_proved", reader="ada"),
         "Card issued to ada."),
    Case("the client's model", client_model.build, tool("couplet", word="sea"),
         "sea / ?aes rof emyhr enO", era="2026", callbacks=("sampling",)),
    Case("the client's folders", client_model.build, tool("where_to_save"),
         "file:///srv/poems", era="2026", callbacks=("roots",)),
    Case("by hand: a prompt", by_hand.build, programme, "Write a programme for Bath.",
         (accept(town="Bath"),), ("In which town?",), "2026"),
    Case("by hand: a resource template", by_hand.build, script, "Woyzeck, in German",
         (accept(language="German"),), ("In which language?",), "2026"),
    Case("by hand: a tool that keeps its own state", by_hand.build, tool("cast"), "Bo against Cy",
         (accept(hero="Bo"), accept(villain="Cy")), ("Who plays the hero?", "Who plays the villain?"), "2026"),
    Case("own codec: a state goes out and comes back", own_codec.build, tool("certify"), _WAX,
         (accept(seal="wax"),), ("Which seal?",), "2026"),
    Case("own codec: an altered state is refused, the right one goes on", own_codec.build, certify_with_altered_state,
         f"-32602: Invalid or expired requestState; {_WAX}", era="2026"),
    Case("own codec: a question awaited", own_codec.build, tool("certify_at_once"), "lead",
         (accept(seal="lead"),), ("Which seal?",)),
]  # fmt: skip

"""Every tutorial program, called in every way that its page describes, with what the client must see.

`era` is the protocol revision in which the plain SDK can run the program: "2025" for those that await their question,
because it has no way to ask them on 2026-07-28, and "2026" for those that return it. Under Framehold all of them run on
2026-07-28 and the client must see the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.server import MCPServer, Server
from mcp.types import ElicitRequest, ElicitResult, InputRequiredResult, TextContent, TextResourceContents

from tests.tutorials.person import refused, said
from tests.tutorials.programs import (
    by_hand,
    client_model,
    form_limits,
    form_question,
    lowlevel,
    own_codec,
    resolver,
    url_question,
)

DECLINE = ElicitResult(action="decline")
CANCEL = ElicitResult(action="cancel")
FULL_DAY = f"The workshop is full on {form_question.FULL}. Another day?"
MIDDLE_SHELF = "There are 3 jars on the middle shelf. Clear it?"


def accept(**content: Any) -> ElicitResult:
    """The user fills in the form; without fields, agrees to visit the page."""
    return ElicitResult(action="accept", content=content or None)


@dataclass(frozen=True)
class Case:
    """One program, one call, the answers given in order, and what the client sees of it.

    `callbacks` are those that the client registers, and thereby declares; `rounds` is the most that it will go along.
    """

    name: str
    build: Callable[[], MCPServer | Server[Any]]
    call: Callable[[Client], Awaitable[str]]
    sees: str
    answers: tuple[ElicitResult, ...] = ()
    asked: tuple[str, ...] = ()
    era: Literal["2025", "2026"] = "2025"
    callbacks: frozenset[str] = field(default=frozenset({"elicitation"}))
    rounds: int = 10


def tool(name: str, **arguments: Any) -> Callable[[Client], Awaitable[str]]:
    """Call a tool and read its result, or the error instead of it."""

    async def call(client: Client) -> str:
        try:
            return said(await client.call_tool(name, arguments))
        except MCPError as error:
            return refused(error)
        except InputRequiredRoundsExceededError:
            return "gave up"

    return call


async def programme(client: Client) -> str:
    """Get the prompt and read its only message."""
    (message,) = (await client.get_prompt("programme")).messages
    assert isinstance(message.content, TextContent)
    return message.content.text


async def script(client: Client) -> str:
    """Read the resource and its only part."""
    (part,) = (await client.read_resource("theatre://plays/Woyzeck")).contents
    assert isinstance(part, TextResourceContents)
    return part.text


async def reserve_by_own_loop(client: Client) -> str:
    """Drive the rounds as a caller who owns the loop: same tool, same arguments, the token carried by hand."""
    arguments, rounds = {"guest": "Ada"}, 1
    result = await client.session.call_tool("reserve_room", arguments, allow_input_required=True)
    while isinstance(result, InputRequiredResult):
        assert result.request_state is not None
        requests = result.input_requests or {}
        assert {key: type(request) for key, request in requests.items()} == {"floor": ElicitRequest}
        rounds += 1
        result = await client.session.call_tool(
            "reserve_room",
            arguments,
            input_responses={"floor": accept(floor="third")},
            request_state=result.request_state,
            allow_input_required=True,
        )
    return f"{said(result)} Rounds: {rounds}."


async def certify_with_altered_state(client: Client) -> str:
    """Send back a token with one character too many."""
    first = await client.session.call_tool("certify", {}, allow_input_required=True)
    assert isinstance(first, InputRequiredResult)
    assert own_codec.MARK in (first.request_state or "")
    try:
        await client.session.call_tool(
            "certify",
            {},
            input_responses={"seal": accept(seal="wax")},
            request_state=f"{first.request_state}0",
            allow_input_required=True,
        )
    except MCPError as error:
        return refused(error)
    return "accepted"


_book = tool("book_repair", day=form_question.FULL, bicycles=2)

FORMS = [
    Case(
        "an accepted answer goes on in the same call",
        form_question.build,
        _book,
        "2 bicycle(s) on 2027-04-06.",
        answers=(accept(take_other=True, day="2027-04-06"),),
        asked=(FULL_DAY,),
    ),
    Case(
        "a default fills what the user left out",
        form_question.build,
        _book,
        "2 bicycle(s) on 2027-04-05.",
        answers=(accept(take_other=True),),
        asked=(FULL_DAY,),
    ),
    Case(
        "the same question can be asked again",
        form_question.build,
        _book,
        "2 bicycle(s) on 2027-04-07.",
        answers=(accept(take_other=True, day=form_question.FULL), accept(take_other=True, day="2027-04-07")),
        asked=(FULL_DAY, FULL_DAY),
    ),
    Case("declining is an answer", form_question.build, _book, "Not booked.", (DECLINE,), (FULL_DAY,)),
    Case("cancelling is an answer", form_question.build, _book, "Not booked.", (CANCEL,), (FULL_DAY,)),
    Case(
        "a tool that need not ask needs no callback",
        form_question.build,
        tool("book_repair", day="2027-04-08", bicycles=1),
        "1 bicycle(s) on 2027-04-08.",
        callbacks=frozenset(),
    ),
    Case(
        "an answer that does not fit the model is a tool error",
        form_question.build,
        _book,
        "error: Error executing tool book_repair",
        answers=(accept(take_other="perhaps"),),
        asked=(FULL_DAY,),
    ),
    Case(
        "a choice of words is a form field",
        form_limits.build,
        tool("choose_berth"),
        "port",
        answers=(accept(side="port"),),
        asked=("On which side?",),
    ),
    Case(
        "a model within the model is refused before anyone is asked",
        form_limits.build,
        tool("describe_boat"),
        "error: Error executing tool describe_boat",
    ),
]

_VISIT = "Please prove who you are. https://id.example.org/check/ada"
PAGES = [
    Case("the user agrees to visit a page", url_question.build, tool("request_card", reader="ada"),
         "Finish in your browser.", (accept(),), (_VISIT,)),
    Case("the user does not", url_question.build, tool("request_card", reader="ada"),
         "No card: decline.", (DECLINE,), (_VISIT,)),
    Case("the server reports that the page is done with", url_question.build, tool("identity_proved", reader="ada"),
         "Card issued to ada."),
]  # fmt: skip

RESOLVERS = [
    Case(f"resolver: {name}", resolver.build, tool(called, shelf=shelf), sees, answers, asked, era="2026")
    for name, called, shelf, sees, answers, asked in [
        ("no question where none is needed", "clear_shelf", "top", "top cleared", (), ()),
        ("accepted", "clear_shelf", "middle", "middle cleared", (accept(sure=True),), (MIDDLE_SHELF,)),
        ("accepted, but no", "clear_shelf", "middle", "middle left alone", (accept(sure=False),), (MIDDLE_SHELF,)),
        ("declined", "clear_shelf", "middle", "middle: no answer wanted", (DECLINE,), (MIDDLE_SHELF,)),
        ("cancelled", "clear_shelf", "middle", "middle: question dismissed", (CANCEL,), (MIDDLE_SHELF,)),
        ("the model alone, accepted", "paint_shelf", "middle", "middle painted", (accept(sure=True),), (MIDDLE_SHELF,)),
        (
            "the model alone, declined",
            "paint_shelf",
            "middle",
            "error: Error executing tool paint_shelf: "
            "Resolver for parameter 'consent' could not resolve: elicitation was decline",
            (DECLINE,),
            (MIDDLE_SHELF,),
        ),
    ]
]

OF_THE_CLIENT = [
    Case("resolver: the client's model", client_model.build, tool("couplet", word="sea"),
         "sea / ?aes rof emyhr enO", era="2026", callbacks=frozenset({"sampling"})),
    Case("resolver: the client's folders", client_model.build, tool("where_to_save"),
         "file:///srv/poems", era="2026", callbacks=frozenset({"roots"})),
]  # fmt: skip

BY_HAND = [
    Case(
        "by hand: the client's own loop",
        lowlevel.build,
        tool("reserve_room", guest="Ada"),
        "Ada on floor second, after 'room, round one'.",
        answers=(accept(floor="second"),),
        asked=("On which floor?",),
        era="2026",
    ),
    Case(
        "by hand: a caller's loop",
        lowlevel.build,
        reserve_by_own_loop,
        "Ada on floor third, after 'room, round one'. Rounds: 2.",
        era="2026",
    ),
    Case(
        "by hand: a question that is never answered ends at the client's limit",
        lowlevel.build,
        tool("reserve_room", guest="Ada"),
        "gave up",
        answers=(DECLINE, DECLINE, DECLINE),
        asked=("On which floor?",) * 3,
        era="2026",
        rounds=3,
    ),
    Case(
        "by hand: a client without the callback",
        lowlevel.build,
        tool("reserve_room", guest="Ada"),
        "-32600: Elicitation not supported",
        era="2026",
        callbacks=frozenset(),
    ),
    Case(
        "by hand: a prompt",
        by_hand.build,
        programme,
        "Write a programme for Bath.",
        answers=(accept(town="Bath"),),
        asked=("In which town?",),
        era="2026",
    ),
    Case(
        "by hand: a resource template",
        by_hand.build,
        script,
        "Woyzeck, in German",
        answers=(accept(language="German"),),
        asked=("In which language?",),
        era="2026",
    ),
    Case(
        "by hand: a tool that keeps its own state",
        by_hand.build,
        tool("cast"),
        "Bo against Cy",
        answers=(accept(hero="Bo"), accept(villain="Cy")),
        asked=("Who plays the hero?", "Who plays the villain?"),
        era="2026",
    ),
    Case(
        "own codec: a state goes out and comes back",
        own_codec.build,
        tool("certify"),
        "wax after awaiting the seal",
        answers=(accept(seal="wax"),),
        asked=("Which seal?",),
        era="2026",
    ),
    Case(
        "own codec: an altered state is refused",
        own_codec.build,
        certify_with_altered_state,
        "-32602: Invalid or expired requestState",
        era="2026",
    ),
    Case(
        "own codec: a question awaited",
        own_codec.build,
        tool("certify_at_once"),
        "lead",
        answers=(accept(seal="lead"),),
        asked=("Which seal?",),
    ),
]

CASES = [*FORMS, *PAGES, *RESOLVERS, *OF_THE_CLIENT, *BY_HAND]

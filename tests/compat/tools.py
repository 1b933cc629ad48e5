"""The handlers whose calls the fixtures hold. They keep their text: a call can be carried on by the code that began it
only, so what is changed here is lost to the tests. New handlers go below the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

import framehold

NAME = "compat"
"""The server's name: tokens are bound to it."""
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


class Word(BaseModel):
    word: str


class Life:
    """One life of the server: what really ran in it, and whether an effect may end."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.entered: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()


def said(answer: Any) -> str:
    return str(answer.data.word) if answer.action == "accept" else str(answer.action)


def server(life: Life) -> MCPServer[Any]:
    """All tools, noting what they do in `life`."""
    made: MCPServer[Any] = MCPServer(NAME)
    for tool in (_book(life), _plain(life), _charge(life), _large(life), _by_hand(life), _replayed(life), _brief(life)):
        made.tool(description="A tool of the fixtures.")(tool)
    return made


def _effect(life: Life, name: str, value: object = None, error: Exception | None = None) -> Callable[..., object]:
    def effect(*args: object, **kwargs: object) -> object:
        life.ran.append(name)
        if error is not None:
            raise error
        return {"ran": name} if value is None else value

    return effect


ARGUMENTS: tuple[object, ...] = (
    5,
    2.5,
    None,
    "text",
    "long " * 2000,
    frozenset({"a", "b"}),
    [True, {"of": ("a tuple", b"bytes")}],
    Word(word="w"),
)
"""A recorded effect is known again by its arguments too."""


async def _tried(name: str, effect: Callable[..., object]) -> str:
    try:
        return repr(await framehold.once(name, effect, *ARGUMENTS, when=date(2026, 7, 28)))
    except Exception as error:
        return f"{type(error).__name__}: {getattr(error, 'kind', error)}"


async def _learned(life: Life) -> str:
    """An entry of every kind and codec: drawn values, results as JSON and as a pickle, exceptions in three ways.
    And the key by which systems outside know an effect again."""

    class Nameless(Exception):
        """No pickle of it, so only its name is kept."""

        def __reduce__(self) -> Any:
            raise TypeError("not to be pickled")

    drawn = f"{framehold.now('begun').isoformat()} {framehold.uuid4('number')} {framehold.random('chance')}"
    results = [
        await _tried("plain", _effect(life, "plain")),
        await _tried("odd", _effect(life, "odd", ("a tuple", 1))),
        await _tried("fails", _effect(life, "fails", error=LookupError("no such thing"))),
        await _tried("fails oddly", _effect(life, "fails oddly", error=json.JSONDecodeError("odd", "doc", 0))),
        await _tried("fails namelessly", _effect(life, "fails namelessly", error=Nameless("x"))),
    ]
    return "; ".join([drawn, framehold.idempotency_key("pay"), *results])


def _book(life: Life) -> Callable[..., Awaitable[str]]:
    @framehold.reentrant
    async def book(name: str, ctx: Context) -> str:
        """Learn something of every kind, then ask in three rounds, the second from two tasks, with an effect last."""
        life.entered.append("book")
        learned = await _learned(life)
        one = said(await ctx.elicit("one?", Word))
        two, three = await asyncio.gather(ctx.elicit("two?", Word), framehold.ask("three", "three?", Word))
        four = said(await ctx.elicit("four?", Word))

        async def last() -> str:
            life.ran.append("last")
            await life.may_end.wait()
            return "done"

        end = await framehold.once("last", last, idempotent=True)
        return f"{name}: {one} {said(two)} {said(three)} {four}, {end}; {learned}"

    return book


def _plain(life: Life) -> Callable[..., Awaitable[str]]:
    async def plain(ctx: Context) -> str:
        """Not marked: entered once."""
        life.entered.append("plain")
        return said(await ctx.elicit("one?", Word))

    return plain


def _charge(life: Life) -> Callable[..., Awaitable[str]]:
    @framehold.reentrant
    async def charge(ctx: Context) -> str:
        """An effect that may not run twice."""
        life.entered.append("charge")
        word = said(await ctx.elicit("one?", Word))

        async def pay() -> str:
            life.ran.append("pay")
            await life.may_end.wait()
            return "paid"

        try:
            return f"{word}: {await framehold.once('pay', pay)}"
        except framehold.InDoubt:
            return f"{word}: in doubt"

    return charge


def _large(life: Life) -> Callable[..., Awaitable[str]]:
    @framehold.reentrant
    async def large(ctx: Context) -> str:
        """An outcome that no tombstone keeps."""
        life.entered.append("large")
        return said(await ctx.elicit("one?", Word)) * 40_000

    return large


def _by_hand(life: Life) -> Callable[..., Awaitable[str | InputRequiredResult]]:
    @framehold.reentrant
    async def by_hand(learns: bool, state: str, ctx: Context) -> str | InputRequiredResult:
        """Park with a state of its own, with or without something learned beside it."""
        life.entered.append("by_hand")
        learned = await _learned(life) if learns else "nothing"
        if ctx.input_responses is None:
            asks = {"q": ElicitRequest(params=ElicitRequestFormParams(message="one?", requested_schema=SCHEMA))}
            return InputRequiredResult(input_requests=asks, request_state=state or None)
        return f"{ctx.request_state!r}; {learned}"

    return by_hand


def _replayed(life: Life) -> Callable[..., Awaitable[str]]:
    @framehold.reentrant
    @framehold.options(strategy="replay")
    async def replayed(ctx: Context) -> str:
        """Strategy replay: its token is the whole call."""
        life.entered.append("replayed")
        learned = await _learned(life)
        words = [said(await ctx.elicit(f"{number}?", Word)) for number in ("one", "two", "three")]
        return f"{' '.join(words)}; {learned}"

    return replayed


def _brief(life: Life) -> Callable[..., Awaitable[str]]:
    @framehold.reentrant
    @framehold.options(ttl=60)
    async def brief(ctx: Context) -> str:
        """Its tokens say how long they are valid."""
        life.entered.append("brief")
        return said(await ctx.elicit("one?", Word))

    return brief

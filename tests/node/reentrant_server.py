"""Re-entrant handlers of every shape, whose effects leave lines in a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel

import framehold

mcp: MCPServer = MCPServer("re-entrant")


class Word(BaseModel):
    word: str


def said(answer: ElicitationResult[Word]) -> str:
    return answer.data.word if answer.action == "accept" else answer.action


def effect(name: str) -> str:
    """Leaves a line, and says how many there are of it."""
    path = Path(os.environ["ENTRIES"])
    with path.open("a") as ledger:
        ledger.write(f"{name}\n")
    return f"{name}#{path.read_text().split().count(name)}"


@mcp.tool()
@framehold.reentrant
async def sequence(name: str, ctx: Context) -> str:
    """Asks three times in a row, with effects between."""
    made = [await framehold.once("first", effect, f"first-{name}")]
    one = said(await ctx.elicit(f"{name} one?", Word))
    made.append(await framehold.once("second", effect, f"second-{name}"))
    two = said(await ctx.elicit(f"{one} two?", Word))
    made.append(await framehold.once("third", effect, f"third-{name}"))
    three = said(await ctx.elicit(f"{two} three?", Word))
    return f"{one} {two} {three} {' '.join(made)} {framehold.idempotency_key('k')}"


@mcp.tool()
@framehold.reentrant
async def together(name: str, ctx: Context) -> str:
    """Asks for two things at once, each with an effect before and after."""

    async def seat(place: str) -> str:
        answer = said(await framehold.ask(place, "Which seat?", Word))
        return await framehold.once(f"book {place}", effect, f"book-{place}-{name}-{answer}")

    # Before the gather: a branch with an effect before its question may ask in a later round than the other.
    for place in ("left", "right"):
        await framehold.once(f"hold {place}", effect, f"hold-{place}-{name}")
    rows = await asyncio.gather(seat("left"), seat("right"))
    last = said(await ctx.elicit("Sure?", Word))
    return " ".join((*rows, last))


async def consent(name: str) -> Word | Elicit[Word]:
    """Asked by the SDK itself, before the tool begins."""
    return Elicit(f"May {name}?", Word)


@mcp.tool()
@framehold.reentrant
async def resolved(name: str, may: Annotated[Word, Resolve(consent)], ctx: Context) -> str:
    """Asks through a parameter first, then in its body."""
    done = await framehold.once("done", effect, f"done-{name}-{may.word}")
    return f"{may.word} {said(await ctx.elicit('And now?', Word))} {done}"


@mcp.prompt()
@framehold.reentrant
async def poem(name: str, ctx: Context) -> list[UserMessage]:
    """A prompt that asks."""
    done = await framehold.once("poem", effect, f"poem-{name}")
    word = said(await ctx.elicit("About what?", Word))
    return [UserMessage(f"A poem for {name} about {word}, {done}")]


@mcp.tool()
@framehold.reentrant
async def by_hand(name: str, ctx: Context) -> str | InputRequiredResult:
    """Returns its question, and is called again; keeps no state of its own."""
    known = (ctx.request_state or "").split()
    for part in ("one", "two")[len(known) :]:
        given = (ctx.input_responses or {}).get(part)
        if not isinstance(given, ElicitResult) or given.content is None:
            await framehold.once(part, effect, f"{part}-by-hand-{name}")
            return _asks(part, " ".join(known) or None)
        known.append(str(given.content["word"]))
    done = [await framehold.once(part, effect, f"{part}-by-hand-{name}") for part in ("one", "two")]
    return f"{' '.join(known)} {' '.join(done)} {framehold.idempotency_key('k')}"


def _asks(part: str, state: str | None) -> InputRequiredResult:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    asked = ElicitRequest(params=ElicitRequestFormParams(message=f"{part}?", requested_schema=schema))
    return InputRequiredResult(input_requests={part: asked}, request_state=state)

"""A server for the playground's tests: each kind of field, each way to answer, and texts that mean harm."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

import framehold

mcp = MCPServer("asking")

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 20},
        "mail": {"type": "string", "title": "Mail", "format": "email"},
        "site": {"type": "string", "title": "Site", "format": "uri"},
        "day": {"type": "string", "title": "Day", "format": "date"},
        "hour": {"type": "string", "title": "Hour", "format": "date-time"},
        "guests": {"type": "integer", "title": "Guests", "minimum": 1, "maximum": 12, "default": 2},
        "weight": {"type": "number", "title": "Weight", "minimum": 0.5},
        "candles": {"type": "boolean", "title": "Candles", "default": True},
        "smoking": {"type": "boolean", "title": "Smoking", "description": "Outside only."},
        "place": {"type": "string", "title": "Place", "enum": ["window", "garden"], "default": "garden"},
        "meal": {
            "type": "string",
            "title": "Meal",
            "oneOf": [{"const": "m1", "title": "Soup of the day"}, {"const": "m2", "title": "Roast"}],
        },
        "drinks": {
            "type": "array",
            "title": "Drinks",
            "items": {"type": "string", "enum": ["water", "wine", "tea"]},
            "minItems": 1,
            "maxItems": 2,
        },
        "extras": {
            "type": "array",
            "title": "Extras",
            "items": {"anyOf": [{"const": "e1", "title": "Bread"}, {"const": "e2", "title": "Olives"}]},
            "default": ["e2"],
        },
        "note": {"type": "string", "title": "Note", "maxLength": 400},
    },
    "required": ["name", "mail", "day", "guests", "candles", "meal", "drinks"],
}
HOSTILE = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>'


class Word(BaseModel):
    word: str


class Address(BaseModel):
    city: str


async def asked(ctx: Context, message: str) -> str:
    answer = await ctx.elicit(message, Word)
    return answer.data.word if answer.action == "accept" else answer.action


@mcp.tool()
async def add(
    count: Annotated[int, Field(ge=1, le=9, description="How many of them")],
    label: Annotated[str, Field(examples=["plums"])],
    colour: Literal["red", "blue"] = "blue",
    ripe: bool = False,
    ratio: float | None = None,
    tags: list[Literal["new", "old"]] | None = None,
    address: Address | None = None,
) -> str:
    """Say what was given, as JSON."""
    given = {"count": count, "label": label, "colour": colour, "ripe": ripe, "ratio": ratio, "tags": tags}
    return json.dumps({**given, "city": address.city if address else None})


@mcp.tool()
@framehold.reentrant
async def dinner(ctx: Context) -> str:
    """Ask with a form that has every kind of field."""
    answer = await ctx.session.elicit_form("All about your dinner", FORM)
    return json.dumps({"action": answer.action, "content": answer.content}, sort_keys=True)


@mcp.tool()
@framehold.reentrant
async def trip(ctx: Context) -> str:
    """Ask twice, one after the other."""
    return f"from {await asked(ctx, 'Where from?')} to {await asked(ctx, 'Where to?')}"


@mcp.tool()
@framehold.reentrant
async def both(ctx: Context) -> str:
    """Ask two things in one round."""
    found = await asyncio.gather(asked(ctx, "Which drink?"), asked(ctx, "Which meal?"))
    return " and ".join(found)


@mcp.tool()
@framehold.reentrant
async def pay(ctx: Context) -> str:
    """Send the user to a page of the bank."""
    answer = await ctx.elicit_url("Pay at your bank", "https://bank.example/pay?order=7", "order-7")
    return f"payment: {answer.action}"


@mcp.tool()
async def fails(ctx: Context) -> str:
    """Ask, then fail."""
    raise ValueError(f"there is no {await asked(ctx, 'Which one?')}")


@mcp.tool()
@framehold.reentrant
async def talks(ctx: Context) -> str:
    """Tell how far it is, in each of two rounds."""
    await ctx.report_progress(1, 4, "packing")
    await ctx.info("the suitcase is open")
    word = await asked(ctx, "What else goes in?")
    await ctx.report_progress(3, 4, f"{word} is in")
    await ctx.warning({"weight": 23}, logger_name="scales")
    return "packed"


@mcp.tool()
async def waits(ctx: Context) -> str:
    """Tell that it works, and never end by itself."""
    await ctx.report_progress(1, 9, "working")
    await asyncio.Event().wait()
    return "never"


@mcp.tool(description=HOSTILE, title="hostile texts")
@framehold.reentrant
async def hostile(ctx: Context) -> str:
    await ctx.info(HOSTILE)
    return HOSTILE + await asked(ctx, HOSTILE)


@mcp.prompt()
@framehold.reentrant
async def letter(to: str, ctx: Context, tone: str = "friendly") -> str:
    """A letter to somebody."""
    return f"Write a {tone} letter to {to} about {await asked(ctx, 'About what?')}."


@mcp.resource("memo://today")
async def today() -> str:
    """What is to be done today."""
    return "water the plants"


@mcp.resource("memo://{day}/{who}")
@framehold.reentrant
async def memo(day: str, who: str, ctx: Context) -> str:
    """What somebody is to do on a day."""
    return f"{day}, {who}: {await asked(ctx, 'Which list?')}"


app = framehold.asgi(mcp)

"""A server with a tool of each kind, and two callers: a script, and a person at a terminal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from framehold_cli.client.patient import PATIENCE
from tests.cli.terminal import Terminal
from tests.kit.processes import RUN, finished

TOOLS = "pick, both, asks_on, sign, fails, counts, steers, steers_wrong"


class Pick(BaseModel):
    fruit: list[Literal["apple", "pear"]] = Field(min_length=1)
    ripe: bool = True


class Word(BaseModel):
    word: str


async def pick(count: int, label: str, ctx: Context) -> str:
    """Ask for fruit."""
    answer = await ctx.elicit(f"{count} of {label}?", Pick)
    return f"{label}/{count}: {answer.action} {answer.data.model_dump() if answer.action == 'accept' else ''}"


async def both(ctx: Context) -> str:
    """Ask two things at once."""
    one, two = await asyncio.gather(ctx.elicit("First?", Word), ctx.elicit("Second?", Word))
    return f"{one.data.word if one.action == 'accept' else ''}, {two.data.word if two.action == 'accept' else ''}"


async def asks_on(times: int, ctx: Context) -> str:
    """Ask one thing after the other."""
    for _ in range(times):
        await ctx.elicit("Again?", Word)
    return f"{times} times"


async def sign(ctx: Context) -> str:
    """Send the user to an address."""
    return (await ctx.elicit_url("Please sign.", "https://example.com/sign", "s-1")).action


async def fails(ctx: Context) -> str:
    """Fail."""
    raise ToolError("the kitchen is closed")


async def counts() -> dict[str, int]:
    """Answer with structure."""
    return {"apples": 2}


class Odd(BaseModel):
    word: str = Field(description="a title\x1b[31m\n")


async def steers(ctx: Context) -> str:
    """Say what a terminal would obey."""
    await ctx.elicit("a question\x1b[2J\n[n9] Another?", Odd)
    return "one\r\n\ttwo\x1b]0;x\x07\u202eend"


async def steers_wrong(ctx: Context) -> str:
    """The same for an error."""
    raise ToolError("wrong\x9b31m")


async def letter(to: str, ctx: Context) -> str:
    """Write a letter."""
    answer = await ctx.elicit("About what?", Word)
    return f"Dear {to}\x1b[2J, {answer.data.word if answer.action == 'accept' else ''}"


async def drawer(number: int, ctx: Context) -> str:
    """Look into a drawer."""
    answer = await ctx.elicit("Really?", Word)
    return f"{number}: {answer.data.word if answer.action == 'accept' else ''}"


def picture() -> bytes:
    """Four bytes."""
    return b"\x89PNG"


def server() -> MCPServer:
    """A new server with these tools, a prompt and resources."""
    made: MCPServer = MCPServer("desk")
    made.prompt()(letter)
    made.resource("desk://drawers/{number}")(drawer)
    made.resource("desk://picture", mime_type="image/png")(picture)
    for tool in (pick, both, asks_on, sign, fails, counts, steers, steers_wrong):
        made.tool()(tool)
    return made


async def call(url: str, *arguments: str, answers: str = "") -> subprocess.CompletedProcess[str]:
    """A call of `framehold call` from a script."""
    return await asyncio.to_thread(finished, [*RUN, "call", "--url", url, *arguments], answers=answers)


_CALL = """
import sys
from framehold_cli.call.call import Options, run
from framehold_cli.call.connection import Endpoint
from framehold_cli.call.target import CallTarget
target, words = CallTarget.of(sys.argv[3:], None, None)
sys.exit(run(target, words, Endpoint(sys.argv[2]), Options(patience=float(sys.argv[1]))))
"""


class Person(Terminal):
    """A person at a terminal. `patience`: seconds for which requests to a server that is away are retried."""

    def __init__(self, url: str, *arguments: str, patience: float = PATIENCE) -> None:
        command = [*RUN, "call", "--url", url, *arguments]
        if patience != PATIENCE:
            command = [sys.executable, "-c", _CALL, str(patience), url, *arguments]
        super().__init__(command, TERM="dumb")

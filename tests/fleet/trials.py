"""A server for faults: each tool twice, re-entrant (`x_marked`) and not (`x_unmarked`), with one body and a ledger.

A handler that comes to its gate waits there for as long as the file `gate-<call>` exists beside the ledger: that is how
a test strikes in the middle of a round. Whoever calls must say who it is, as `Bearer <user>`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import AnyHttpUrl, BaseModel

import framehold
from tests.fleet.ledger import VARIABLE, note


class Users:
    """Believes whoever says a name."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """The user of that name."""
        return AccessToken(token=token, client_id="trial", subject=token, scopes=["ask"], expires_at=None)


_URL = AnyHttpUrl("http://127.0.0.1:9")
_AUTH = AuthSettings(issuer_url=_URL, resource_server_url=_URL, required_scopes=["ask"], validate_token_resource=False)
mcp: MCPServer[Any] = MCPServer("trials", token_verifier=Users(), auth=_AUTH)


class Word(BaseModel):
    word: str


def both(handler: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """Serve a handler under two names, promised to be re-entrant under one of them. Each entry is noted."""
    for column in ("marked", "unmarked"):
        mcp.tool(name=f"{handler.__name__}_{column}")(_noted(handler, column == "marked"))
    return handler


def _noted(handler: Callable[..., Awaitable[str]], marked: bool) -> Callable[..., Awaitable[str]]:
    @functools.wraps(handler)
    async def noted(**arguments: Any) -> str:
        call = arguments["name"]
        note(call, "entered", handler.__name__)
        try:
            result = await handler(**arguments)
        except asyncio.CancelledError:
            note(call, "cancelled")
            raise
        except Exception:
            note(call, "raised")
            raise
        note(call, "ended")
        return result

    return framehold.reentrant(noted) if marked else noted


@mcp.tool()
async def greet(name: str) -> str:
    """Takes no context, so it never asks and needs no store."""
    return f"{name}: hello"


async def ask(call: str, key: str) -> str:
    """The user's word."""
    answer = await framehold.ask(key, f"{call} {key}?", Word)
    return answer.data.word if answer.action == "accept" else answer.action


async def act(call: str, key: str) -> None:
    """An effect under `once`."""
    try:
        await framehold.once(key, note, call, "effect", key)
    except framehold.InDoubt:
        note(call, "doubt", key)


async def gate(call: str) -> None:
    """Wait until it is open."""
    path = Path(os.environ[VARIABLE]).with_name(f"gate-{call}")
    note(call, "runs")
    while path.exists():
        await asyncio.sleep(0.01)
    note(call, "passed")


@both
async def errand(name: str, ctx: Context) -> str:
    """Asks twice, with an effect before, between and after; the gate is in its second round."""
    await act(name, "first")
    one = await ask(name, "one")
    await act(name, "second")
    await gate(name)
    await act(name, "third")
    two = await ask(name, "two")
    await act(name, "fourth")
    return f"{name}: {one} {two}"


@both
async def talk(name: str, ctx: Context) -> str:
    """Asks twice, and has no effects: its rounds need the store for nothing else."""
    one = await ask(name, "one")
    note(name, "passed")
    return f"{name}: {one} {await ask(name, 'two')}"


@both
async def restless(name: str, how: str, ctx: Context) -> str:
    """Does not wait for its answer: when the gate opens it finishes, raises, or asks something else as well."""
    asking = asyncio.create_task(ask(name, "one"))
    await asyncio.sleep(0)
    passing = asyncio.create_task(gate(name))
    if how == "asks":
        await passing
        return f"{name}: {' '.join(await asyncio.gather(asking, ask(name, 'two')))}"
    await asyncio.wait((asking, passing), return_when=asyncio.FIRST_COMPLETED)
    if how == "raises":
        raise ToolError(f"{name} gave up")
    return f"{name}: unanswered"


@both
async def changing(name: str, ctx: Context) -> str:
    """Its second question is another one where EDITION says so."""
    await act(name, "first")
    one = await ask(name, "one")
    await act(name, "second")
    two = await ask(name, os.environ.get("EDITION", "two"))
    return f"{name}: {one} {two}"


@both
async def deadly(name: str, ctx: Context) -> str:
    """Kills its node when it was answered."""
    await ask(name, "one")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@both
async def leaves(name: str, how: str, ctx: Context) -> str:
    """Leaves its process when it was answered: by `sys.exit`, which ends only its call, or by `os._exit`."""
    await ask(name, "one")
    if how == "os._exit":
        os._exit(3)
    sys.exit(3)


@both
@framehold.options(ttl=1)
async def brief(name: str, ctx: Context) -> str:
    """May be answered for a second."""
    return f"{name}: {await ask(name, 'one')}"

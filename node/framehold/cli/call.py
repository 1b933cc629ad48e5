"""`framehold call`: calls a tool with the official client, and puts its questions to whoever sits at the terminal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, Tool

from framehold_core.errors import ConfigError

from . import samples
from .patient import PATIENCE, PatientClient, plainly
from .terminal import Interrupted, Terminal

_LOCAL = ("127.0.0.1", "localhost", "::1")
_TIMEOUT = httpx2.Timeout(30.0, connect=5.0, read=300.0)
_ROUNDS = 100
"""A person at a terminal has more patience than the ten rounds of a client without one."""
_INTERRUPTED = 130


class CallFailed(Exception):
    """The call itself came to nothing, after it had begun."""


def run(tool: str, words: Sequence[str], url: str, patience: float = PATIENCE) -> int:
    """Call `tool` with `key=value` words; the exit code: 0, or 1 where the tool says that it failed.

    `patience`: seconds for which a server that is away is tried again.

    Raises:
        ConfigError: nobody answers at `url`, there is no such tool, or the arguments are not its own.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url} is no http address; nothing was called; name one as http://127.0.0.1:8080/mcp")
    # The client logs with tracebacks what it also raises.
    logging.getLogger().addHandler(logging.NullHandler())
    terminal = Terminal()
    http = _client(url, terminal, patience)
    try:
        return asyncio.run(_run(tool, words, url, terminal, http))
    except (Exception, KeyboardInterrupt) as error:
        # A task group of the client wraps whatever passes through it.
        first = _innermost(error)
        if isinstance(first, KeyboardInterrupt | Interrupted):
            asked = "; what was asked waits on its node until it expires" if terminal.asked else ""
            terminal.complain(f"stopped{asked}")
            return _INTERRUPTED
        if isinstance(first, ConfigError):
            raise first from None
        if isinstance(first, httpx2.HTTPError | OSError):
            # Its transport died under the client, which was cancelled with it.
            why = http.trouble or f"{plainly(first)}; whether it ran is not known"
            first = CallFailed(f"{tool} came to no result: {why}")
        if not isinstance(first, CallFailed):
            raise
        terminal.complain(str(first))
        return 1


async def _run(name: str, words: Sequence[str], url: str, terminal: Terminal, http: PatientClient) -> int:
    async with _connected(url, terminal, http) as client:
        try:
            tools = {tool.name: tool for tool in await _tools(client)}
        except MCPError as error:
            raise ConfigError(f"{url} doesn't list its tools ({error}); nothing was called") from None
        if name not in tools:
            raise ConfigError(f"there is no tool {name!r} at {url}; there are: {', '.join(tools) or 'none'}")
        arguments = samples.parsed(words, name, tools[name].input_schema)
        try:
            result = await client.call_tool(name, arguments)
        except Exception as error:
            # Of whatever kind: a refusal of the server, a connection that was lost, a result that breaks its schema.
            first = _innermost(error)
            if isinstance(first, Interrupted):
                raise
            raise CallFailed(f"{name} came to no result: {http.trouble or _said(first)}") from error
        return terminal.show(result)


def _client(url: str, terminal: Terminal, patience: float) -> PatientClient:
    return PatientClient(
        terminal.notice,
        patience,
        timeout=_TIMEOUT,
        # What stands between this machine and itself is no proxy's business.
        trust_env=urlsplit(url).hostname not in _LOCAL,
        event_hooks={"response": [terminal.answered]},
    )


@asynccontextmanager
async def _connected(url: str, terminal: Terminal, http: PatientClient) -> AsyncIterator[Client]:
    connecting = True
    try:
        async with http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(
                transport, elicitation_callback=terminal.answer, input_required_max_rounds=_ROUNDS
            ) as client:
                connecting = False
                yield client
    except Exception as error:
        first = _innermost(error)
        if not connecting or isinstance(first, ConfigError):
            raise
        raise ConfigError(
            f"nobody speaks MCP at {url} ({_said(first)}); nothing was called; start a fleet with "
            "framehold up, or name another --url"
        ) from None


async def _tools(client: Client) -> list[Tool]:
    found: list[Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None or not page.tools:
            return found


def _innermost(error: BaseException) -> BaseException:
    """The first error behind the groups that it is in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException) -> str:
    """Its words; the client's own for a response that ended too soon say nothing to a user."""
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "the connection broke before the answer was there; whether it ran is not known"
    return plainly(error)

"""`framehold call`: calls a tool with the official client, and asks its questions at the terminal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult, ElicitRequestParams, ElicitResult, Tool

from framehold_core.errors import ConfigError

from ..client import addresses
from ..client.api import Api
from ..client.credentials import Credentials
from ..client.patient import PATIENCE, PatientClient, plainly
from . import proof, samples
from .terminal import Interrupted, Terminal, Unanswered

_LOCAL = ("127.0.0.1", "localhost", "::1")
_TIMEOUT = httpx2.Timeout(30.0, connect=5.0, read=300.0)
_MAX_ROUNDS = 100
"""The most rounds of one call. A person answers more rounds than the client's default allows."""
_CLIENT_ROUNDS = 10
"""How many rounds official clients answer by default."""
_INTERRUPTED = 130


class CallFailed(Exception):
    """A call that had begun gave no result. The message says why."""


def run(
    tool: str,
    words: Sequence[str],
    url: str,
    patience: float = PATIENCE,
    credentials: Credentials | None = None,
    api: Api | None = None,
) -> int:
    """Call `tool` with `key=value` words.

    `patience`: seconds for which requests to a server that is away are retried. `credentials`: headers of each request.
    `api`: the API of the router that proves the call; None for no proof.

    Returns the exit code: 0; 1 if the tool reports an error, the call gives no result, or there is no proof; 130 after
    Ctrl-C.

    Raises:
        ConfigError: no MCP server answers at `url`, there is no such tool, or the arguments don't fit it.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url} is no http address; nothing was called; name one as http://127.0.0.1:8080/mcp")
    if api is not None:
        proof.ready(api)
    # The client logs the errors that it raises, with tracebacks. This handler drops them.
    logging.getLogger().addHandler(logging.NullHandler())
    terminal, credentials = Terminal(), credentials or Credentials()
    http = _client(url, terminal, patience, credentials)
    line = Line(url, credentials, http, terminal, api)
    try:
        return asyncio.run(_run(tool, words, line))
    except (Exception, KeyboardInterrupt) as error:
        # Task groups of the client wrap errors in exception groups.
        return _report_failure(tool, line, _innermost(error))


def _report_failure(tool: str, line: Line, why: BaseException) -> int:
    """Print why the call gave no result; return the exit code. Errors that are bugs are raised again."""
    if isinstance(why, KeyboardInterrupt | Interrupted):
        asked = "; what was asked waits on its node until it expires" if line.terminal.asked else ""
        line.terminal.complain(f"stopped{asked}")
        return _INTERRUPTED
    if isinstance(why, Unanswered):
        line.terminal.complain(
            f"stopped: {tool} asks, and there is no more input to answer with; what was asked waits on its node "
            "until it expires; give one line for each field"
        )
        return 1
    if isinstance(why, ConfigError):
        raise why from None
    if isinstance(why, httpx2.HTTPError | OSError):
        # The transport failed and cancelled the client.
        reason = line.http.trouble or f"{plainly(why)}; whether it ran is not known"
        why = CallFailed(f"{tool} came to no result: {reason}")
    if not isinstance(why, CallFailed):
        raise why
    line.terminal.complain(str(why))
    return 1


@dataclass
class Line:
    """The server at `url`, the HTTP client for it, and the terminal that answers its questions."""

    url: str
    credentials: Credentials
    http: PatientClient
    terminal: Terminal
    api: Api | None = None
    warned_of_rounds: bool = False
    """Whether the notice was printed that other clients stop after fewer rounds."""

    def refused(self) -> str:
        """Why the server's last response refused the caller; empty if it did not."""
        return self.credentials.refused(self.url, self.http.status)

    async def answer(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Ask a question at the terminal. The official client calls this for each question."""
        if self.http.rounds > _CLIENT_ROUNDS and not self.warned_of_rounds:
            self.warned_of_rounds = True
            self.terminal.notice(
                f"this is round {self.http.rounds}; official clients stop after {_CLIENT_ROUNDS} rounds: ask less, or "
                "several things at once"
            )
        return await self.terminal.answer(context, params)


async def _run(name: str, words: Sequence[str], line: Line) -> int:
    async with _connected(line) as client:
        try:
            tools = {tool.name: tool for tool in await _tools(client)}
        except MCPError as error:
            why = line.refused() or f"{line.url} doesn't list its tools ({error})"
            raise ConfigError(f"{why}; nothing was called") from None
        if name not in tools:
            raise ConfigError(f"there is no tool {name!r} at {line.url}; there are: {', '.join(tools) or 'none'}")
        arguments = samples.parsed(words, name, tools[name].input_schema)
        try:
            result = await client.call_tool(name, arguments)
        except Exception as error:
            # The client raises many kinds of error: for a refusal, a lost connection, a result that breaks its schema.
            first = _innermost(error)
            if isinstance(first, Interrupted | Unanswered):
                raise
            why = line.refused() or line.http.trouble or _reason(first)
            raise CallFailed(f"{name} came to no result: {why}") from error
        status = line.terminal.show(result)
        return status if status or line.api is None else await _proved(client, line.api, name, line, result)


async def _proved(client: Client, api: Api, name: str, line: Line, result: CallToolResult) -> int:
    try:
        print(await proof.proved(client, api, name, line.http.last, result))
    except proof.Unproved as error:
        line.terminal.complain(f"not proved: {error}")
        return 1
    return 0


def _client(url: str, terminal: Terminal, patience: float, credentials: Credentials) -> PatientClient:
    return PatientClient(
        terminal.notice,
        patience,
        headers=dict(credentials.headers),
        timeout=_TIMEOUT,
        # Requests to this machine don't go through a proxy.
        trust_env=urlsplit(url).hostname not in _LOCAL,
        event_hooks={"response": [terminal.note_node]},
    )


@asynccontextmanager
async def _connected(line: Line) -> AsyncIterator[Client]:
    connecting = True
    try:
        async with line.http:
            transport = streamable_http_client(line.url, http_client=line.http)
            async with Client(
                transport, elicitation_callback=line.answer, input_required_max_rounds=_MAX_ROUNDS
            ) as client:
                connecting = False
                yield client
    except Exception as error:
        first = _innermost(error)
        if not connecting or isinstance(first, ConfigError):
            raise
        if refused := line.refused():
            raise ConfigError(f"{refused}; nothing was called") from None
        way = "start a fleet with framehold up, or name another --url"
        if line.http.status == httpx2.codes.NOT_FOUND:
            way = f"try {addresses.endpoints(line.url)}"
        raise ConfigError(f"nobody speaks MCP at {line.url} ({_reason(first)}); nothing was called; {way}") from None


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
    """The first error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _reason(error: BaseException) -> str:
    """The error in words. The client's text for a response that broke off is replaced, because it doesn't help a
    user."""
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "the connection broke before the answer was there; whether it ran is not known"
    return plainly(error)

"""`framehold call`: calls a tool, a prompt or a resource with the official client, and answers its questions: a person
at the terminal, or a program with `--json`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, ElicitRequestParams, ElicitResult

from framehold.sdk.replies import REASON
from framehold_core import ids
from framehold_core.effects import Reason
from framehold_core.errors import ConfigError

from ..client import local_fleets
from ..client.api import ApiClient
from ..client.patient import PATIENCE, PatientClient, plainly
from . import cause, proof
from .connection import Endpoint, connected, innermost, reason
from .script import AnswerScript
from .target import CallTarget, Result
from .terminal import Interrupted, ScriptEnded, Terminal

_CLIENT_ROUNDS = 10
"""How many rounds official clients answer by default."""
_INTERRUPTED = 130
_ENDED = {
    *(Reason.LOST, Reason.STUCK, Reason.DIVERGED, Reason.OVERRAN, Reason.UNREADABLE, Reason.TOO_LARGE, Reason.PAUSED),
}
"""The reasons for which Framehold itself ends a call, or does not begin it."""


class CallFailed(Exception):
    """A call that had begun gave no result. The message says why. `outcome` is its value in JSON output: protocol_error
    if the server answered with an error, else no_result."""

    def __init__(self, message: str, outcome: str = "no_result") -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True)
class Options:
    """Options of a call. `api`: the API of the router that proves the call; None for no proof. `admin_token`: for the
    API, which says where the cause of a failed call stands. `patience`: seconds for which requests to a server that is
    away are retried."""

    api: ApiClient | None = None
    admin_token: str | None = None
    patience: float = PATIENCE


def run(
    target: CallTarget,
    words: Sequence[str],
    server: Endpoint,
    options: Options | None = None,
    script: AnswerScript | None = None,
) -> int:
    """Call `target` of `server` with `key=value` words. `script` answers the questions; None for the terminal.

    Returns the exit code: 0; 1 if the tool reports an error, the call gives no result, or there is no proof; 130 after
    Ctrl-C.

    Raises:
        ConfigError: no MCP server answers, it has no such target, or the arguments don't fit it.
    """
    options = options or Options()
    if options.api is not None:
        proof.ready(options.api)
    # The client logs the errors that it raises, with tracebacks. This handler drops them.
    logging.getLogger().addHandler(logging.NullHandler())
    caller = script or Terminal()
    http = PatientClient(
        caller.notice,
        options.patience,
        local_fleets.watch(server.url),
        # A person waits at the terminal; a program does not look.
        caller.notice if script is None else lambda _: None,
        event_hooks={"response": [caller.note_node]},
        **server.http_options,
    )
    line = Line(target, server, options, http, caller, cause.begun())
    try:
        status = asyncio.run(_run(words, line))
    except (Exception, KeyboardInterrupt) as error:
        # Task groups of the client wrap errors in exception groups.
        status = line.report(innermost(error))
    line.end(status)
    return status


@dataclass
class Line:
    """A call of `target` from `server`: the HTTP client for it, and who answers its questions. `began` is in seconds
    since 1970."""

    target: CallTarget
    server: Endpoint
    options: Options
    http: PatientClient
    caller: Terminal | AnswerScript
    began: float
    failed: bool = False
    """Whether the server reported the call as failed."""
    reason: str = ""
    """Why Framehold itself ended the call; empty if it did not."""
    warned_of_rounds: bool = False
    """Whether the notice was printed that other clients stop after fewer rounds."""

    async def answer(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Ask a question. The official client calls this for each question."""
        if self.http.rounds > _CLIENT_ROUNDS and not self.warned_of_rounds:
            self.warned_of_rounds = True
            self.caller.notice(
                f"this is round {self.http.rounds}; official clients stop after {_CLIENT_ROUNDS} rounds: ask less, or "
                "several things at once"
            )
        return await self.caller.answer(context, params)

    def report(self, why: BaseException) -> int:
        """Report why the call gave no result; return the exit code. Errors that are bugs are raised again."""
        name = self.target.name
        if isinstance(why, KeyboardInterrupt | Interrupted):
            self.caller.refuse("interrupted", f"stopped; {self._waits}" if self.caller.asked else "stopped")
            return _INTERRUPTED
        if isinstance(why, ScriptEnded):
            self.caller.refuse("unanswered", f"stopped: {name} asks, and {why}; {self._waits}")
            return 1
        if isinstance(why, ConfigError):
            raise why from None
        if isinstance(why, httpx2.HTTPError | OSError):
            # The transport failed and cancelled the client.
            trouble = self.http.trouble or f"{plainly(why)}; whether it ran is not known"
            why = CallFailed(f"{name} came to no result: {trouble}")
        if not isinstance(why, CallFailed):
            raise why
        self.failed = why.outcome == "protocol_error"
        self.caller.refuse(why.outcome, str(why))
        return 1

    @property
    def _waits(self) -> str:
        call = cause.call_of(self.http.state)
        named = f"call {ids.prefix(call)}" if call else "what was asked"
        return f"{named} waits on its node until it expires"

    def end(self, status: int) -> None:
        """Tell where the cause of a failed call stands, and end what is printed."""
        state, found = self.http.state, None
        if status and self.failed:
            server = self.server
            about = (self.caller.node, state, self.began, self.reason, server.router)
            failed = cause.Failed(self.target, server.url, *about)
            found = failed.cause(self.options.admin_token)
        self.caller.end(self.server.url, self.http.rounds, state, found)


async def _run(words: Sequence[str], line: Line) -> int:
    target, server = line.target, line.server
    async with connected(server, line.http, line.answer) as client:
        try:
            arguments = await target.arguments(client, words, server.url)
        except MCPError as error:
            why = server.refused(line.http) or f"{server.url} doesn't list its {target.kind}s ({error})"
            raise ConfigError(f"{why}; nothing was called") from None
        try:
            result = await target.send(client, arguments)
        except Exception as error:
            # The client raises many kinds of error: for a refusal, a lost connection, a result that breaks its schema.
            first = innermost(error)
            if isinstance(first, Interrupted | ScriptEnded):
                raise
            why = server.refused(line.http) or line.http.trouble
            answered = isinstance(first, MCPError) and first.code != CONNECTION_CLOSED and not why
            outcome = "protocol_error" if answered else "no_result"
            line.reason = _reason(first.data) if isinstance(first, MCPError) else ""
            raise CallFailed(f"{target.name} came to no result: {why or reason(first)}", outcome) from error
        status = line.caller.show(result)
        line.failed, line.reason = status != 0, str((result.meta or {}).get(REASON, ""))
        return status or await _proved(client, line, result)


def _reason(data: Any) -> str:
    """Why Framehold ended the call, of the `data` of a protocol error; empty if another error has another reason."""
    reason = data.get("reason") if isinstance(data, dict) else None
    return reason if reason in _ENDED else ""


async def _proved(client: Client, line: Line, result: Result) -> int:
    if line.options.api is None:
        return 0
    try:
        print(await proof.proved(client, line.options.api, line.target, line.http.last, result))
    except proof.CallUnproved as error:
        line.caller.refuse("no_result", f"not proved: {error}")
        return 1
    return 0

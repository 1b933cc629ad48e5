"""Replies to clients: the engine's answers as results that the SDK returns, or errors that it raises."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from framehold_core.effects import Reason, Refusal
from framehold_fleet.headers import NOT_HELD

REASON = "framehold/reason"
"""The key in the `_meta` of a tool's result that says why Framehold, not the tool, ended the call: a `Reason`. An error
of the protocol has it as `reason` in its `data`."""
PAUSED_RETRY_AFTER = 15
"""Seconds after which the client of a paused tool's call may try again: a pause lasts until somebody ends it."""
_DISCARD_TIMEOUT = 10.0
"""Seconds in all for which the rest of a refused body is received and thrown away."""
_DISCARD_SILENCE = 1.0
"""Seconds of silence after which the rest of a refused body is no longer received."""


class Unavailable(MCPError):
    """This node can't serve the request now; the same request may succeed in `retry_after` seconds. HTTP status 503."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(types.INTERNAL_ERROR, message)
        self.retry_after = retry_after


class NotTaken(Unavailable):
    """This node takes no new call at present. Nothing was started, and another node may take the call: a router of the
    fleet sends it there (docs/protocol.md, rule 9)."""


class Misdirected(Unavailable):
    """Another node holds the call. Framehold's HTTP entry forwards the request to `address`; on another transport the
    client gets this error."""

    def __init__(self, address: str, retry_after: int) -> None:
        again = "send the same request again, a saga's in the session that it began in"
        super().__init__(f"another node holds this call; nothing was done here; {again}", retry_after)
        self.address = address


def out_of_reach(lease_ttl: float) -> Unavailable:
    """The reply to a request whose call is held by a node that can't be reached."""
    text = "the node that holds this call can't be reached; nothing was done here; send the same request again"
    return Unavailable(text, max(1, round(lease_ttl)))


def broke_off() -> MCPError:
    """The reply to a new call that was forwarded, where nobody knows whether the other node ran it."""
    text = (
        "the node that this call was passed on to broke off before it answered; whether it was run is not known; start "
        "it again if that is safe"
    )
    return MCPError(types.INTERNAL_ERROR, text)


def cut_off() -> MCPError:
    """The reply to a request that this process cuts off, since it ends."""
    text = (
        "this node ended before it answered: whether the request was run is not known; a retry with the same "
        "requestState is answered as once; without one, start the call again if that is safe"
    )
    return MCPError(types.INTERNAL_ERROR, text)


def failed(limit: str, retry_after: int) -> Unavailable:
    """The reply to a request that met a bug of this node, or the `limit` of its system, if that is not empty."""
    why = limit or "this node met a bug, which its log shows"
    text = (
        f"{why}; whether the request was run is not known; a retry with the same requestState is answered as once; "
        "without one, start the call again if that is safe"
    )
    return Unavailable(text, retry_after)


def session_cut_off() -> MCPError:
    """The reply to a request of a session that this process cuts off, since it ends."""
    text = (
        "this node ended before it answered, and the session ended with it: whether the request was run is not known; "
        "open a new session, and start the call again if that is safe"
    )
    return MCPError(types.INTERNAL_ERROR, text)


async def too_large(why: str, receive: Receive, send: Send) -> None:
    """Refuse a body that is too large, with status 413. `why` says how large it may be."""
    await _unread(413, f"Request body too large: {why}; nothing was started", (), receive, send)


async def crowded(retry_after: int, receive: Receive, send: Send) -> None:
    """Refuse a request since too many requests hold too much memory, with status 503."""
    text = (
        "the requests that this node serves hold too much memory (FRAMEHOLD_MAX_BUFFERED, FRAMEHOLD_MEMORY_LIMIT); "
        "nothing was started; send the same request again"
    )
    await _unread(503, text, ((b"retry-after", str(retry_after).encode()),), receive, send)


async def _unread(status: int, text: str, headers: Iterable[tuple[bytes, bytes]], receive: Receive, send: Send) -> None:
    """Refuse a request whose body was not read to its end. The rest of the body is received and thrown away for a
    while: most clients read nothing before they have sent everything, and closing a connection with unread bytes would
    lose the reply."""
    body = text.encode()
    length = str(len(body)).encode()
    framing = ((b"content-type", b"text/plain"), (b"content-length", length), (b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": [*framing, *headers]})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_TIMEOUT):
            while (await asyncio.wait_for(receive(), _DISCARD_SILENCE)).get("more_body", False):
                pass
    await send({"type": "http.response.body", "body": b""})


async def not_held(scope: Scope, receive: Receive, send: Send) -> None:
    """Reply to a node that relayed a request: this node does not hold its call (docs/protocol.md, rule 19)."""
    headers = {NOT_HELD.decode(): "1"}
    await Response("this node does not hold the call", 421, headers)(scope, receive, send)


def invalid_state() -> MCPError:
    """The error for a request state that can't be used, in the words of the SDK."""
    return MCPError(types.INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})


def unreadable() -> MCPError:
    """The error for a request state that was verified, but has a part that can't be read here. The log names the
    part."""
    return MCPError(types.INTERNAL_ERROR, _ABOUT[Reason.UNREADABLE], {"reason": Reason.UNREADABLE.value})


def unmarked(method: str, params: Mapping[str, Any]) -> MCPError:
    """The error for a call under strategy replay whose handler is not marked re-entrant."""
    name = params.get("name") or params.get("uri") or method
    return MCPError(
        types.INTERNAL_ERROR,
        f"{name}: calls are replayed here, and this handler is not marked as safe to be entered again; nothing was "
        "started; its author marks it @framehold.reentrant, or @framehold.options(strategy='hold')",
    )


def refusal(answer: Refusal, method: str, retry_after: int, max_round: float) -> dict[str, Any]:
    """The reply to a request that gets neither questions nor an outcome.

    Raises:
        MCPError: the protocol's error, where the reply isn't a tool's own error result.
    """
    reason = answer.reason
    if reason is Reason.UNAVAILABLE:
        raise Unavailable(answer.detail or _UNDECIDED, retry_after)
    if reason is Reason.NOT_TAKEN:
        raise NotTaken(answer.detail, retry_after)
    if reason is Reason.CONFLICT:
        text = (
            f"this round of the call (now at round {answer.round}) was already answered otherwise; nothing was changed"
        )
        raise MCPError(types.INVALID_PARAMS, text, {"reason": "answers_conflict"})
    if reason is Reason.ALREADY_ANSWERED:
        text = answer.detail or "this round was already answered and the call has moved on; nothing was changed"
        raise MCPError(types.INVALID_PARAMS, text, {"reason": "already_answered"})
    if reason is Reason.WAITS:
        raise Unavailable(_WAITS.format(answer.detail), PAUSED_RETRY_AFTER)
    text = _ended(answer, max_round)
    ended = Reason.LOST if reason is Reason.FORGOTTEN else reason
    if method == "tools/call":
        content = [types.TextContent(type="text", text=text)]
        failed = types.CallToolResult(content=content, is_error=True, _meta={REASON: ended.value})
        return failed.model_dump(by_alias=True, mode="json", exclude_none=True)
    raise MCPError(types.INTERNAL_ERROR, text, {"reason": ended.value})


_UNDECIDED = (
    "the store did not answer, or does not show yet which node has this call, so this request can't be answered now; "
    "send the same request again"
)
_WAITS = "this tool is paused by {}; the call waits and nothing was taken; send the same request again later"
_ABOUT = {
    Reason.DIVERGED: (
        "The call can't be continued: its handler was entered again and came to something else than it did before. Its "
        "answers were not taken, and no recorded effect was run again; the server's log names both ways. Start a new "
        "call if that is safe."
    ),
    Reason.UNREADABLE: (
        "The call can't be continued here: what is recorded of it can't be read. Its answers were not taken, and no "
        "recorded effect was run again; the server's log says why. Try again later, or start a new call if that is "
        "safe."
    ),
    Reason.TOO_LARGE: (
        "The call ends here: what it has learned is too much for its token to carry. What it had done by then is done; "
        "start a new call if that is safe."
    ),
}


def _ended(answer: Refusal, max_round: float) -> str:
    """The text for the client of a call that has ended."""
    if answer.reason is Reason.OVERRAN:
        return (
            f"The round ran longer than {max_round:g} s (FRAMEHOLD_MAX_ROUND) and was cancelled. "
            "What it had done by then is done; start a new call if that is safe."
        )
    if answer.reason is Reason.STUCK:
        return "Several nodes failed while they ran this call, so it is not tried again. Tell the operator."
    if answer.reason is Reason.PAUSED:
        return (
            f"This tool is paused by {answer.detail}, and takes no new calls for now. Nothing was started. Tell the "
            "user, and try again later or do without it."
        )
    if answer.reason in _ABOUT:
        return _ABOUT[answer.reason]
    if answer.reason is Reason.FORGOTTEN:
        return (
            "This call was lost: the store of this node has no trace of it, or of its last rounds. Its handler stopped "
            f"at an unknown point after round {answer.round} of its questions, and may still be running; it was not "
            "entered again. What it had done by then is done; start a new call if that is safe."
        )
    return (
        "This call was lost. Its handler was entered once, stopped at an unknown point after round "
        f"{answer.round} of its questions, and may still be running; it was not entered again. Start a new "
        "call if that is safe."
    )


def raisable(error: BaseException) -> BaseException:
    """The exception to raise to the SDK for an error that ended a handler. An error that is no `Exception` becomes an
    internal error: the SDK would take a `CancelledError` for the end of the client's session."""
    if not isinstance(error, Exception):
        return MCPError(
            types.INTERNAL_ERROR,
            "the handler broke off from within; start the call again if that is safe",
        )
    return error

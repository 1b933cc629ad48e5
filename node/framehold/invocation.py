"""One request to a handler that may ask: begin a call, or carry one on.

`Seam` stands where the SDK's handler stood: parameters arrive validated, the request state verified and opened, and
what is returned is serialized by the SDK as always. Each request waits here for its round's reply; the handler runs
in its frame."""

from __future__ import annotations

import contextvars
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.request_state import authenticated_principal
from mcp.shared.exceptions import MCPError
from mcp_types.methods import is_input_required
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from framehold_core import journal
from framehold_core.errors import LimitExceeded

from . import hop as hops
from . import questions, replies, tokens
from .answers import MalformedAnswer
from .authoring import current
from .frames import Frame, Question
from .runtime import Runtime
from .session import Ctx, FrameContext, FrameSession
from .slots import Answer, Elsewhere, Ended, Parked

logger = logging.getLogger(__name__)

Handler = Callable[[Any, Any], Awaitable[Any]]
Connect = Callable[[Ctx], Connection]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a handler came to: a result as the SDK takes it, or what it raised."""

    result: Any = None
    error: BaseException | None = None


class Round:
    """The request that carries a round."""

    __slots__ = ("ctx", "variables")

    def __init__(self, ctx: Ctx) -> None:
        self.ctx = ctx
        self.variables = contextvars.copy_context()

    def refusal(self, question: Question) -> Outcome | None:
        """What ends the call if this client never said that it can answer `question`."""
        error = questions.missing(question, self.ctx.session.client_capabilities)
        return None if error is None else Outcome(error=error)


class Invocation:
    """How one request's handler is entered (`slots.Entrance`)."""

    __slots__ = ("_connect", "_ctx", "_handler", "_method", "_params", "_raw", "prefilled", "principal", "reentrant")

    def __init__(self, seam: Seam, ctx: Ctx, params: Any) -> None:
        self._handler, self._method, self._connect = seam.handler, seam.method, seam.connect
        self._ctx: Ctx | None = ctx
        self._params: Any = params
        self._raw = ctx.params or {}
        raw = self._raw.get("inputResponses")
        self.prefilled: dict[str, Any] = dict(raw) if isinstance(raw, dict) else {}
        self.principal = authenticated_principal(ctx)
        self.reentrant = False

    async def enter(self, frame: Frame) -> Outcome:
        """Run the handler in `frame`, whatever comes of it."""
        (ctx, self._ctx), (params, self._params) = (self._ctx, None), (self._params, None)
        assert ctx is not None, "a handler is entered once per invocation"
        session = FrameSession(frame, self._connect(ctx))
        inner = FrameContext(
            session=session,
            lifespan_context=ctx.lifespan_context,
            protocol_version=ctx.protocol_version,
            method=ctx.method,
            params=ctx.params,
        )
        del ctx
        current.set((session, None))
        try:
            return Outcome(await self._handler(inner, params))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Whatever a handler raises is its outcome: nobody would ever answer its client otherwise.
            if frame.dead and not isinstance(error, Exception):
                raise
            return Outcome(error=error)

    def describe(self) -> dict[str, str]:
        """What the record says of the call. Contents stay out: arguments and user are digests."""
        target = str(self._raw.get("name") or self._raw.get("uri") or "")
        arguments = self._raw.get("arguments") or {}
        principal = "" if self.principal is None else journal.digest(self.principal.encode("utf-8", "surrogatepass"))
        args = journal.digest(journal.canonical(arguments))
        tool = target if self._method != "resources/read" else self._method
        return {
            "tool": tool,
            "code": "",
            "method": self._method,
            "target": target,
            "args": args,
            "principal": principal,
        }

    def dump(self, outcome: object) -> bytes:
        """An outcome for its tombstone."""
        assert isinstance(outcome, Outcome)
        error = outcome.error
        if error is None:
            try:
                return b"r" + _dumped(outcome.result)
            except (TypeError, ValueError, RecursionError):
                logger.exception("a handler's result can't be written as JSON: its call ends with an error")
        told = (
            error.error
            if isinstance(error, MCPError)
            else types.ErrorData(code=types.INTERNAL_ERROR, message=_INTERNAL)
        )
        return b"e" + _dumped(told)

    def load(self, data: bytes) -> Outcome:
        """An outcome from its tombstone."""
        if data[:1] == b"e":
            return Outcome(error=MCPError.from_error_data(types.ErrorData.model_validate(json.loads(data[1:]))))
        return Outcome(json.loads(data[1:]))


_INTERNAL = "Internal server error"


def _dumped(result: Any) -> bytes:
    if isinstance(result, BaseModel):
        try:
            return result.model_dump_json(by_alias=True, exclude_none=True).encode()
        except PydanticSerializationError:
            # A lone surrogate in a text: only escapes can carry it.
            result = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return json.dumps(result).encode()


class Seam:
    """A handler whose awaits on the client suspend it. Called by the SDK like the handler that it wraps."""

    def __init__(self, handler: Handler, method: str, runtime: Runtime, connect: Connect) -> None:
        self.handler, self.method, self.runtime, self.connect = handler, method, runtime, connect

    async def __call__(self, ctx: Ctx, params: Any) -> Any:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            current.set((ctx.session, ctx.request_id))
            return await self.handler(ctx, params)
        state = (ctx.params or {}).get("requestState")
        if isinstance(state, str) and state.startswith(tokens.OURS):
            return self._told(await self._retry(ctx, params, state))
        if isinstance(state, str):
            ctx, params = _untagged(ctx, params, state)
        return self._told(await self._start(ctx, params))

    async def _start(self, ctx: Ctx, params: Any) -> Answer:
        try:
            hop = hops.of(ctx.request)
            call = None if hop is None else hop.call
            return await self.runtime.start(Invocation(self, ctx, params), Round(ctx), call)
        except LimitExceeded as error:
            raise replies.Unavailable(str(error), self._retry_after()) from None

    async def _retry(self, ctx: Ctx, params: Any, state: str) -> Answer:
        claims = tokens.read(state)
        if claims is None:
            raise replies.invalid_state()
        raw = (ctx.params or {}).get("inputResponses")
        answers = raw if isinstance(raw, dict) else {}
        try:
            return await self.runtime.retry(claims, answers, Invocation(self, ctx, params), Round(ctx))
        except MalformedAnswer as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None

    def _told(self, answer: Answer) -> Any:
        """What the SDK returns to the client for this answer."""
        runtime = self.runtime
        if isinstance(answer, Parked):
            held = runtime.heartbeat.lease
            state = tokens.mint(answer, held.node, held.boot)
            return replies.Asking(resultType="input_required", inputRequests=answer.questions, requestState=state)
        if isinstance(answer, Ended):
            outcome = answer.outcome
            assert isinstance(outcome, Outcome)
            if outcome.error is None:
                return _finished(outcome.result)
            try:
                raise _raised(outcome.error)
            finally:
                # A traceback holds its frames: one that held the outcome would be a cycle with its own error.
                del outcome, answer
        if isinstance(answer, Elsewhere):
            raise replies.Misdirected(answer.address, self._retry_after())
        return replies.refusal(answer, self.method, self._retry_after(), runtime.settings.max_round)

    def _retry_after(self) -> int:
        return max(1, round(self.runtime.settings.lease_ttl / 3))


def _raised(error: BaseException) -> BaseException:
    """What a handler raised, as the SDK takes it."""
    if not isinstance(error, Exception):
        return MCPError(
            types.INTERNAL_ERROR,
            "the handler broke off from within; start the call again if that is safe",
        )
    return error


def _finished(result: Any) -> Any:
    """A handler's own result. The state of a handler that parks by hand is tagged as its author's."""
    if not is_input_required(result):
        return result
    if isinstance(result, BaseModel):
        state = getattr(result, "request_state", None)
        return result if state is None else result.model_copy(update={"request_state": tokens.AUTHORS + state})
    state = result.get("requestState")
    return result if state is None else {**result, "requestState": tokens.AUTHORS + state}


def _untagged(ctx: Ctx, params: Any, state: str) -> tuple[Ctx, Any]:
    """An author's own state as the author wrote it."""
    if not state.startswith(tokens.AUTHORS):
        raise replies.invalid_state()
    own = state[len(tokens.AUTHORS) :]
    raw = {**(ctx.params or {}), "requestState": own}
    return replace(ctx, params=raw), params.model_copy(update={"request_state": own})

"""How one request's handler is entered, and what comes of it.

A handler is given what its first request brought, on replay too: its arguments come with each retry, sealed by digest;
answers and a state that came beside them were recorded. Its result goes back tagged, with what it learned on the way.
"""

from __future__ import annotations

import contextvars
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.request_state import authenticated_principal
from mcp.shared.exceptions import MCPError
from mcp_types.methods import is_input_required
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from framehold_core import journal
from framehold_core.errors import JournalError

from . import hop as hops
from . import questions, tokens
from .asks import NOTHING, Question
from .authoring import Present, current
from .frames import Frame
from .marks import Marks
from .runtime import Runtime
from .session import META, Ctx, FrameContext, FrameSession

logger = logging.getLogger(__name__)

Handler = Callable[[Any, Any], Awaitable[Any]]
Connect = Callable[[Ctx], Connection]


class Behind(Protocol):
    """What is known of the handlers behind a method; `handlers.Behind` is it."""

    @property
    def params_type(self) -> type[BaseModel]: ...
    def marks(self, method: str, params: Mapping[str, Any]) -> Marks: ...
    def asks(self, method: str, params: Mapping[str, Any]) -> bool: ...


class Door(Protocol):
    """Where a request came in; `seam.Seam` is it."""

    enter: Handler
    method: str
    runtime: Runtime
    connect: Connect
    behind: Behind


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

    def taken_over(self) -> None:
        """Tell whoever reads the response's head."""
        if (hop := hops.of(self.ctx.request)) is not None:
            hop.route = b"takeover"

    def refusal(self, question: Question) -> Outcome | None:
        """What ends the call if this client never said that it can answer `question`."""
        error = questions.missing(question, self.ctx.session.client_capabilities)
        return None if error is None else Outcome(error=error)


class Invocation:
    """How one request's handler is entered (`entrance.Entrance`)."""

    __slots__ = ("_ctx", "_marks", "_params", "_raw", "_seam", "given", "prefilled", "principal", "tool")

    def __init__(self, seam: Door, ctx: Ctx, params: Any) -> None:
        self._seam = seam
        self._ctx: Ctx | None = ctx
        self._params: Any = params
        # Its `_meta` is the round's: the present one's is looked up where it is wanted.
        self._raw = {name: value for name, value in (ctx.params or {}).items() if name != META}
        self._marks: Marks | None = None
        self.tool = seam.method if seam.method == "resources/read" else self._target
        """What the handler is told by: the name of a tool or a prompt; of a resource it is the method."""
        self.prefilled: Mapping[str, Any] = questions.received(ctx.params) or NOTHING
        self.given = b""
        self.principal = authenticated_principal(ctx)

    @property
    def marks(self) -> Marks:
        """What is promised of the handler, by the code that is here now."""
        if self._marks is None:
            self._marks = self._seam.behind.marks(self._seam.method, self._raw)
        return self._marks

    @property
    def _target(self) -> str:
        return str(self._raw.get("name") or self._raw.get("uri") or "")

    @property
    def reentrant(self) -> bool:
        """Whether the handler may be entered again."""
        return self.marks.reentrant

    @property
    def lifetime(self) -> float | None:
        """Seconds that a question may be answered in."""
        return self.marks.ttl

    @property
    def code(self) -> str:
        """The digest of the handler's code."""
        return self.marks.code

    @property
    def strategy(self) -> str:
        """Whether the call is held, or replayed from its token. What can't ask is never entered twice."""
        strategy = self.marks.strategy or self._seam.runtime.settings.strategy
        if strategy == "replay" and not self.reentrant and not self._seam.behind.asks(self._seam.method, self._raw):
            return "hold"
        return strategy

    def take(self) -> Invocation:
        """Begin a call: what came with the request beside its arguments is kept, since a replay must be given it."""
        given = {name: self._raw[name] for name in BESIDE if self._raw.get(name) is not None}
        if given:
            self.given = journal.canonical(given)
        return self

    async def enter(self, frame: Frame, given: bytes) -> None:
        """Run the handler in `frame`, which hears whatever comes of it. `given` is what came beside its arguments
        (`take`)."""
        ctx, self._ctx = self._ctx, None
        assert ctx is not None, "a handler is entered once per invocation"
        session = FrameSession(frame, self._seam.connect(ctx))
        current.set(Present(session, None, frame))
        try:
            raw, params = self._inputs(ctx, frame, given)
            inner = FrameContext(
                session=session,
                lifespan_context=ctx.lifespan_context,
                protocol_version=ctx.protocol_version,
                method=ctx.method,
                params=raw,
            )
            running = self._seam.enter(inner, params)
            # Whatever this frame held would stay for as long as the call is parked.
            del ctx, given, raw, inner, params, session
            outcome = Outcome(_tagged(await running, frame, self._seam.runtime.settings.max_body))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Whatever a handler raises is its outcome: nobody would ever answer its client otherwise.
            if frame.dead and not isinstance(error, Exception):
                raise
            outcome = Outcome(error=error)
        try:
            frame.ends(outcome)
        finally:
            # The error's traceback holds this frame: one that held the outcome would be a cycle with it.
            del outcome

    def _inputs(self, ctx: Ctx, frame: Frame, given: bytes) -> tuple[dict[str, Any], Any]:
        """The parameters that the handler is entered with, raw and validated."""
        params, self._params = self._params, None
        if not given and frame.replay is None:
            return self._raw, params
        beside = journal.parse(given) if given else {}
        if "requestState" in beside:
            kept = tokens.marked(beside["requestState"])
            if kept is None:
                raise JournalError(
                    "the state that this handler was entered with is of a newer release; it was not entered"
                )
            frame.learned.past.recall(kept.call or frame.learned.origin, kept.entries)
            beside["requestState"] = kept.state
        raw = {
            name: value for name, value in {**self._raw, **dict.fromkeys(BESIDE), **beside}.items() if value is not None
        }
        whole = raw if (meta := (ctx.params or {}).get(META)) is None else {**raw, META: meta}
        return raw, self._seam.behind.params_type.model_validate(whole, by_name=False)

    def failed(self, outcome: object) -> bool:
        """Whether the handler raised: the SDK makes a result of what a tool raises. One that was kept is a mapping."""
        assert isinstance(outcome, Outcome)
        result = outcome.result
        told = result.get("isError") if isinstance(result, Mapping) else getattr(result, "is_error", False)
        return outcome.error is not None or told is True

    def describe(self) -> dict[str, str]:
        """What the record says of the call. Contents stay out: arguments and user are digests."""
        arguments = self._raw.get("arguments") or {}
        principal = "" if self.principal is None else journal.digest(self.principal.encode("utf-8", "surrogatepass"))
        args = journal.digest(journal.canonical(arguments))
        return {
            "tool": self.tool,
            "code": self.code,
            "method": self._seam.method,
            "target": self._target,
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


BESIDE = ("inputResponses", "requestState")
"""What a request may bring beside its arguments."""


def _tagged(result: Any, frame: Frame, limit: int) -> Any:
    """A handler's own result. The state of a handler that parks by hand is tagged as its author's, and carries what
    the handler has learned."""
    if not is_input_required(result):
        return result
    state = state_of(result)
    entries = frame.record()
    if entries:
        told = tokens.beside(tokens.Marked(frame.learned.origin, state, entries))
    elif state is not None:
        told = tokens.AUTHORS + state
    else:
        return result
    if (excess := tokens.excess(told, limit)) is not None:
        raise MCPError(types.INTERNAL_ERROR, f"the handler's state {excess} in it")
    return with_state(result, told)


def state_of(result: Any) -> Any:
    """The state that an `input_required` result carries, as a model or as a mapping."""
    return result.get("requestState") if isinstance(result, Mapping) else result.request_state


def with_state(result: Any, state: str) -> Any:
    """The same result with another state."""
    if isinstance(result, BaseModel):
        return result.model_copy(update={"request_state": state})
    return {**result, "requestState": state}

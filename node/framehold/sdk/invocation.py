"""How the handler of one request is entered, and what its outcome is.

A handler is entered with the parameters of its call's first request, on replay too. Its arguments come with each retry,
and a digest of them is sealed in the token. Answers and a request state that came with the first request were recorded.
The handler's result is tagged, and carries the journal entries of its call.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.request_state import authenticated_principal
from mcp.shared.exceptions import MCPError
from mcp_types.methods import is_input_required
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from framehold_core import journal
from framehold_core.clock import Clock
from framehold_core.ending import COMPLETED, Ending, How
from framehold_core.errors import JournalError
from framehold_core.value import Value
from framehold_store.named import Known

from .. import json_text
from ..code import lines
from ..code.codes import LoadedCode, NotKept, NotLoaded
from ..engine import token_claims
from ..frame import contained
from ..frame.asks import NO_ANSWERS, Question
from ..frame.contained import ENDS_PROCESS, is_contained
from ..frame.frame import Frame
from ..telemetry.failures import HandlerFailure, failure_of, remembered
from . import hop as hops
from . import questions
from .marks import Marks, marks_of
from .present_call import Present, current
from .session import META, Ctx, FrameContext, FrameSession, PackedParams
from .tool_shortcut import straightened
from .wrapped_handler import FoundHandler, WrappedHandler

logger = logging.getLogger(__name__)


class Rendered(bytes):
    """The result of a tool as it goes on the wire, but for its `_meta` and the last brace."""


class HandlerOutcome(Value):
    """The outcome of a handler: a result as the SDK takes it, or the error that the handler raised. `failure` has the
    class and place of the exception behind either, if there was one. `rendered` is the result as it goes on the wire,
    in place of `result`; empty if there is an error, a failure or a result."""

    result: Any = None
    error: BaseException | None = None
    failure: HandlerFailure | None = None
    rendered: bytes = b""

    def value(self) -> Any:
        """The result, as the SDK takes it."""
        return json_text.read(self.rendered + b"}") if self.rendered else self.result


class Round:
    """The request that carries a round."""

    __slots__ = ("came", "ctx", "ending", "handler_context", "variables")

    def __init__(self, ctx: Ctx, clock: Clock) -> None:
        self.ctx = ctx
        hop = hops.of(ctx.request)
        self.came = clock.time() if hop is None else hop.came
        self.variables = contextvars.copy_context()
        self.handler_context: contextvars.Context | None = None
        self.ending: asyncio.Task[None] | None = None

    def taken_over(self) -> None:
        """Mark the response's route header: this node took the call over."""
        if (hop := hops.of(self.ctx.request)) is not None:
            hop.route = b"takeover"

    @property
    def may_be_passed_on(self) -> bool:
        """Whether the entry can pass the request on, and has not yet passed it on to a node that need not hold its
        call."""
        hop = hops.of(self.ctx.request)
        return hop is not None and hop.offers

    def passed_on(self, address: str) -> None:
        """The request goes to such a node, which has this address."""
        if (hop := hops.of(self.ctx.request)) is not None:
            hop.offers, hop.offered_to = False, address

    def runs_kept_code(self) -> None:
        """Mark the response: the call goes on with the code that it began with."""
        if (hop := hops.of(self.ctx.request)) is not None:
            hop.code = b"kept"

    def refusal(self, question: Question) -> HandlerOutcome | None:
        """The outcome of the call if the client did not declare that it can answer `question`; None if it did."""
        error = questions.missing(question, self.ctx.session.client_capabilities)
        return None if error is None else HandlerOutcome(error=error)


class Invocation:
    """Enters the handler of one request: the engine's `HandlerEntry` for handlers of the SDK."""

    __slots__ = (
        *("_ctx", "_described", "_handler", "_kept", "_marks", "_params", "_raw"),
        *("given", "prefilled", "principal", "tool", "weight"),
    )

    def __init__(self, handler: WrappedHandler, ctx: Ctx, params: Any) -> None:
        self._handler = handler
        self._ctx: Ctx | None = ctx
        self._params: Any = params
        # Without `_meta`, which belongs to the round: it is read from the present round when it is needed.
        self._raw = {name: value for name, value in (ctx.params or {}).items() if name != META}
        self._marks: Marks | None = None
        self._kept: tuple[str, bytes, Known] | None = None
        self.tool = handler.method if handler.method == "resources/read" else self._target
        """The name for logs and metrics: that of the tool or the prompt; for a resource it is the method."""
        self.prefilled: Mapping[str, Any] = questions.received(ctx.params) or NO_ANSWERS
        self.given = b""
        hop = hops.of(ctx.request)
        self.weight = 0 if hop is None else hop.weight
        self._described: dict[str, str] | None = None
        self.principal = authenticated_principal(ctx)

    @property
    def marks(self) -> Marks:
        """The marks of the handler, in the code that is entered."""
        if self._marks is None:
            self._marks = self._found.marks
        return self._marks

    @property
    def _found(self) -> FoundHandler:
        """The handler as it is registered now."""
        return self._handler.find(self._handler.method, self._raw)

    @property
    def _target(self) -> str:
        return str(self._raw.get("name") or self._raw.get("uri") or "")

    @property
    def reentrant(self) -> bool:
        """Whether the handler may be entered again."""
        return self.marks.reentrant

    @property
    def lifetime(self) -> float | None:
        """Seconds within which a question must be answered; None: the setting TOKEN_TTL."""
        return self.marks.ttl

    @property
    def code(self) -> str:
        """The digest of the handler's code; empty if it is not re-entrant: then nobody enters it again."""
        if self._kept is not None:
            return self._kept[0]
        return self._found.code() if self.reentrant else ""

    @property
    def enters_kept(self) -> bool:
        """Whether it enters kept code in place of the present code."""
        return self._kept is not None

    @property
    def known(self) -> Known:
        """The functions, classes and objects of the kept code that is entered, by their names; empty if it enters the
        present code."""
        return {} if self._kept is None else self._kept[2]

    @property
    def definition(self) -> str:
        """`file:line` of the present code of the handler; empty if it enters kept code, or this is not known."""
        return "" if self.enters_kept else lines.definition(self._found.function)

    def written(self) -> bytes:
        """The handler's code as bytes for the store. Raises NotKept."""
        if self._kept is not None:
            return self._kept[1]
        if not self.marks.keep_code:
            raise NotKept("it is marked keep_code=False")
        return self._found.written()

    def enter_kept(self, digest: str, kept: LoadedCode, data: bytes) -> None:
        """Have kept code entered in place of the present code. `data` is what it was loaded from.

        Raises:
            NotLoaded: this server can't be served so, or it is the code of another handler, whose rights the server has
                not checked.
        """
        handler, found = self._handler, kept.handler
        if not found.serves(handler.method, self._target):
            raise NotLoaded(f"it is the code of {found.method} {found.name!r}")
        try:
            enter = self._found.kept(found)
        except Exception as error:
            raise NotLoaded(f"{type(error).__name__}: {error}") from error
        if enter is None:
            raise NotLoaded("this server has a handler of its own before it")
        marks = marks_of(found.function)
        if not (found.reentrant or marks.reentrant):
            raise NotLoaded("it is not marked re-entrant")
        self._handler = replace(handler, enter=straightened(enter))
        # A function that did not change is the present one, which may have lost its mark.
        self._kept, self._marks = (digest, data, kept.known), replace(marks, reentrant=True)

    @property
    def strategy(self) -> str:
        """ "hold" or "replay". A handler that is not re-entrant and can't ask is held: it is never entered twice."""
        handler = self._handler
        strategy = self.marks.strategy or handler.runtime.settings.strategy
        if strategy == "replay" and not self.reentrant and not self._found.asks():
            return "hold"
        return strategy

    @property
    def asks(self) -> bool | None:
        """Whether the handler asks or uses `once`. True: its author marked it. False: it has no way to its client that
        could be seen. None: not known."""
        marks = self.marks
        if marks.reentrant or marks.strategy is not None or marks.ttl is not None:
            return True
        return None if self._found.takes_context() else False

    def take(self) -> Invocation:
        """Begin a call: keep the answers and the state that came with the request, since a replay needs them. Returns
        this invocation."""
        given = {name: self._raw[name] for name in BESIDE if self._raw.get(name) is not None}
        if given:
            self.given = journal.canonical(given)
        return self

    async def enter(self, frame: Frame, given: bytes) -> None:
        """Run the handler in `frame`, and report its outcome to `frame`. `given` are the answers and the state that
        came with the call's first request, as `take` kept them (canonical JSON; empty: none)."""
        if frame.dead:
            return
        outcome = None
        contained.begin()
        try:
            with frame.scope():
                running = self.call_handler(frame, given)
                # All that this Python frame refers to would stay in memory while the call is parked.
                del given
                outcome = self._made(await running, frame)
        except BaseException as error:
            # Any exception is the outcome, also one before the handler: else the client would never get a response.
            if not is_contained(error) or (frame.dead and not isinstance(error, (Exception, *ENDS_PROCESS))):
                raise
            outcome = self._failed(error, frame)
        if outcome is None:
            # The frame was cancelled, and its scope has ended the cancellation.
            return
        try:
            frame.end(outcome)
        finally:
            # The traceback of the error refers to this Python frame, and `outcome` to the error: a reference cycle.
            del outcome

    def call_handler(self, frame: Frame, given: bytes) -> Awaitable[Any]:
        """Call the handler. Nothing of it has run before what is returned is awaited."""
        ctx, self._ctx = self._ctx, None
        assert ctx is not None, "a handler is entered once per invocation"
        session = self.open_session(frame, self._handler.connect(ctx))
        raw, params = self._inputs(ctx, frame, given)
        hop = hops.of(ctx.request) if self.weight else None
        inner = FrameContext(
            session=session,
            lifespan_context=ctx.lifespan_context,
            protocol_version=ctx.protocol_version,
            method=ctx.method,
            params=self.lean(raw, None if hop is None else hop.arguments),
        )
        return self._handler.enter(inner, params)

    def open_session(self, frame: Frame, connection: Connection) -> FrameSession:
        """The session of a handler, which becomes the present call's."""
        session = FrameSession(frame, connection)
        current.set(Present(session, None, frame, tool=self.tool, method=self._handler.method))
        return session

    def _made(self, result: Any, frame: Frame) -> HandlerOutcome:
        """The outcome of a handler that has returned."""
        failure = remembered()
        if type(result) is Rendered and failure is None:
            return HandlerOutcome(rendered=result)
        if type(result) is Rendered:
            result = json_text.read(result + b"}")
        return HandlerOutcome(_tagged(result, frame, self._handler.runtime.settings.max_body), failure=failure)

    def lean(self, raw: dict[str, Any], known: Collection[str] | None) -> Any:
        """What a parked call keeps of its raw parameters. Of a heavy request nothing else stays: its digest is made
        here. `known` are the names of the arguments that its tool has; None: not known."""
        if not self.weight:
            return raw
        self._described = self.describe()
        self._raw = {name: value for name, value in self._raw.items() if name in _TARGETS}
        return PackedParams(raw, known)

    def _failed(self, error: BaseException, frame: Frame) -> HandlerOutcome:
        failure = remembered() or failure_of(error)
        if not isinstance(error, Exception | asyncio.CancelledError):
            # The SDK logs an `Exception`.
            logger.error(BROKE_OFF, self.tool or self._handler.method, *failure, extra=frame.log_fields)
        if isinstance(error, MCPError) and not _is_json(error.error):
            # Neither this client nor the tombstone could have it.
            error.error = types.ErrorData(code=error.code, message=error.message)
        return HandlerOutcome(error=error, failure=failure)

    def _inputs(self, ctx: Ctx, frame: Frame, given: bytes) -> tuple[dict[str, Any], Any]:
        """The parameters that the handler is entered with: raw, and validated."""
        params, self._params = self._params, None
        if not given and frame.replay is None:
            return self._raw, params
        beside = journal.parse(given) if given else {}
        if "requestState" in beside:
            kept = token_claims.marked(beside["requestState"])
            if kept is None:
                raise JournalError(
                    "the state that this handler was entered with is of a newer release; it was not entered"
                )
            frame.recorded.state_journal.load(kept.call or frame.recorded.origin, kept.entries)
            beside["requestState"] = kept.state
        raw = {
            name: value for name, value in {**self._raw, **dict.fromkeys(BESIDE), **beside}.items() if value is not None
        }
        whole = raw if (meta := (ctx.params or {}).get(META)) is None else {**raw, META: meta}
        return raw, self._handler.params_type.model_validate(whole, by_name=False)

    def ending(self, outcome: object) -> Ending:
        """How a call ends by this outcome. The SDK turns the exception of a tool into a result; an outcome that was
        loaded from its record is a mapping."""
        assert isinstance(outcome, HandlerOutcome)
        if outcome.rendered:
            return COMPLETED
        result, failure = outcome.result, outcome.failure
        if outcome.error is not None:
            return Ending(How.PROTOCOL_ERROR, *(failure or failure_of(outcome.error)))
        is_error = getattr(result, "is_error", None)
        if is_error is None and isinstance(result, Mapping):
            is_error = result.get("isError")
        return Ending(How.TOOL_ERROR, *(failure or ())) if is_error is True else COMPLETED

    def describe(self) -> dict[str, str]:
        """The fields of the call's record. They hold no contents: arguments and user are digests with a key of the
        fleet."""
        if self._described is not None:
            return {**self._described, "code": self.code}
        digest = self._handler.runtime.payloads.sealer.digest
        args = digest(ARGUMENTS + journal.canonical(self._raw.get("arguments") or {}))
        return {
            "tool": self.tool,
            "code": self.code,
            "method": self._handler.method,
            "target": self._target,
            "args": args,
            "principal": self.user_digest(),
        }

    def user_digest(self) -> str:
        """Who is signed in, as a digest with a key of the fleet; empty if nobody is."""
        digest, user = self._handler.runtime.payloads.sealer.digest, self.principal
        return "" if user is None else digest(b"user " + user.encode("utf-8", "surrogatepass"))

    def dump(self, outcome: object) -> bytes:
        """An outcome as bytes, for its tombstone."""
        assert isinstance(outcome, HandlerOutcome)
        error = outcome.error
        if outcome.rendered:
            return b"r" + outcome.rendered + b"}"
        if error is None:
            try:
                return b"r" + _dumped(outcome.result)
            except (TypeError, ValueError, RecursionError):
                logger.exception("a handler's result can't be written as JSON: its call ends with an error")
        data = (
            error.error
            if isinstance(error, MCPError)
            else types.ErrorData(code=types.INTERNAL_ERROR, message=_INTERNAL)
        )
        return b"e" + _dumped(data)

    def load(self, data: bytes) -> HandlerOutcome:
        """The outcome that a tombstone holds, from the bytes that `dump` made."""
        if data[:1] == b"e":
            return HandlerOutcome(error=MCPError.from_error_data(types.ErrorData.model_validate(json.loads(data[1:]))))
        return HandlerOutcome(json.loads(data[1:]))


ARGUMENTS = b"arguments "
"""Stands before the arguments in their digest in a record, so that it is no digest of anything else."""
_INTERNAL = "Internal server error"
BROKE_OFF = "the handler of %r raised %s at %s; that ended its call, and the node goes on"
"""The log line for a handler that raised what is no `Exception`: its tool, the class and the place."""


def _dumped(result: Any) -> bytes:
    if isinstance(result, BaseModel):
        try:
            return result.model_dump_json(by_alias=True, exclude_none=True).encode()
        except PydanticSerializationError:
            # A text has a lone surrogate: only an escape can carry it.
            result = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return json.dumps(result).encode()


def _is_json(error: types.ErrorData) -> bool:
    """Whether JSON can carry the `data` of an error. Logs why not."""
    if error.data is None:
        return True
    try:
        _dumped(error)
    except (TypeError, ValueError, RecursionError):
        logger.exception("the data of an error can't be written as JSON: its client gets the error without it")
        return False
    return True


_TARGETS = ("name", "uri")
"""The parameters that say which handler serves a request."""
BESIDE = ("inputResponses", "requestState")
"""The parameters that a request may have besides its name and its arguments."""


def _tagged(result: Any, frame: Frame, limit: int) -> Any:
    """The result of a handler. If it asks (the handler parks by hand), its state is tagged as the author's, and carries
    the journal entries of the call.

    Raises:
        MCPError: the state is longer than `limit` bytes allow.
    """
    if not is_input_required(result):
        return result
    state = state_of(result)
    entries = frame.state_entries()
    if entries:
        tagged = token_claims.beside(token_claims.SealedState(frame.recorded.origin, state, entries))
    elif state is not None:
        tagged = token_claims.AUTHORS + state
    else:
        return result
    if (excess := token_claims.excess(tagged, limit)) is not None:
        raise MCPError(types.INTERNAL_ERROR, f"the handler's state {excess} in it")
    return with_state(result, tagged)


def state_of(result: Any) -> Any:
    """The request state of an `input_required` result, which is a model or a mapping."""
    return result.get("requestState") if isinstance(result, Mapping) else result.request_state


def with_state(result: Any, state: str) -> Any:
    """A copy of an `input_required` result with the request state `state`."""
    if isinstance(result, BaseModel):
        return result.model_copy(update={"request_state": state})
    return {**result, "requestState": state}

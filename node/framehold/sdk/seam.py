"""The seam stands in the place of a handler of the SDK: it begins a call, or carries a call on, and waits for the reply
to the round.

The SDK has validated the parameters, and has verified and opened the request state. It serializes the result as usual.
Each request waits here, while the handler runs in its frame.
"""

from __future__ import annotations

import logging
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from framehold_core import journal
from framehold_core.errors import JournalError, LimitExceeded, NodeFull, SealError, StoreUnavailable, ValueUnreadable
from framehold_core.journal import EntryKind
from framehold_store.link import exhausted

from ..engine import token_claims
from ..engine.answer_parsing import MalformedAnswer
from ..engine.replies import Answer, Elsewhere, Ended, Parked
from ..engine.runtime import Runtime
from ..frame.logged_call import NamedCall, logged_call
from ..frame.rehearsal import rehearsal_observer
from . import hop as hops
from . import replies
from .invocation import HandlerOutcome, Invocation, Round
from .rehearsed import entered_once_more
from .session import Ctx
from .tool_shortcut import straightened
from .wrapped_handler import Connect, Find, Handler, WrappedHandler

logger = logging.getLogger(__name__)


class Seam:
    """A handler whose awaits on the client suspend it. Called by the SDK like the handler that it wraps."""

    def __init__(
        self,
        handler: Handler,
        method: str,
        params_type: type[BaseModel],
        runtime: Runtime,
        connect: Connect,
        find: Find,
        earlier: Handler,
    ) -> None:
        self.handler, self.method, self.runtime = handler, method, runtime
        enter = straightened(handler)
        if runtime.settings.rehearse:
            enter = entered_once_more(enter, method, find)
        self.wrapped = WrappedHandler(enter, method, params_type, runtime, connect, find)
        """The handler, and what its calls need."""
        self._earlier = earlier
        """Serves clients of earlier revisions, without a frame."""

    async def __call__(self, ctx: Ctx, params: Any) -> Any:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            tool = Invocation(self.wrapped, ctx, params).tool
            refusal = self.runtime.door.paused(tool)
            return await self._earlier(ctx, params) if refusal is None else self.reply(refusal)
        state = (ctx.params or {}).get("requestState")
        if token_claims.is_of_a_call(state):
            return self.reply(await self._retry(ctx, params, state))
        if isinstance(state, str):
            self._check(state)
        return self.reply(await self._start(ctx, params))

    def _check(self, state: str) -> None:
        """Raise MCPError if an author's state, or the entries recorded in it, were not made by this fleet."""
        kept = token_claims.marked(state)
        if kept is None:
            raise replies.invalid_state()
        try:
            for item in journal.decode_all(kept.entries):
                if item.kind is EntryKind.RESULT:
                    self.runtime.payloads.packed(kept.call, item)
                else:
                    self.runtime.payloads.opened(kept.call, item)
        except (JournalError, SealError, ValueUnreadable) as error:
            raise _unreadable("a state", error) from None

    async def _start(self, ctx: Ctx, params: Any) -> Answer:
        invocation = Invocation(self.wrapped, ctx, params).take()
        if invocation.strategy == "replay" and not invocation.reentrant:
            raise replies.unmarked(self.method, ctx.params or {})
        try:
            hop = hops.of(ctx.request)
            call = None if hop is None else hop.call
            answer = await self.runtime.start(invocation, Round(ctx, self.runtime.clock), call)
            if hop is not None and isinstance(answer, Parked | Ended):
                # A middleware may call on again: that is another call, and of this one something was started.
                hop.call = None
            return answer
        except Exception as error:
            raise self.failure(error, invocation.tool, begins=True) from None

    async def _retry(self, ctx: Ctx, params: Any, state: str) -> Answer:
        invocation = Invocation(self.wrapped, ctx, params)
        answers = invocation.prefilled
        try:
            if state.startswith(token_claims.REPLAY):
                carried = token_claims.carried(state)
                if carried is None:
                    raise replies.invalid_state()
                if not await self._may_replay(invocation, state):
                    raise replies.unmarked(self.method, ctx.params or {})
                logged_call.set(NamedCall(carried.call))
                return await self.runtime.replay(carried, answers, invocation, Round(ctx, self.runtime.clock))
            claims = token_claims.read(state)
            if claims is None:
                raise replies.invalid_state()
            return await self.runtime.retry(claims, answers, invocation, Round(ctx, self.runtime.clock))
        except MCPError:
            raise
        except Exception as error:
            raise self.failure(error, invocation.tool, begins=False) from None

    def failure(self, error: Exception, tool: str, *, begins: bool) -> MCPError:
        """The error for a client whose request the engine has refused, or which met a bug of this node, or a limit of
        its system. `begins` says whether the request began a call. Logs what is no refusal."""
        retry_after = self.runtime.retry_after
        if isinstance(error, MalformedAnswer | LimitExceeded):
            self.runtime.observers.call_refused(tool)
        if isinstance(error, MalformedAnswer):
            return MCPError(types.INVALID_PARAMS, str(error))
        if isinstance(error, LimitExceeded):
            is_nodes = begins and isinstance(error, NodeFull)
            return (replies.NotTaken if is_nodes else replies.Unavailable)(str(error), retry_after)
        if not begins and isinstance(error, JournalError | SealError):
            return _unreadable("a token", error)
        logger.error("a bug in the round of a request: its client is told so", exc_info=error)
        return replies.failed(exhausted(error), self.runtime.retry_after)

    async def _may_replay(self, invocation: Invocation, state: str) -> bool:
        """Whether a handler may be entered again whose call is in its token: the present code is marked, or the code
        that the call began with is kept, which was marked.

        Raises:
            Unavailable: the store did not answer.
        """
        if invocation.reentrant:
            return True
        try:
            return await self.runtime.kept_code(state) is not None
        except StoreUnavailable as error:
            raise replies.Unavailable(str(error), self.runtime.retry_after) from None

    def reply(self, answer: Answer) -> Any:
        """The engine's answer as the SDK returns it to the client.

        Raises:
            MCPError: the client gets an error.
        """
        runtime = self.runtime
        if isinstance(answer, Parked):
            held = runtime.heartbeat.lease
            state = answer.state or token_claims.mint(answer, held.node, held.boot)
            return {"resultType": "input_required", "inputRequests": answer.questions, "requestState": state}
        if isinstance(answer, Ended):
            outcome = answer.outcome
            assert isinstance(outcome, HandlerOutcome)
            if outcome.error is None:
                return outcome.value()
            try:
                raise replies.raisable(outcome.error)
            finally:
                # The traceback of the error refers to this Python frame, and `outcome` to the error: a reference cycle.
                del outcome, answer
        if isinstance(answer, Elsewhere):
            raise replies.Misdirected(answer.address, self.runtime.retry_after)
        if (observer := rehearsal_observer.get()) is not None:
            observer.refused(answer)
        return replies.refusal(answer, self.method, self.runtime.retry_after, runtime.settings.max_round)


def _unreadable(what: str, error: Exception) -> MCPError:
    """The error for a client whose token or state (`what`) holds a part that can't be read here. Logs the reason."""
    logger.error("what %s carries can't be read; the handler was not entered: %s", what, error)
    return replies.unreadable()

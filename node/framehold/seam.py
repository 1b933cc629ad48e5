"""Where the SDK's handler stood: begin a call, or carry one on, and wait for the round's reply.

Parameters arrive validated, the request state verified and opened, and what is returned is serialized by the SDK as
always. Each request waits here; the handler runs in its frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from framehold_core import journal
from framehold_core.errors import JournalError, LimitExceeded, SealError, ValueUnreadable
from framehold_core.journal import Kind

from . import hop as hops
from . import replies, tokens
from .answers import MalformedAnswer
from .authoring import Present, current
from .invocation import Behind, Connect, Handler, Invocation, Outcome, Round
from .older import OlderSession
from .runtime import Runtime
from .session import Ctx
from .slots import Answer, Elsewhere, Ended, Parked
from .straight import straightened
from .unframed import Unframed
from .witness import witness

logger = logging.getLogger(__name__)


class Seam:
    """A handler whose awaits on the client suspend it. Called by the SDK like the handler that it wraps."""

    def __init__(
        self,
        handler: Handler,
        method: str,
        runtime: Runtime,
        connect: Connect,
        behind: Behind,
        legacy: Handler | None = None,
    ) -> None:
        self.handler, self.method, self.runtime, self.connect, self.behind = handler, method, runtime, connect, behind
        self._legacy = legacy or handler
        """What clients of earlier revisions call."""
        self.enter = straightened(handler)
        """The same handler, as a frame runs it."""

    async def __call__(self, ctx: Ctx, params: Any) -> Any:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._earlier(ctx, params)
        state = (ctx.params or {}).get("requestState")
        if isinstance(state, str) and state.startswith((tokens.OURS, tokens.REPLAY)):
            return self._told(await self._retry(ctx, params, state))
        if isinstance(state, str):
            self._check(state)
        return self._told(await self._start(ctx, params))

    async def _earlier(self, ctx: Ctx, params: Any) -> Any:
        """A call of an earlier revision: it runs through here, without a frame."""
        ctx = replace(ctx, session=OlderSession(ctx))
        current.set(Present(ctx.session, ctx.request_id, None, Unframed(self.runtime.payloads.values)))
        try:
            # A drain waits for it as for a round. Over HTTP `sticky` says so, for as long as somebody listens.
            waited = contextlib.nullcontext() if ctx.request is not None else self.runtime.leaving.visited()
            with waited, self._counted():
                return await self._legacy(ctx, params)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled it: the SDK would take that for the end of the session, with all of its calls.
            raise _raised(error) from None

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Round a call of an earlier revision: as many may run as there may be frames."""
        eviction = self.runtime.eviction
        try:
            eviction.admit_earlier()
        except LimitExceeded as error:
            raise replies.Unavailable(str(error), self._retry_after()) from None
        try:
            yield
        finally:
            eviction.earlier -= 1

    def _check(self, state: str) -> None:
        """Raise where an author's state, or what is recorded beside it, was not made by this fleet."""
        kept = tokens.marked(state)
        if kept is None:
            raise replies.invalid_state()
        try:
            for item in journal.decode_all(kept.entries):
                if item.kind is Kind.RESULT:
                    self.runtime.payloads.packed(kept.call, item)
                else:
                    self.runtime.payloads.opened(kept.call, item)
        except (JournalError, SealError, ValueUnreadable) as error:
            raise _unreadable("a state", error) from None

    async def _start(self, ctx: Ctx, params: Any) -> Answer:
        invocation = Invocation(self, ctx, params).take()
        if invocation.strategy == "replay" and not invocation.reentrant:
            raise replies.unmarked(self.method, ctx.params or {})
        try:
            hop = hops.of(ctx.request)
            call = None if hop is None else hop.call
            return await self.runtime.start(invocation, Round(ctx), call)
        except LimitExceeded as error:
            self.runtime.watches.turned_away(invocation.tool)
            raise replies.Unavailable(str(error), self._retry_after()) from None

    async def _retry(self, ctx: Ctx, params: Any, state: str) -> Answer:
        invocation = Invocation(self, ctx, params)
        answers = invocation.prefilled
        try:
            if state.startswith(tokens.REPLAY):
                carried = tokens.carried(state)
                if carried is None:
                    raise replies.invalid_state()
                if not invocation.reentrant:
                    raise replies.unmarked(self.method, ctx.params or {})
                return await self.runtime.replay(carried, answers, invocation, Round(ctx))
            claims = tokens.read(state)
            if claims is None:
                raise replies.invalid_state()
            return await self.runtime.retry(claims, answers, invocation, Round(ctx))
        except MalformedAnswer as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        except LimitExceeded as error:
            self.runtime.watches.turned_away(invocation.tool)
            raise replies.Unavailable(str(error), self._retry_after()) from None
        except (JournalError, SealError) as error:
            raise _unreadable("a token", error) from None

    def _told(self, answer: Answer) -> Any:
        """What the SDK returns to the client for this answer."""
        runtime = self.runtime
        if isinstance(answer, Parked):
            held = runtime.heartbeat.lease
            state = answer.state or tokens.mint(answer, held.node, held.boot)
            return replies.Asking(resultType="input_required", inputRequests=answer.questions, requestState=state)
        if isinstance(answer, Ended):
            outcome = answer.outcome
            assert isinstance(outcome, Outcome)
            if outcome.error is None:
                return outcome.result
            try:
                raise _raised(outcome.error)
            finally:
                # A traceback holds its frames: one that held the outcome would be a cycle with its own error.
                del outcome, answer
        if isinstance(answer, Elsewhere):
            raise replies.Misdirected(answer.address, self._retry_after())
        if (watching := witness.get()) is not None:
            watching.refused(answer)
        return replies.refusal(answer, self.method, self._retry_after(), runtime.settings.max_round)

    def _retry_after(self) -> int:
        return max(1, round(self.runtime.settings.lease_ttl / 3))


def _unreadable(what: str, error: Exception) -> MCPError:
    """The reply where `what` carries something that can't be read here; the log says why."""
    logger.error("what %s carries can't be read; the handler was not entered: %s", what, error)
    return replies.unreadable()


def _raised(error: BaseException) -> BaseException:
    """What a handler raised, as the SDK takes it."""
    if not isinstance(error, Exception):
        return MCPError(
            types.INTERNAL_ERROR,
            "the handler broke off from within; start the call again if that is safe",
        )
    return error

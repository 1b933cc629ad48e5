"""A call on a revision before 2026-07-28. Its handler runs within one request, without a frame, and each question is a
request to the client.

What a handler raises ends its call, and neither its session nor the process.

`LegacySession` has the rules of a frame's session as far as that wire allows: an effect may not ask. A question is sent
on the stream of the request that is being served. A bare `list_roots()` or `create_message()` names no request. Without
a name the SDK would send it on the standalone stream, which few clients open, and nobody would answer. Where the
response can't carry a question, the standalone stream is the only way.

Private parts of the SDK that are touched here: `ServerSession._request_outbound` and `_connection`, the two ways from
one request to its client. A test names the release.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel

from framehold_core.errors import LimitExceeded

from ..engine.runtime import Runtime
from ..frame import contained
from ..frame.effect_call import refuse_inside_effect
from ..frame.entropy import SystemEntropy
from ..frame.unrecorded import Unrecorded
from ..sdk import replies
from ..sdk.invocation import BROKE_OFF
from ..sdk.present_call import Present, current
from ..sdk.questions import KINDS
from ..sdk.session import Ctx
from ..sdk.unawaited import result_or_raise
from ..sdk.wrapped_handler import Handler
from ..telemetry.failures import failure_of

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", bound=BaseModel)


class LegacySession(ServerSession):
    """The session that the handler of one request gets."""

    def __init__(self, ctx: Ctx) -> None:
        super().__init__(ctx.session._request_outbound, ctx.session._connection, request_meta=ctx.meta)
        self._request = ctx.request_id

    async def send_request(
        self,
        request: types.ServerRequest,
        result_type: type[ResultT],
        request_read_timeout_seconds: float | None = None,
        metadata: ServerMessageMetadata | None = None,
        progress_callback: ProgressFnT | None = None,
    ) -> ResultT:
        """Ask the client, on the stream of the request that is being served.

        Raises:
            AskError: an effect under `once` asks.
            MCPError: the client replied with an error, or `request_read_timeout_seconds` went by.
        """
        if (kind := KINDS.get(request.method)) is not None:
            refuse_inside_effect(kind)
        if self.can_send_request and (metadata is None or metadata.related_request_id is None):
            metadata = ServerMessageMetadata(related_request_id=self._request)
        return await super().send_request(
            request, result_type, request_read_timeout_seconds, metadata, progress_callback
        )


class LegacyCalls:
    """Runs `handler` for clients of earlier revisions. The seam calls it with the context and the parameters."""

    def __init__(self, handler: Handler, runtime: Runtime) -> None:
        self._handler, self._runtime = handler, runtime
        self._entropy = SystemEntropy(runtime.clock)

    async def __call__(self, ctx: Ctx, params: Any) -> Any:
        """Run the handler to its end within this request.

        Raises:
            Unavailable: this node runs as many such calls as it may hold frames; nothing was started.
        """
        ctx = replace(ctx, session=LegacySession(ctx))
        tool, unrecorded = (
            str((ctx.params or {}).get("name") or ctx.method),
            Unrecorded(self._runtime.payloads.values, self._entropy),
        )
        current.set(Present(ctx.session, ctx.request_id, None, unrecorded, tool, ctx.method))
        contained.begin()
        try:
            # A drain waits for this call. Over HTTP `session_affinity` counts it, while its client listens.
            waited = contextlib.nullcontext() if ctx.request is not None else self._runtime.draining.visited()
            with waited, self._counted():
                result = await self._handler(ctx, params)
            return result if unrecorded.failed is None else result_or_raise(unrecorded.failed)
        except Exception:
            raise
        except BaseException as error:
            if not _ends_its_call(error):
                raise
            if not isinstance(error, asyncio.CancelledError):
                logger.error(BROKE_OFF, tool, *failure_of(error))
            raise replies.raisable(error) from None
        finally:
            unrecorded.ended = True

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a call while it runs. As many calls may run as there may be frames."""
        eviction = self._runtime.eviction
        try:
            eviction.admit_earlier()
        except LimitExceeded as error:
            raise replies.Unavailable(str(error), self._runtime.retry_after) from None
        try:
            yield
        finally:
            eviction.earlier -= 1


def _ends_its_call(error: BaseException) -> bool:
    """Whether an error that is no `Exception` ends one call: not if this task is cancelled, or this process is to end.
    The SDK would take it for the end of the session with all its calls."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return contained.is_contained(error)

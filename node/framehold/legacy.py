"""Handlers that return their questions, served to clients of revisions before 2026-07-28.

Such a client never calls again with answers. It is asked over its live session instead, while its request stays open,
and the handler is entered again with what it said, as a client of the present revision would have it:

1. the handler returns an `InputRequiredResult`; its state is sealed as for the wire
2. each question in it is sent as a request of its own, on the stream of the call; all of them at once
3. the sealed state goes through the same verification as any client's: expiry, arguments, user
4. the handler is entered again with this round's answers alone, and that state
5. so on, until it returns a result, or `max_rounds` are over

Answers have the shape that their revision wants; what is in them is the handler's to check. A failure is the call's
result where the call is a tool's (`isError`), as those clients show it, and an error elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any
from uuid import uuid4

import mcp_types as types
from mcp.server.request_state import RequestStateBoundary
from mcp.server.validation import wants_sampling_tools
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.methods import is_input_required
from pydantic import BaseModel, ValidationError

from . import questions, replies, tokens
from .config import Settings
from .invocation import BESIDE, Handler, state_of, with_state
from .session import Ctx

logger = logging.getLogger(__name__)

_PAUSE = 0.25
"""Seconds before a handler that asked nothing is entered again."""


class _Failed(Exception):
    """The call can't be carried on; `error` says why."""

    def __init__(self, error: MCPError) -> None:
        self.error = error


class Shim:
    """A handler as clients of earlier revisions can call it. `boundary` seals and verifies its states."""

    def __init__(
        self,
        handler: Handler,
        method: str,
        params_type: type[BaseModel],
        boundary: RequestStateBoundary,
        settings: Settings,
    ) -> None:
        self._handler, self._method, self._params_type = handler, method, params_type
        self._boundary, self._settings = boundary, settings

    async def __call__(self, ctx: Ctx, params: Any) -> Any:
        if isinstance((ctx.params or {}).get("requestState"), str):
            # Nothing that was handed out on this wire: there the state never leaves this process.
            raise replies.invalid_state()
        result = await self._handler(ctx, params)
        if not is_input_required(result):
            return result
        try:
            return await self._carry_on(ctx, result)
        except _Failed as failed:
            logger.info("a %s of an older client ends: %s", self._method, failed.error.error.message)
            if self._method != "tools/call":
                raise failed.error from None
            text = types.TextContent(type="text", text=failed.error.error.message)
            return types.CallToolResult(content=[text], is_error=True)

    async def _carry_on(self, ctx: Ctx, result: Any) -> Any:
        """Ask and enter again until there is a result that doesn't ask."""
        base = {name: value for name, value in (ctx.params or {}).items() if name not in BESIDE}

        async def first(_: Ctx) -> Any:
            return _tagged(result)

        told = await self._boundary(replace(ctx, params=base), first)
        for _ in range(self._settings.max_rounds):
            asked = _read(told)
            if asked is None:
                return told
            answers = await self._answers(ctx, asked.input_requests or {})
            given = {"inputResponses": answers or None, "requestState": asked.request_state}
            beside = {name: value for name, value in given.items() if value is not None}
            told = await self._boundary(replace(ctx, params={**base, **beside}), self._enter)
        if not is_input_required(told):
            return told
        limit = f"{self._settings.max_rounds} rounds (FRAMEHOLD_MAX_ROUNDS)"
        raise _failed(f"the handler still asks after {limit}; it was not entered again; what it had done is done")

    async def _enter(self, ctx: Ctx) -> Any:
        """One more round of the handler, its state opened."""
        raw = dict(ctx.params or {})
        if isinstance(state := raw.get("requestState"), str):
            raw["requestState"] = state.removeprefix(tokens.AUTHORS)
        return _tagged(
            await self._handler(replace(ctx, params=raw), self._params_type.model_validate(raw, by_name=False))
        )

    async def _answers(self, ctx: Ctx, asked: dict[str, types.InputRequest]) -> dict[str, Any]:
        """What the client says to each question. None is asked unless all can be."""
        if not asked:
            await asyncio.sleep(_PAUSE)
            return {}
        legs = [leg(request) for request in asked.values()]
        for request, expected in legs:
            self._check(ctx, request, expected)
        asking = [asyncio.ensure_future(self._ask(ctx, *leg)) for leg in legs]
        try:
            return dict(zip(asked, await asyncio.gather(*asking), strict=True))
        finally:
            # The first that fails ends the call. The others are withdrawn before its response ends their stream.
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)

    def _check(self, ctx: Ctx, request: types.ServerRequest, expected: type[BaseModel]) -> None:
        """Raise where this client can't be asked."""
        # First of all: where nothing can be sent, a stateless request says nothing of its client either.
        if not ctx.session.can_send_request:
            raise _failed(
                f"{request.method} can't be sent: this connection has no stream from server to client, so the client "
                "can't be asked; nothing was asked; serve it, and connect, with a session that streams"
            )
        question = questions.question(request, expected)
        assert question is not None, "what a result may carry is a question"
        refused = questions.missing(question, ctx.session.client_capabilities)
        if refused is not None:
            raise _Failed(refused)

    async def _ask(self, ctx: Ctx, request: types.ServerRequest, expected: type[BaseModel]) -> dict[str, Any]:
        """One question as a request on the stream of the call; progress puts its limit off."""
        limit, loop = self._settings.round_timeout, asyncio.get_running_loop()
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        try:
            async with asyncio.timeout(limit) as waiting:

                async def progressed(progress: float, total: float | None, message: str | None) -> None:
                    if not waiting.expired():
                        waiting.reschedule(loop.time() + limit)

                answer = await ctx.session.send_request(
                    request, expected, metadata=related, progress_callback=progressed
                )
        except TimeoutError:
            raise _failed(
                f"no answer to {request.method} came within {limit:g} s (FRAMEHOLD_ROUND_TIMEOUT); the handler was not "
                "entered again; what it had done is done"
            ) from None
        except MCPError as error:
            raise _failed(f"{request.method} failed at the client: {error.error.message}") from None
        except ValidationError:
            raise _failed(f"the client's answer to {request.method} is malformed; it was not taken") from None
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def for_older(
    handler: Handler,
    method: str,
    params_type: type[BaseModel],
    boundary: RequestStateBoundary,
    settings: Settings,
) -> Handler:
    """What clients of earlier revisions call in place of `handler`."""
    if settings.legacy_shim:
        return Shim(handler, method, params_type, boundary, settings)

    async def bare(ctx: Ctx, params: Any) -> Any:
        result = await handler(ctx, params)
        if is_input_required(result):
            raise _unshimmed(ctx, method)
        return result

    return bare


def _unshimmed(ctx: Ctx, method: str) -> MCPError:
    """The reply where a handler returned its questions to a client that knows no such result."""
    logger.warning(
        "a handler returned its questions to a %s of an older client, and legacy_shim is off: nothing was asked, its "
        "client is told so; turn legacy_shim on, or branch on framehold.era(ctx)",
        method,
    )
    return MCPError(
        types.INTERNAL_ERROR,
        f"the handler returned its questions, which no client of revision {ctx.protocol_version} understands, and "
        "legacy_shim is off, so nothing was asked; what the handler had done is done; its author turns legacy_shim on "
        "(FRAMEHOLD_LEGACY_SHIM=true), or branches on framehold.era(ctx)",
    )


def _failed(why: str) -> _Failed:
    return _Failed(MCPError(types.INTERNAL_ERROR, why))


def _read(result: Any) -> types.InputRequiredResult | None:
    """What a handler asks; None where it doesn't.

    Raises:
        MCPError: it asks in a way that no revision knows.
    """
    if not is_input_required(result):
        return None
    if isinstance(result, types.InputRequiredResult):
        return result
    try:
        return types.InputRequiredResult.model_validate(result, by_name=False)
    except ValidationError as error:
        logger.error("a handler's input_required result is malformed; its client was not asked: %s", error)
        raise MCPError(
            types.INTERNAL_ERROR, "the handler's input_required result is malformed; nothing was asked"
        ) from None


def _tagged(result: Any) -> Any:
    """A result with its state marked as its author's, so that it can't pass for one of ours."""
    state = state_of(result) if is_input_required(result) else None
    return with_state(result, tokens.AUTHORS + state) if isinstance(state, str) else result


def leg(request: types.InputRequest) -> tuple[Any, type[BaseModel]]:
    """A question as a request of an earlier revision, and what its answer is."""
    if isinstance(request, types.ListRootsRequest):
        return request, types.ListRootsResult
    if isinstance(request, types.CreateMessageRequest):
        tools = wants_sampling_tools(request.params.tools, request.params.tool_choice)
        return request, types.CreateMessageResultWithTools if tools else types.CreateMessageResult
    params = request.params
    if isinstance(params, types.ElicitRequestURLParams) and params.elicitation_id is None:
        # Their revision wants one; the present one has none.
        named = params.model_copy(update={"elicitation_id": str(uuid4())})
        request = request.model_copy(update={"params": named})
    return request, types.ElicitResult

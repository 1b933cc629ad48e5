"""Handlers that return their questions, served to clients of revisions before 2026-07-28.

Such a client never calls again with answers. It is asked over its live session instead, while its request stays open.
Then the handler is entered again with the answers, as it would be by a retry of 2026-07-28:

1. the handler returns an `InputRequiredResult`; its state is sealed as for the wire
2. each of its questions is sent as a request, on the stream of the call; all questions are sent at once
3. the sealed state is verified like that of any client: expiry, arguments, user
4. the handler is entered again with this round's answers only, and with that state; it draws the same values again
5. this repeats until the handler returns a result, or `max_rounds` are over

Answers have the form of the client's revision; the handler has to check their content. A failure becomes an error
result (`isError`) if the call is one of a tool, since those clients show it; otherwise it becomes an error.
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

from ..config import Settings
from ..engine import token_claims
from ..sdk import questions, replies
from ..sdk.invocation import BESIDE, state_of, with_state
from ..sdk.present_call import present
from ..sdk.session import Ctx
from ..sdk.wrapped_handler import Handler

logger = logging.getLogger(__name__)

_PAUSE = 0.25
"""Seconds before a handler that asked nothing is entered again."""


class _Failed(Exception):
    """The call can't be carried on; `error` has the reason."""

    def __init__(self, error: MCPError) -> None:
        self.error = error


class Shim:
    """Serves a handler to clients of earlier revisions. `boundary` seals and verifies its states."""

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
            # No client of this wire ever got a state: on this wire it never leaves the process.
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
        """Ask the client and enter the handler again, until its result doesn't ask."""
        base = {name: value for name, value in (ctx.params or {}).items() if name not in BESIDE}

        async def first(_: Ctx) -> Any:
            return _tagged(result)

        reply = await self._boundary(replace(ctx, params=base), first)
        for _ in range(self._settings.max_rounds):
            asked = _read(reply)
            if asked is None:
                return reply
            answers = await self._answers(ctx, asked.input_requests or {})
            given = {"inputResponses": answers or None, "requestState": asked.request_state}
            beside = {name: value for name, value in given.items() if value is not None}
            reply = await self._boundary(replace(ctx, params={**base, **beside}), self._enter)
        if not is_input_required(reply):
            return reply
        limit = f"{self._settings.max_rounds} rounds (FRAMEHOLD_MAX_ROUNDS)"
        raise _failed(f"the handler still asks after {limit}; it was not entered again; what it had done is done")

    async def _enter(self, ctx: Ctx) -> Any:
        """Enter the handler for one more round. The boundary has opened its state."""
        present("a handler that returns its questions").recorder().begin_again()
        raw = dict(ctx.params or {})
        if isinstance(state := raw.get("requestState"), str):
            raw["requestState"] = state.removeprefix(token_claims.AUTHORS)
        return _tagged(
            await self._handler(replace(ctx, params=raw), self._params_type.model_validate(raw, by_name=False))
        )

    async def _answers(self, ctx: Ctx, asked: dict[str, types.InputRequest]) -> dict[str, Any]:
        """Ask the client, and return its raw answers by key. No question is sent unless all of them can be sent."""
        if not asked:
            await asyncio.sleep(_PAUSE)
            return {}
        requests = [legacy_request(request) for request in asked.values()]
        for request, expected in requests:
            self._check(ctx, request, expected)
        asking = [asyncio.ensure_future(self._ask(ctx, *item)) for item in requests]
        try:
            return dict(zip(asked, await asyncio.gather(*asking), strict=True))
        finally:
            # The first failure ends the call. The other questions are cancelled before the response ends their stream.
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)

    def _check(self, ctx: Ctx, request: types.ServerRequest, expected: type[BaseModel]) -> None:
        """Raise `_Failed` if this client can't be asked."""
        # This check is the first: a connection that can't send has no capabilities of its client either.
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
        """Send one question as a request on the stream of the call, and return the raw answer. Progress that the client
        reports restarts the time limit."""
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
    """The handler that clients of earlier revisions call instead of `handler`."""
    if settings.legacy_shim:
        return Shim(handler, method, params_type, boundary, settings)

    async def bare(ctx: Ctx, params: Any) -> Any:
        result = await handler(ctx, params)
        if is_input_required(result):
            raise _unshimmed(ctx, method)
        return result

    return bare


def _unshimmed(ctx: Ctx, method: str) -> MCPError:
    """The error for a client that does not know results with questions. Logs the case."""
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
    """The result of a handler as a model if it asks; None if it does not.

    Raises:
        MCPError: the result asks, but is malformed.
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
    """A result whose state is tagged as the author's, so that it can't pass for one of Framehold's."""
    state = state_of(result) if is_input_required(result) else None
    return with_state(result, token_claims.AUTHORS + state) if isinstance(state, str) else result


def legacy_request(request: types.InputRequest) -> tuple[Any, type[BaseModel]]:
    """A question as a request of an earlier revision, and the type of its answer."""
    if isinstance(request, types.ListRootsRequest):
        return request, types.ListRootsResult
    if isinstance(request, types.CreateMessageRequest):
        tools = wants_sampling_tools(request.params.tools, request.params.tool_choice)
        return request, types.CreateMessageResultWithTools if tools else types.CreateMessageResult
    params = request.params
    if isinstance(params, types.ElicitRequestURLParams) and params.elicitation_id is None:
        # Earlier revisions require an elicitation id; 2026-07-28 has none.
        named = params.model_copy(update={"elicitation_id": str(uuid4())})
        request = request.model_copy(update={"params": named})
    return request, types.ElicitResult

"""Sagas: calls of tools on another wire, for clients that take the questions of a call as steps.

    tools/callSaga    name, arguments               ->  a result, or state "suspended", sagaToken and steps
    tools/resumeSaga  sagaToken, completedSteps     ->  a result, or state "suspended", sagaToken and steps

The law: behind this file a saga is a `tools/call` of 2026-07-28. A request is translated before any other middleware
sees it, and its result is translated after all of them. So one tool serves both wires, every middleware guards both
wires, and the revision on which a saga came does not matter. What the SDK checks of a `tools/call` before its
middlewares, it checks of the translated request: `Mcp-Name` and `Mcp-Param-*` say tool and arguments of a saga, and of
each resume those of its token. `Mcp-Method` says the saga's own method.

    token   seals the parameters of the call, which a resume doesn't repeat (`saga_token`)
    step    has the id <key>#<n>: the key of a question, and the number of the answer that is wanted under this key

Each resume brings all steps that were completed so far. The steps of earlier rounds have other numbers than the steps
that are asked now, so they are ignored: the journal is the truth. If a step failed at its client, the error is raised
in the handler that awaits the answer. A handler that parks by hand awaits nothing, so its call ends there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import methods
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from framehold_core import token
from framehold_core.errors import SealError
from framehold_store.seal import Sealer

from ..engine import token_claims
from ..sdk.inbound import check_translated
from ..sdk.middleware_chain import chained, dumped
from ..sdk.questions import ClientError, without_failures
from ..sdk.replies import invalid_state
from ..sdk.session import Ctx
from . import saga_token
from .saga_token import Saga

logger = logging.getLogger(__name__)

CALL, RESUME, TOKEN = "tools/callSaga", "tools/resumeSaga", "sagaToken"
METHODS = frozenset((CALL, RESUME))

CAN = types.ClientCapabilities(
    elicitation=types.ElicitationCapability(
        form=types.FormElicitationCapability(), url=types.UrlElicitationCapability()
    ),
    sampling=types.SamplingCapability(tools=types.SamplingToolsCapability()),
)
"""The capabilities of a saga's client: the kinds of question that there is a step for. Such a client declares none."""

_VERSION_META = "fastmcp"
"""The key of `_meta` under which a client of FastMCP names the version of a tool."""
_STEPS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling"}

SessionOf = Callable[[Ctx, types.ClientCapabilities], ServerSession]


class Sagas:
    """The outermost middleware of a server. `limit` is the largest size of a request in bytes. `session_of` gives a
    session for a request, as if the client had declared the given capabilities."""

    def __init__(self, server: Server[Any], sealer: Sealer, limit: int, session_of: SessionOf) -> None:
        self._server, self._sealer, self._limit, self._session_of = server, sealer, limit, session_of

    def __call__(self, ctx: Ctx, call_next: Any) -> Any:
        """Serve a request of a saga, and pass any other request on.

        Raises:
            MCPError: the token of a saga was sent as a `requestState`.
        """
        if ctx.method not in METHODS or ctx.request_id is None:
            state = None if ctx.params is None else ctx.params.get("requestState")
            if isinstance(state, str) and saga_token.is_one(state):
                raise _invalid("this requestState is the token of a saga; send it as sagaToken of tools/resumeSaga")
            return call_next(ctx)
        return self._call(ctx) if ctx.method == CALL else self._resume(ctx)

    async def _call(self, ctx: Ctx) -> dict[str, Any]:
        params = ctx.params or {}
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise _malformed("name", "a text, the tool's name")
        if not isinstance(arguments, dict | None):
            raise _malformed("arguments", "an object")
        meta = params.get("_meta")
        version = meta.get(_VERSION_META) if isinstance(meta, dict) else None
        saga = Saga(name, arguments or {}, version, {}, None)
        if (excess := token_claims.excess(saga_token.written(saga), self._limit)) is not None:
            raise _refused(f"arguments: they are part of a saga's token, and these {excess}")
        return await self._run(ctx, saga, None)

    async def _resume(self, ctx: Ctx) -> dict[str, Any]:
        params = ctx.params or {}
        saga, completed = _opened(params.get(TOKEN), self._sealer), _completed(params.get("completedSteps"))
        answers, given = dict[str, Any](), dict(saga.given)
        for step, raw in completed.items():
            key, _, number = step.rpartition("#")
            if number == str(saga.given.get(key, 0) + 1):
                answers[key], given[key] = raw, int(number)
        try:
            return await self._run(ctx, saga._replace(given=given), answers)
        except MCPError as error:
            # The state inside the token was refused, so the token is invalid.
            raise _invalid() if error.error == invalid_state().error else error from None

    async def _run(self, ctx: Ctx, saga: Saga, answers: dict[str, Any] | None) -> dict[str, Any]:
        """Run one round of the call through the other middlewares. Returns the reply as it goes on the saga's wire."""
        meta = (ctx.params or {}).get("_meta")
        if saga.chosen is not None:
            meta = {**(meta or {}), _VERSION_META: saga.chosen}
        beside = {"inputResponses": answers, "requestState": saga.state, "_meta": meta}
        params = {name: value for name, value in beside.items() if value is not None}
        inner = replace(
            ctx,
            method="tools/call",
            params={"name": saga.name, "arguments": saga.arguments, **params},
            protocol_version=LATEST_MODERN_VERSION,
            session=self._session_of(ctx, CAN),
        )
        await check_translated(self._server, ctx, inner)
        chain = self._server.middleware
        reply = dumped(await chained(chain[chain.index(self) + 1 :], self._enter)(inner))
        if methods.is_input_required(reply):
            reply = self._suspended(saga, reply)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return {name: value for name, value in reply.items() if name != "resultType"}
        stamp = {types.SERVER_INFO_META_KEY: self._server.server_info_stamp}
        return {**reply, "_meta": {**stamp, **(reply.get("_meta") or {})}}

    async def _enter(self, ctx: Ctx) -> dict[str, Any]:
        """The end of the chain: enter the handler, as the SDK does, for a call whose answers may be failures."""
        entry = self._server.get_request_handler(ctx.method)
        if entry is None:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        params = dict(ctx.params or {})
        if token_claims.is_of_a_call(params.get("requestState")):
            # Each answer is parsed by its own question, so they need no validation here.
            ctx = replace(ctx, params=without_failures(params))
            params.pop("inputResponses", None)
        for key, raw in params.get("inputResponses", {}).items():
            if isinstance(raw, ClientError):
                text = f"{key} failed at the client: {raw['error']['message']}; the handler was not entered again"
                return dumped(types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True))
        result = dumped(await entry.handler(ctx, entry.params_type.model_validate(params, by_name=False)))
        if result.get("resultType", "complete") not in types.CORE_RESULT_TYPES:
            return result
        try:
            return methods.serialize_server_result(ctx.method, ctx.protocol_version, result)
        except ValidationError:
            logger.exception("the handler of %s returned a result that is none; its client is told so", ctx.method)
            raise MCPError(types.INTERNAL_ERROR, "Handler returned an invalid result") from None

    def _suspended(self, saga: Saga, asking: dict[str, Any]) -> dict[str, Any]:
        """The reply of a saga whose call asks: its questions as steps."""
        asked = asking.get("inputRequests") or {}
        steps = [_step(key, saga.given.get(key, 0) + 1, request) for key, request in asked.items()]
        parked = saga._replace(state=asking.get("requestState"))
        if (excess := token_claims.excess(saga_token.written(parked), self._limit)) is not None:
            raise MCPError(types.INTERNAL_ERROR, f"the saga's state {excess}")
        wire = saga_token.sealed(parked, self._sealer)
        reply = {"resultType": "complete", "state": "suspended", TOKEN: wire, "steps": steps}
        return {**reply, "_meta": asking["_meta"]} if "_meta" in asking else reply


def _opened(wire: Any, sealer: Sealer) -> Saga:
    """The content of a saga's token.

    Raises:
        MCPError: the token was not made by this fleet, or belongs to `tools/call`.
    """
    if not isinstance(wire, str):
        raise _malformed(TOKEN, "a text, as it was received")
    if not saga_token.is_one(wire):
        other = "this sagaToken is no saga's; a requestState is sent back with the method that it came from"
        raise _invalid(other if token.parse(wire) is not None else "")
    try:
        saga = saga_token.opened(wire, sealer)
    except (SealError, ValueError):
        logger.warning("a sagaToken was refused: it is forged, or its key is not among FRAMEHOLD_KEYS")
        raise _invalid() from None
    if saga is None:
        raise _invalid()
    return saga


def _step(key: str, number: int, request: dict[str, Any]) -> dict[str, Any]:
    """A question as a step. `number` tells which answer under this key is wanted, counted from 1.

    Raises:
        MCPError: there is no step for this kind of question, which a handler that parks by hand has asked.
    """
    kind = _STEPS.get(request["method"])
    if kind is None:
        why = f"a saga has no step for {request['method']!r}; it was not asked; call this tool with tools/call"
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, why)
    return {"type": kind, "stepId": f"{key}#{number}", "params": request.get("params", {})}


def _completed(steps: Any) -> dict[str, Any]:
    """The raw answers by the id of their step.

    Raises:
        MCPError: `steps` is malformed; nothing was consumed.
    """
    if not isinstance(steps, list):
        raise _malformed("completedSteps", "a list of all steps that were completed so far")
    found: dict[str, Any] = {}
    for index, item in enumerate(steps):
        place = f"completedSteps[{index}]"
        if not isinstance(item, dict) or not isinstance(item.get("stepId"), str):
            raise _malformed(place, "an object with a stepId")
        if item["stepId"] in found:
            raise _malformed(place, "the only one with its stepId")
        result, error = item.get("result"), item.get("error")
        if (result is None) == (error is None):
            raise _malformed(place, "an object with either a result or an error")
        if result is not None and not isinstance(result, dict):
            raise _malformed(f"{place}.result", "an object")
        found[item["stepId"]] = _failure(place, error) if result is None else result
    return found


def _failure(place: str, error: Any) -> ClientError:
    fields = error if isinstance(error, dict) else {}
    if type(fields.get("code")) is not int or not isinstance(fields.get("message"), str):
        raise _malformed(f"{place}.error", "an object with a whole number as code and a text as message")
    return ClientError(error={name: fields[name] for name in ("code", "message", "data") if name in fields})


def _invalid(why: str = "") -> MCPError:
    return MCPError(types.INVALID_PARAMS, why or "Invalid or expired sagaToken", {"reason": "invalid_saga_token"})


def _malformed(field: str, wanted: str) -> MCPError:
    return _refused(f"{field} must be {wanted}")


def _refused(why: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, f"{why}; nothing was done")

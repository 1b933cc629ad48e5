"""The SDK's boundary, for which arguments are equal that are equal in JSON.

The boundary binds a request state to a digest of the arguments as they are written. A gateway that encodes a request
again writes 1 for 1.0, or 1e2 for 100: the client's own arguments would be refused. Here the digest is made of
arguments in which each number is written in one way. The handler gets them as they came, and what it changes in them
does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from mcp.server.context import CallNext
from mcp.server.request_state import RequestStateBoundary
from mcp_types.methods import INPUT_REQUIRED_METHODS, is_input_required

from framehold_core import journal

from .session import Ctx, PackedParams


class Binding:
    """Binds a request state to its user. A class of this kind may bind it to more that the `_meta` of a request says,
    if that is under no key of MCP's."""

    def __init__(self, user_of: Callable[[Ctx], str | None] | None) -> None:
        self.user_of = user_of

    def __call__(self, ctx: Ctx) -> str | None:
        return None if self.user_of is None else self.user_of(ctx)


class Boundary(RequestStateBoundary):
    """Seals and opens request states, as the SDK's does."""

    def __call__(self, ctx: Ctx, call_next: CallNext) -> Coroutine[Any, Any, Any]:
        """Serve a request. The state of a first request is bound to its arguments as they came: the handler may change
        the lists and objects in them before it asks."""
        params = ctx.params or {}
        given = params.get("arguments")
        is_first = ctx.method in INPUT_REQUIRED_METHODS and params.get("requestState") is None
        if is_first and type(given) is dict and any(type(value) in (dict, list) for value in given.values()):
            return self._begin(PackedParams({"arguments": given}, None), ctx, call_next)
        return super().__call__(ctx, call_next)

    async def _begin(self, came: PackedParams, ctx: Ctx, call_next: CallNext) -> Any:
        result = await call_next(ctx)
        if not is_input_required(result):
            return result
        return self._seal_result(replace(ctx, params={**(ctx.params or {}), **came.read()}), result, None)

    def sealed(self, ctx: Ctx, result: dict[str, Any]) -> dict[str, Any]:
        """A result whose state, if it has one, is sealed for the request of `ctx`."""
        return self._seal_result(ctx, result, None)  # type: ignore[return-value]

    def _unseal(self, ctx: Ctx) -> Any:
        return super()._unseal(_in_one_way(ctx))

    def _seal(self, ctx: Ctx, state: str, binding: Any = None) -> str:
        return super()._seal(_in_one_way(ctx) if binding is None else ctx, state, binding)


def _in_one_way(ctx: Ctx) -> Ctx:
    """The same context, with arguments in which each number is written in one way."""
    given = (ctx.params or {}).get("arguments")
    written = journal.in_one_way(given)
    return ctx if written is given else replace(ctx, params={**(ctx.params or {}), "arguments": written})

"""Runs a request through the server's middlewares, and turns the result into a mapping."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.request_state import RequestStateBoundary
from mcp.shared.exceptions import MCPError

from .session import Ctx

Call = Callable[[Ctx], Awaitable[Any]]


PASSES = "passes"
"""The mark of a middleware of Framehold's that hands a `tools/call` of this revision on as it is."""


def all_pass(middlewares: Sequence[Any], boundary: RequestStateBoundary) -> bool:
    """Whether a plan may go past these middlewares: one is `boundary`, whose part `token` has, and all others are
    marked `PASSES`."""
    others = [item for item in middlewares if item is not boundary]
    is_whole = len(others) == len(middlewares) - 1
    return is_whole and all(getattr(item, "framehold", False) == PASSES for item in others)


def chained(middlewares: Sequence[Any], call: Call) -> Call:
    """A function that runs a request through `middlewares`, the first of them outermost, and then through `call`."""
    for middleware in reversed(middlewares):
        call = partial(_through, middleware, call)
    return call


def _through(middleware: Any, call: Call, ctx: Ctx) -> Any:
    return middleware(ctx, call)


def dumped(result: Any) -> dict[str, Any]:
    """The result of a chain as a mapping. It is a model or an error where a middleware replied by itself.

    Raises:
        MCPError: the result is an error.
    """
    if isinstance(result, dict):
        return result
    if isinstance(result, types.ErrorData):
        raise MCPError.from_error_data(result)
    return dict(result.model_dump(by_alias=True, mode="json", exclude_none=True)) if result is not None else {}

"""The metric `mcp.server.operation.duration`, by OpenTelemetry's own means: how long each request took, as MCP's
conventions have it (https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/).

The law: bounded, whatever clients send: a method that nobody serves, and a tool that is not known, is `other`. A
request that is passed on is the other node's. The middleware is there only where somebody collects metrics.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.methods import is_input_required
from opentelemetry import metrics
from opentelemetry.util.types import AttributeValue
from pydantic import ValidationError

from . import clock
from .names import OTHER, Names
from .replies import Misdirected
from .session import Ctx

NAME = "mcp.server.operation.duration"
_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""As the conventions want them."""
_ALWAYS = {"initialize", "notifications/initialized", "notifications/cancelled", "ping"}
"""What the SDK answers without a handler."""
_TOOL_ERROR = "tool_error"


def provided() -> bool:
    """Whether somebody collects metrics: what stands in until then is of the API's own package."""
    return not type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics.")


class Operations:
    """A middleware that measures what is behind it. `names` are the tools that it tells apart."""

    framehold = True

    def __init__(self, server: Server[Any], names: Names) -> None:
        self._server, self._names = server, names
        meter = metrics.get_meter("framehold")
        self._durations = meter.create_histogram(
            NAME,
            "s",
            "How long one MCP request took, as its server saw it.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    async def __call__(self, ctx: Ctx, call_next: Any) -> Any:
        began = clock.now()
        try:
            result = await call_next(ctx)
        except Misdirected:
            raise
        except BaseException as error:
            self._record(ctx, began, _error(error), asks=False)
            raise
        self._record(ctx, began, _TOOL_ERROR if _failed(ctx, result) else "", asks=is_input_required(result))
        return result

    def _record(self, ctx: Ctx, began: float, error: str, *, asks: bool) -> None:
        self._durations.record(clock.now() - began, self._attributes(ctx, error, asks))

    def _attributes(self, ctx: Ctx, error: str, asks: bool) -> dict[str, AttributeValue]:
        told: dict[str, AttributeValue] = {
            "mcp.method.name": ctx.method if self._serves(ctx.method) else OTHER,
            "mcp.protocol.version": ctx.protocol_version,
            "network.transport": "pipe" if ctx.request is None else "tcp",
        }
        if ctx.method == "tools/call":
            name = (ctx.params or {}).get("name")
            known = isinstance(name, str) and self._names.known(name, asks)
            told |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": str(name) if known else OTHER}
        return {**told, "error.type": error} if error else told

    def _serves(self, method: str) -> bool:
        found = self._server.get_request_handler(method) or self._server.get_notification_handler(method)
        return found is not None or method in _ALWAYS


def _failed(ctx: Ctx, result: Any) -> bool:
    """Whether a tool's result says that it failed, as a model or as a mapping."""
    if ctx.method != "tools/call":
        return False
    return result.get("isError") is True if isinstance(result, dict) else getattr(result, "is_error", False) is True


def _error(error: BaseException) -> str:
    """What kind of error it is: a code that its client is told, or a class."""
    if isinstance(error, MCPError):
        return str(error.error.code)
    if isinstance(error, ValidationError):
        return str(types.INVALID_PARAMS)
    return type(error).__qualname__

"""The metric `mcp.server.operation.duration`: how long each request took. It is sent through OpenTelemetry, by the
conventions for MCP (https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/).

The law: labels are bounded, whatever clients send. An unserved method and an unknown tool have the label `other`. A
request that is forwarded is measured by the other node. The middleware is added only if a meter provider is set.
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

from framehold_store import system_clock

from ..sdk.replies import Misdirected
from ..sdk.session import Ctx
from ..telemetry.tool_labels import OTHER, ToolLabels

NAME = "mcp.server.operation.duration"
_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The bounds that the conventions prescribe, in seconds."""
_WITHOUT_HANDLER = {"initialize", "notifications/initialized", "notifications/cancelled", "ping"}
"""Methods that the SDK serves without a handler."""
_TOOL_ERROR = "tool_error"


def provided() -> bool:
    """Whether a meter provider is set. Until then the provider is a class of the API's own package."""
    return not type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics.")


class OperationMetrics:
    """A middleware that measures the request behind it. `names` are the tools that may be labels."""

    def __init__(self, server: Server[Any], names: ToolLabels) -> None:
        self._server, self._names = server, names
        meter = metrics.get_meter("framehold")
        self._durations = meter.create_histogram(
            NAME,
            "s",
            "How long one MCP request took, as its server saw it.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    async def __call__(self, ctx: Ctx, call_next: Any) -> Any:
        began = system_clock.now()
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
        self._durations.record(system_clock.now() - began, self._attributes(ctx, error, asks))

    def _attributes(self, ctx: Ctx, error: str, asks: bool) -> dict[str, AttributeValue]:
        attributes: dict[str, AttributeValue] = {
            "mcp.method.name": ctx.method if self._serves(ctx.method) else OTHER,
            "mcp.protocol.version": ctx.protocol_version,
            "network.transport": "pipe" if ctx.request is None else "tcp",
        }
        if ctx.method == "tools/call":
            name = (ctx.params or {}).get("name")
            known = isinstance(name, str) and self._names.known(name, asks)
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": str(name) if known else OTHER}
        return {**attributes, "error.type": error} if error else attributes

    def _serves(self, method: str) -> bool:
        found = self._server.get_request_handler(method) or self._server.get_notification_handler(method)
        return found is not None or method in _WITHOUT_HANDLER


def _failed(ctx: Ctx, result: Any) -> bool:
    """Whether the result of a tool (a model or a mapping) is an error result."""
    if ctx.method != "tools/call":
        return False
    return result.get("isError") is True if isinstance(result, dict) else getattr(result, "is_error", False) is True


def _error(error: BaseException) -> str:
    """The type of an error: the code that the client gets, or the name of the exception's class."""
    if isinstance(error, MCPError):
        return str(error.error.code)
    if isinstance(error, ValidationError):
        return str(types.INVALID_PARAMS)
    return type(error).__qualname__

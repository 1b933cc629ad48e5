"""What a handler's context says of its request, whichever host made it: an MCPServer's `Context`, the low-level
`ServerRequestContext`, or FastMCP's `Context`, which is told by its shape since it need not be installed."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_types import InputResponse, InputResponseRequestParams

from framehold_core.errors import NotInCall

from .witness import misused

Answers = Mapping[str, InputResponse]
"""What came with a round, by the keys that were asked under."""


def version(ctx: object, what: str) -> str:
    """The protocol version of the request that `ctx` is for. `what` asks, in errors.

    Raises:
        NotInCall: `ctx` belongs to no request. TypeError: it is no context.
    """
    if hasattr(ctx, "protocol_version"):
        found = ctx.protocol_version
    elif hasattr(ctx, "request_context"):
        found = getattr(ctx.request_context, "protocol_version", None)
    else:
        raise _no_context(ctx, what)
    if isinstance(found, str):
        return found
    raise misused(
        NotInCall(
            f"{what} was given a context outside a request; nothing was read or decided; call it in a tool, prompt or "
            "resource, with the context that its handler was given"
        )
    )


def answers(ctx: object, what: str) -> Answers:
    """The answers that came with the round that `ctx` is for; of a low-level handler its `params` have them too.

    Raises:
        NotInCall: `ctx` belongs to no request. TypeError: it is no context.
    """
    if isinstance(ctx, Mapping):
        return ctx
    if hasattr(ctx, "protocol_version") or hasattr(ctx, "request_context"):
        version(ctx, what)
    if hasattr(ctx, "input_responses"):
        found: Answers | None = ctx.input_responses
    elif hasattr(ctx, "params"):
        raw = ctx.params if isinstance(ctx.params, Mapping) else {}
        found = InputResponseRequestParams.model_validate(dict(raw), by_name=False).input_responses
    else:
        raise _no_context(ctx, what)
    return found or {}


def _no_context(ctx: object, what: str) -> TypeError:
    return misused(
        TypeError(
            f"{what} takes the context that a handler was given, not {type(ctx).__name__}; nothing was read; hand it "
            "the handler's `ctx`"
        )
    )

"""The context of a handler: how it is recognised, and what it tells about its request, for all kinds of server.

There are three kinds of context: the `Context` of an MCPServer, the `ServerRequestContext` of a low-level server, and
the `Context` of FastMCP. The first and the last have an attribute `request_context`, by which they are recognised:
fastmcp need not be installed, so its class can't be imported here.

`framehold.hosts` decides which kind of server an author has. This file recognises a context without a server: `era` and
the readers get only a context from the author, and a `ToolBuilder` sees only the type of a parameter.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import InputResponse, InputResponseRequestParams

from framehold_core.errors import NotInCall

from ..frame.rehearsal import misused

Answers = Mapping[str, InputResponse]
"""The answers of a round, by the keys of their questions."""


def is_context_type(annotation: Any) -> bool:
    """Whether `annotation` is the class of a context, or has one among its parts, as `Context[Any, Any]` or
    `Context | None` does."""
    kinds = (annotation, typing.get_origin(annotation), *typing.get_args(annotation))
    classes = [kind for kind in kinds if isinstance(kind, type)]
    return any(issubclass(kind, ServerRequestContext) or hasattr(kind, "request_context") for kind in classes)


def version(ctx: object, what: str) -> str:
    """The protocol version of the request that `ctx` is for. `what` names the caller in errors.

    Raises:
        NotInCall: `ctx` belongs to no request. TypeError: `ctx` is no context.
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
    """The answers that came with the round that `ctx` is for. `ctx` may also be the `params` of a low-level handler, or
    the mapping of answers itself. `what` names the caller in errors.

    Raises:
        NotInCall: `ctx` belongs to no request. TypeError: `ctx` is none of these.
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

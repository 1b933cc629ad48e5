"""A tool of an MCPServer, run straight from its frame: past the coroutines of the SDK's that only wait for one another.

The law: what a client is told and what is logged is the SDK's, word for word; a test plays both ways. Where there is
something between that is not the SDK's (a subclass, an extension that intercepts, a patch of one of its layers) or the
tool is not the ordinary kind (not async, with parameters from `Resolve`), the SDK's own way is taken.

Each of those layers would hold itself and the request for as long as the frame is parked: 3 KB of them.

Of the SDK's private parts these are touched; a test names the release and what was read off:

- `MCPServer._handle_call_tool`: the way that is shortened
- `MCPServer._tool_manager`, `_subscriptions`: the tools by name, and what a `Context` publishes on
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from operator import is_
from types import FunctionType, MethodType
from typing import Any

from mcp.server.elicitation import ElicitationResult, ElicitSchemaModelT, elicit_with_validation
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError, UnexpectedResourceError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool, ToolManager
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, TextContent
from pydantic import ValidationError

Handler = Callable[[Any, Any], Awaitable[Any]]

_log = logging.getLogger("mcp.server.mcpserver.server")
"""The SDK's: whoever follows a tool's failures follows them there."""
LAYERS: tuple[tuple[type[Any], str], ...] = (
    (MCPServer, "_handle_call_tool"),
    (MCPServer, "call_tool"),
    (ToolManager, "call_tool"),
    (Tool, "run"),
    (FuncMetadata, "call_fn"),
    (Context, "__init__"),
    (Context, "elicit"),
)
"""What is passed over, from the handler down to the author's function, what that is given, and what it asks through."""
_NO_FIELDS: set[str] = set()
"""One empty set for all: none has a field to set."""


def _sdks(owner: type[Any], layer: Any) -> bool:
    """Whether a layer is as its release has it: whoever patched it wants to be called."""
    return isinstance(layer, FunctionType) and layer.__code__.co_filename == inspect.getfile(owner)


_PRESENT = [getattr(owner, name) for owner, name in LAYERS]
_OWN = _PRESENT if all(_sdks(owner, layer) for (owner, _), layer in zip(LAYERS, _PRESENT, strict=True)) else []


class ToolContext(Context[Any, Any]):
    """What a tool is given. As the SDK's, but what waits for an answer is `elicit_with_validation` alone, and pydantic,
    which would find no field to validate in six times as long, is not asked to make it."""

    def __init__(
        self,
        *,
        request_context: Any = None,
        mcp_server: Any = None,
        input_params: Any = None,
        subscriptions: Any = None,
    ) -> None:
        private = {
            "_request_context": request_context,
            "_mcp_server": mcp_server,
            "_input_params": input_params,
            "_subscriptions": subscriptions,
        }
        object.__setattr__(self, "__pydantic_private__", private)
        object.__setattr__(self, "__pydantic_fields_set__", _NO_FIELDS)
        object.__setattr__(self, "__pydantic_extra__", None)

    def elicit(
        self, message: str, schema: type[ElicitSchemaModelT]
    ) -> Coroutine[Any, Any, ElicitationResult[ElicitSchemaModelT]]:
        """Ask the user: see `Context.elicit`."""
        return elicit_with_validation(session=self.request_context.session, message=message, schema=schema)


def straightened(handler: Handler) -> Handler:
    """The same handler by the shorter way, where it is an MCPServer's own for its tools."""
    if not isinstance(handler, MethodType) or handler.__func__ is not MCPServer._handle_call_tool:
        return handler
    server: Any = handler.__self__
    whole: Handler = handler

    def enter(ctx: Any, params: CallToolRequestParams) -> Awaitable[Any]:
        manager = server._tool_manager
        tool = manager.get_tool(params.name)
        if tool is None or not _ordinary(server, manager, tool):
            return whole(ctx, params)
        return _run(server, tool, ctx, params)

    return enter


def _untouched() -> bool:
    # By identity: what wraps a layer may well say that it equals it.
    present = [getattr(owner, name) for owner, name in LAYERS]
    return bool(_OWN) and all(map(is_, present, _OWN))


def _ordinary(server: MCPServer[Any], manager: ToolManager, tool: Tool) -> bool:
    kinds = type(tool) is Tool and type(tool.fn_metadata) is FuncMetadata and type(manager) is ToolManager
    whole = kinds and type(server).call_tool is MCPServer.call_tool
    touched = "call_tool" in vars(server) or "call_tool" in vars(manager)
    return whole and not touched and tool.is_async and not tool.resolved_params and _untouched()


async def _run(server: MCPServer[Any], tool: Tool, ctx: Any, params: CallToolRequestParams) -> Any:
    """What `MCPServer._handle_call_tool` and the layers below it come to."""
    beside = params if params.input_responses is not None or params.request_state is not None else None
    context: ToolContext | None = ToolContext(
        request_context=ctx, mcp_server=server, input_params=beside, subscriptions=server._subscriptions
    )
    try:
        arguments: dict[str, Any] | None = _validated(tool, params.arguments or {})
        if tool.context_kwarg is not None:
            arguments = {**(arguments or {}), tool.context_kwarg: context}
        try:
            running = tool.fn(**(arguments or {}))
            # Nothing is held that the handler doesn't hold.
            arguments = context = beside = ctx = None
            del params
            result = await running
            return tool.fn_metadata.convert_result(result)
        except MCPError:
            raise
        except Exception as error:
            raise _failure(tool.name, error) from error
    except MCPError:
        raise
    except Exception as failure:
        return _told(tool.name, failure)


def _validated(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return tool.fn_metadata.validate_arguments(arguments)
    except ValidationError as error:
        raise ToolError(f"Error executing tool {tool.name}: {error}") from error
    except MCPError:
        raise
    except Exception as error:
        raise UnexpectedToolError(f"Error executing tool {tool.name}") from error


def _failure(name: str, error: Exception) -> ToolError:
    """What a tool raised, as the SDK tells it: a crash's own words stay here."""
    if isinstance(error, (UnexpectedToolError, UnexpectedResourceError)):
        return UnexpectedToolError(f"Error executing tool {name}: {error}")
    if isinstance(error, (ToolError, ResourceError)):
        return ToolError(f"Error executing tool {name}: {error}")
    return UnexpectedToolError(f"Error executing tool {name}")


def _told(name: str, failure: Exception) -> CallToolResult:
    if not isinstance(failure, ToolError) or isinstance(failure, UnexpectedToolError):
        _log.error("Tool %r raised an unexpected exception", name, exc_info=failure)
    elif isinstance(failure.__cause__, ValidationError):
        # Field names only: what was rejected is the caller's.
        fields = sorted({".".join(str(part) for part in item["loc"]) for item in failure.__cause__.errors()})
        _log.info("Tool %r rejected arguments: %r", name, fields)
    else:
        _log.info("Tool %r failed: %r", name, str(failure))
    return CallToolResult(content=[TextContent(type="text", text=str(failure))], is_error=True)

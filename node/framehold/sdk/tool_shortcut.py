"""Runs a tool of an MCPServer directly from its frame, without the SDK's layers of coroutines between them. Each layer
would keep itself and the request in memory while the frame is parked: 3 KB in all.

The law: results and log lines are those of the SDK, word for word. A test plays both ways. The SDK's own way is taken
where something else stands between (a subclass, an extension that intercepts, a patched layer), and for a tool that has
parameters from `Resolve`. On that way, too, the first of the layers is this module's: it makes the error result, and
the exception behind that is not seen below it.

Private parts of the SDK that are touched here; a test names the release and checks them:

- `MCPServer._handle_call_tool`: the first of the layers
- `MCPServer._tool_manager`, `_subscriptions`: the tools by name, and the bus on which a `Context` publishes
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from operator import is_
from types import FunctionType, MethodType
from typing import Any

import anyio.to_thread
from mcp.server.elicitation import (
    AcceptedElicitation,
    ElicitationResult,
    ElicitSchemaModelT,
    elicit_with_validation,
)
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError, UnexpectedResourceError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool, ToolManager
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, ElicitResult, TextContent
from pydantic import ValidationError

from ..telemetry.failures import remember
from . import form_schemas, questions
from .session import FrameSession
from .wrapped_handler import Handler

_log = logging.getLogger("mcp.server.mcpserver.server")
"""The SDK's logger: operators look there for the failures of tools."""
LAYERS: tuple[tuple[type[Any], str], ...] = (
    (MCPServer, "_handle_call_tool"),
    (MCPServer, "call_tool"),
    (ToolManager, "call_tool"),
    (Tool, "run"),
    (FuncMetadata, "validate_arguments"),
    (FuncMetadata, "call_fn"),
    (FuncMetadata, "convert_result"),
    (Context, "__init__"),
    (Context, "elicit"),
)
"""The layers that are skipped, from the handler down to the author's function; then those of the `Context` that the
function gets and asks through."""
_NO_FIELDS: set[str] = set()
"""Shared by all contexts: a context has no field that could be set."""


def _is_unpatched(owner: type[Any], layer: Any) -> bool:
    """Whether a layer is the SDK's own function. A patched layer must be called."""
    return isinstance(layer, FunctionType) and layer.__code__.co_filename == inspect.getfile(owner)


def _present_layers() -> list[Any]:
    return [getattr(owner, name) for owner, name in LAYERS]


def _own_layers() -> list[Any]:
    """The functions of the layers at import; none if one of them is patched already."""
    layers = _present_layers()
    unpatched = all(_is_unpatched(owner, layer) for (owner, _), layer in zip(LAYERS, layers, strict=True))
    return layers if unpatched else []


_OWN_LAYERS = _own_layers()
_OWNERS, _NAMES = zip(*LAYERS, strict=True)


class ToolContext(Context[Any, Any]):
    """The context that a tool gets: the SDK's `Context`, made faster and with a smaller `elicit`.

    Pydantic does not make it: there is no field to validate, and it would take six times as long. While a question
    waits, the only coroutine of it is `elicit_with_validation`."""

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
        # Not by `request_context`: pydantic looks a private attribute up in Python.
        session = self.__pydantic_private__["_request_context"].session  # type: ignore[index]
        form = form_schemas.kept(schema) if type(session) is FrameSession else None
        question = None if form is None else questions.written_form(message, form)
        if question is None:
            return elicit_with_validation(session=session, message=message, schema=schema)
        return _elicited(session.ask(question), schema)


async def _elicited(asking: Awaitable[ElicitResult], schema: type[ElicitSchemaModelT]) -> Any:
    """What `elicit_with_validation` returns for the answer that `asking` brings."""
    result = await asking
    if result.action == "accept" and result.content is not None:
        with contextlib.suppress(ValidationError):
            return AcceptedElicitation(data=schema.model_validate(result.content))
    # Any other answer, and a form that is not filled in as it should be, in the SDK's words.
    answered: Any = _Answered(result)
    return await elicit_with_validation(session=answered, message="", schema=schema)


class _Answered:
    """A session whose user has given the answer `result` to every form."""

    def __init__(self, result: ElicitResult) -> None:
        self._result = result

    async def elicit_form(self, **_: Any) -> ElicitResult:
        return self._result


def straightened(handler: Handler) -> Handler:
    """A shorter handler if `handler` is the method by which an MCPServer serves its tools; else `handler` itself.

    The handler decides this, not the server: an MCPServer with an extension has another handler, and the low-level
    server of an MCPServer has this one even if it was attached by itself.
    """
    if not isinstance(handler, MethodType) or handler.__func__ is not MCPServer._handle_call_tool:
        return handler
    server: Any = handler.__self__
    sdk_way: Handler = handler

    def enter(ctx: Any, params: CallToolRequestParams) -> Awaitable[Any]:
        manager = server._tool_manager
        tool = manager.get_tool(params.name)
        if tool is not None and is_ordinary(server, manager, tool):
            beside = params if params.input_responses is not None or params.request_state is not None else None
            context = tool_context(server, ctx, beside)
            metadata = tool.fn_metadata
            return run(tool, context, params.arguments, metadata.validate_arguments, metadata.convert_result)
        patched = not _OWN_LAYERS or MCPServer._handle_call_tool is not _OWN_LAYERS[0]
        return sdk_way(ctx, params) if patched else _through_layers(server, ctx, params)

    return enter


def is_served(handler: Any, server: MCPServer[Any]) -> bool:
    """Whether `handler` is the method by which `server` serves its tools."""
    is_method = isinstance(handler, MethodType) and handler.__func__ is MCPServer._handle_call_tool
    return is_method and handler.__self__ is server


def is_ordinary(server: MCPServer[Any], manager: ToolManager, tool: Tool) -> bool:
    """Whether only the SDK's own layers stand before `tool`, and it has no parameters from `Resolve`."""
    kinds = type(tool) is Tool and type(tool.fn_metadata) is FuncMetadata and type(manager) is ToolManager
    whole = kinds and type(server).call_tool is MCPServer.call_tool
    touched = "call_tool" in vars(server) or "call_tool" in vars(manager)
    # By identity: a wrapper of a layer may be equal to it.
    unpatched = bool(_OWN_LAYERS) and all(map(is_, map(getattr, _OWNERS, _NAMES), _OWN_LAYERS))
    return whole and not touched and not tool.resolved_params and unpatched


async def _through_layers(server: MCPServer[Any], ctx: Any, params: CallToolRequestParams) -> Any:
    """Call the tool as `MCPServer._handle_call_tool` does, through the layers below that."""
    context = Context(request_context=ctx, mcp_server=server, input_params=params, subscriptions=server._subscriptions)
    try:
        return await server.call_tool(params.name, params.arguments or {}, context)
    except MCPError:
        raise
    except Exception as failure:
        return _error_result(params.name, failure)


def tool_context(server: MCPServer[Any], ctx: Any, beside: CallToolRequestParams | None = None) -> ToolContext:
    """The context that a tool gets. `beside` are the parameters of the request if it brings answers or a state."""
    return ToolContext(request_context=ctx, mcp_server=server, input_params=beside, subscriptions=server._subscriptions)


async def run(
    tool: Tool,
    context: ToolContext | None,
    given: dict[str, Any] | None,
    validate: Callable[[dict[str, Any]], dict[str, Any]],
    convert: Callable[[Any], Any],
) -> Any:
    """Run a tool with the arguments that a request has given, as `validate` makes them. The result, which `convert`
    makes of what the author's function returns, and the log lines are those of `MCPServer._handle_call_tool` and the
    layers below it."""
    try:
        arguments: dict[str, Any] | None = _validated(tool, given or {}, validate)
        if tool.context_kwarg is not None:
            arguments = {**(arguments or {}), tool.context_kwarg: context}
        try:
            if tool.is_async:
                running = tool.fn(**(arguments or {}))
            else:
                running = anyio.to_thread.run_sync(functools.partial(tool.fn, **(arguments or {})))
            # While the handler is suspended, this coroutine keeps nothing in memory that the handler does not.
            arguments = context = given = None
            return convert(await running)
        except MCPError:
            raise
        except Exception as error:
            raise _failure(tool.name, error) from error
    except MCPError:
        raise
    except Exception as failure:
        return _error_result(tool.name, failure)


def _validated(
    tool: Tool, arguments: dict[str, Any], validate: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    try:
        return validate(arguments)
    except ValidationError as error:
        raise ToolError(f"Error executing tool {tool.name}: {error}") from error
    except MCPError:
        raise
    except Exception as error:
        raise UnexpectedToolError(f"Error executing tool {tool.name}") from error


def _failure(name: str, error: Exception) -> ToolError:
    """The SDK's error for an exception of a tool. The text of an unexpected exception is not given to the client."""
    if isinstance(error, (UnexpectedToolError, UnexpectedResourceError)):
        return UnexpectedToolError(f"Error executing tool {name}: {error}")
    if isinstance(error, (ToolError, ResourceError)):
        return ToolError(f"Error executing tool {name}: {error}")
    return UnexpectedToolError(f"Error executing tool {name}")


def _error_result(name: str, failure: Exception) -> CallToolResult:
    """Log the failure of a tool as the SDK does, and return it as an error result. Its class and place are kept for the
    record of the call."""
    remember(failure)
    if not isinstance(failure, ToolError) or isinstance(failure, UnexpectedToolError):
        _log.error("Tool %r raised an unexpected exception", name, exc_info=failure)
    elif isinstance(failure.__cause__, ValidationError):
        # Names of fields only: their values belong to the caller.
        fields = sorted({".".join(str(part) for part in item["loc"]) for item in failure.__cause__.errors()})
        _log.info("Tool %r rejected arguments: %r", name, fields)
    else:
        _log.info("Tool %r failed: %r", name, str(failure))
    return CallToolResult(content=[TextContent(type="text", text=str(failure))], is_error=True)

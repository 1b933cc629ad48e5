"""The two forms of a FastMCP component's result: the form that is kept, and the form that FastMCP's middleware gets.

In its frame a result becomes a result of the protocol, which a tombstone can hold and a client can be sent. On its way
out, through the middleware of the round that gets it, it becomes a result of FastMCP again. An exception of a tool is
raised again there, if it still exists in memory; otherwise the middleware gets the error result of the client.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, NoReturn

import mcp_types as types
from fastmcp.exceptions import DisabledError, FastMCPError, NotFoundError, to_mcp_error
from fastmcp.prompts import Message, PromptResult
from fastmcp.prompts.base import InputRequiredPromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.resources.base import InputRequiredResourceResult
from fastmcp.tools import base as tools
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types.methods import is_input_required
from pydantic import PrivateAttr

from framehold_core.errors import causes

from ..telemetry.failures import remember

_ANY_VALUE: type[ToolResult] | None = getattr(tools, "RawStructuredToolResult", None)
"""FastMCP's result of a tool whose structured content may be any value; None in FastMCP 4.1, where it is an object."""


Failed = FastMCPError | DisabledError | NotFoundError
"""What FastMCP raises for a tool."""


class Raised(types.CallToolResult):
    """The error result of a tool, and the exception that the tool raised."""

    _error: Failed = PrivateAttr()

    def __init__(self, error: Failed, name: str) -> None:
        # The text is FastMCP's.
        unknown = isinstance(error, DisabledError | NotFoundError)
        text = f"Unknown tool: {name!r}" if unknown else str(error)
        super().__init__(content=[types.TextContent(type="text", text=text)], is_error=True)
        remember(error)
        self._error = _untraced(error)

    def again(self) -> NoReturn:
        """Raise the exception again."""
        try:
            raise self._error
        finally:
            # The traceback refers to this Python frame, and `self` to the error: a reference cycle.
            del self


def _untraced(error: Failed) -> Failed:
    """`error` without tracebacks, also in its causes: they would keep the handler's objects in memory as long as the
    outcome."""
    for found in causes(error):
        found.__traceback__ = None
    return error


class AnyValue(types.CallToolResult):
    """The result of a tool whose structured content may be any value, as its schema says. FastMCP wraps it for a client
    of 2025, which takes objects only."""


class AskingMethod(NamedTuple):
    """A method that may ask. `keep` awaits a component and makes a result of the protocol; `give` turns that into a
    result of FastMCP. `field` of the parameters names the component."""

    field: str
    keep: Callable[[Awaitable[Any], str], Awaitable[Any]]
    give: Callable[[Any], Any]


async def _kept_tool(running: Awaitable[Any], name: str) -> Any:
    try:
        result = await running
    except (FastMCPError, DisabledError, NotFoundError) as error:
        return Raised(error, name)
    if isinstance(result, InputRequiredToolResult):
        return result.input_required
    if not isinstance(result, ToolResult):
        # An extension's own kind of result.
        return result
    wire = result.to_mcp_result()
    if isinstance(wire, types.CallToolResult):
        any_value = _ANY_VALUE is not None and isinstance(result, _ANY_VALUE)
        return AnyValue.model_validate(dict(wire), by_name=True) if any_value else wire
    content, structured = wire if isinstance(wire, tuple) else (wire, None)
    return types.CallToolResult(content=content, structured_content=structured)


def _given_tool(result: Any) -> Any:
    if isinstance(result, Raised):
        try:
            result.again()
        finally:
            del result
    if is_input_required(result):
        return InputRequiredToolResult(_asked(result))
    if isinstance(result, dict) and "content" in result:
        result = types.CallToolResult.model_validate(result, by_name=False)
    return _editable(result) if isinstance(result, types.CallToolResult) else result


def _editable(result: types.CallToolResult) -> ToolResult:
    """A copy of a tool's result, which the middleware of one request may edit: other requests get the same result. The
    form of `from_mcp_result` ignores edits in FastMCP 4.1, so it is used only for a result that the plain form can't
    represent."""
    own = result.model_copy(deep=True)
    is_any = isinstance(result, AnyValue) or not isinstance(result.structured_content, dict | None)
    if _ANY_VALUE is not None and is_any:
        return _ANY_VALUE(own.content, own.structured_content, own.meta, bool(own.is_error))
    given = ToolResult(own.content, own.structured_content, own.meta, bool(own.is_error))
    kept = (given.content, given.structured_content) == (result.content, result.structured_content)
    return given if kept and not own.model_extra else ToolResult.from_mcp_result(own)


async def _kept_prompt(running: Awaitable[Any], name: str) -> Any:
    result = await _with_protocol_errors(running)
    return result.input_required if isinstance(result, InputRequiredPromptResult) else result.to_mcp_prompt_result()


def _given_prompt(result: Any) -> PromptResult:
    if is_input_required(result):
        return InputRequiredPromptResult(_asked(result))
    known = isinstance(result, types.GetPromptResult)
    wire = result if known else types.GetPromptResult.model_validate(result, by_name=False)
    own = wire.model_copy(deep=True)
    messages = [Message(item.content, item.role) for item in own.messages]
    return PromptResult(messages, own.description, own.meta)


async def _kept_resource(running: Awaitable[Any], uri: str) -> Any:
    result = await _with_protocol_errors(running)
    return result.input_required if isinstance(result, InputRequiredResourceResult) else result.to_mcp_result(uri)


def _given_resource(result: Any) -> ResourceResult:
    if is_input_required(result):
        return InputRequiredResourceResult(_asked(result))
    known = isinstance(result, types.ReadResourceResult)
    wire = result if known else types.ReadResourceResult.model_validate(result, by_name=False)
    own = wire.model_copy(deep=True)
    contents = [ResourceContent(_content(item), item.mime_type, item.meta) for item in own.contents]
    return ResourceResult(contents, own.meta)


def _content(item: types.TextResourceContents | types.BlobResourceContents) -> str | bytes:
    return item.text if isinstance(item, types.TextResourceContents) else base64.b64decode(item.blob)


_MADE = "_framehold_made"
"""The mark of an error of the protocol that stands for an exception of a component."""


async def _with_protocol_errors(running: Awaitable[Any]) -> Any:
    """Await a prompt or a resource. Raises MCPError for an exception of it, with that exception as cause."""
    try:
        return await running
    except FastMCPError as error:
        remember(error)
        made = to_mcp_error(error)
        made.__dict__[_MADE] = True
        try:
            raise made from _untraced(error)
        finally:
            # Its traceback refers to this Python frame: a reference cycle.
            del made


def _asked(result: Any) -> types.InputRequiredResult:
    """An `input_required` result, which is a model or a mapping, as a model that the middleware of one request may
    edit: calls that ask the same share their questions."""
    known = isinstance(result, types.InputRequiredResult)
    wire = result if known else types.InputRequiredResult.model_validate(result, by_name=False)
    return wire.model_copy(deep=True)


def fastmcp_error(error: MCPError) -> BaseException:
    """The exception of a component that an error of the protocol was made from here; else `error` itself, whatever its
    author has made it from."""
    return error.__cause__ if _MADE in vars(error) and error.__cause__ is not None else error


KINDS = {
    "tools/call": AskingMethod("name", _kept_tool, _given_tool),
    "prompts/get": AskingMethod("name", _kept_prompt, _given_prompt),
    "resources/read": AskingMethod("uri", _kept_resource, _given_resource),
}

"""What a FastMCP component comes to, as it is kept and as FastMCP's middleware sees it.

In its frame a result becomes the protocol's own, which a tombstone can hold and a client be sent as it is. On the way
out, through the middleware of whichever round it goes to, it is FastMCP's again; so is what a tool raised, wherever the
exception itself is still there, and otherwise the error result that its client was told.
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
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types.methods import is_input_required
from pydantic import PrivateAttr


class Raised(types.CallToolResult):
    """The error result of a tool, and what it raised."""

    _error: FastMCPError = PrivateAttr()

    def __init__(self, error: FastMCPError, name: str) -> None:
        # In FastMCP's words.
        unknown = isinstance(error, DisabledError | NotFoundError)
        text = f"Unknown tool: {name!r}" if unknown else str(error)
        super().__init__(content=[types.TextContent(type="text", text=text)], is_error=True)
        self._error = _untraced(error)

    def again(self) -> NoReturn:
        """Raise it."""
        try:
            raise self._error
        finally:
            # A traceback holds its frames: one that holds its own error is a cycle.
            del self


def _untraced(error: FastMCPError) -> FastMCPError:
    """The same without tracebacks: they hold what the handler held, for as long as the outcome is kept."""
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__cause__ or found.__context__
    return error


class Kind(NamedTuple):
    """A method that may ask: `keep` makes the protocol's result of a running component, `give` FastMCP's of that.
    `field` of the parameters names the component."""

    field: str
    keep: Callable[[Awaitable[Any], str], Awaitable[Any]]
    give: Callable[[Any], Any]


async def _kept_tool(running: Awaitable[Any], name: str) -> Any:
    try:
        result = await running
    except FastMCPError as error:
        return Raised(error, name)
    if isinstance(result, InputRequiredToolResult):
        return result.input_required
    if not isinstance(result, ToolResult):
        # An extension's own kind of result.
        return result
    wire = result.to_mcp_result()
    if isinstance(wire, types.CallToolResult):
        return wire
    content, structured = wire if isinstance(wire, tuple) else (wire, None)
    return types.CallToolResult(content=content, structured_content=structured)


def _given_tool(told: Any) -> Any:
    if isinstance(told, Raised):
        try:
            told.again()
        finally:
            del told
    if is_input_required(told):
        return InputRequiredToolResult(_asked(told))
    if isinstance(told, dict) and "content" in told:
        told = types.CallToolResult.model_validate(told, by_name=False)
    return _editable(told) if isinstance(told, types.CallToolResult) else told


def _editable(told: types.CallToolResult) -> ToolResult:
    """A tool's result for one request's middleware to edit. Others are told the same, so it is a copy; FastMCP has a
    form that tells what it was made of, whatever is edited: that is for what no other form can tell."""
    own = told.model_copy(deep=True)
    given = ToolResult(own.content, own.structured_content, own.meta, bool(own.is_error))
    kept = (given.content, given.structured_content) == (told.content, told.structured_content)
    return given if kept and not own.model_extra else ToolResult.from_mcp_result(own)


async def _kept_prompt(running: Awaitable[Any], name: str) -> Any:
    result = await _told(running)
    return result.input_required if isinstance(result, InputRequiredPromptResult) else result.to_mcp_prompt_result()


def _given_prompt(told: Any) -> PromptResult:
    if is_input_required(told):
        return InputRequiredPromptResult(_asked(told))
    wire = (
        told if isinstance(told, types.GetPromptResult) else types.GetPromptResult.model_validate(told, by_name=False)
    )
    own = wire.model_copy(deep=True)
    messages = [Message(item.content, item.role) for item in own.messages]
    return PromptResult(messages, own.description, own.meta)


async def _kept_resource(running: Awaitable[Any], uri: str) -> Any:
    result = await _told(running)
    return result.input_required if isinstance(result, InputRequiredResourceResult) else result.to_mcp_result(uri)


def _given_resource(told: Any) -> ResourceResult:
    if is_input_required(told):
        return InputRequiredResourceResult(_asked(told))
    known = isinstance(told, types.ReadResourceResult)
    wire = told if known else types.ReadResourceResult.model_validate(told, by_name=False)
    own = wire.model_copy(deep=True)
    contents = [ResourceContent(_content(item), item.mime_type, item.meta) for item in own.contents]
    return ResourceResult(contents, own.meta)


def _content(item: types.TextResourceContents | types.BlobResourceContents) -> str | bytes:
    return item.text if isinstance(item, types.TextResourceContents) else base64.b64decode(item.blob)


async def _told(running: Awaitable[Any]) -> Any:
    """What a prompt or a resource raises is an error of the protocol's; what it was goes with it."""
    try:
        return await running
    except FastMCPError as error:
        raise to_mcp_error(error) from _untraced(error)


def _asked(told: Any) -> types.InputRequiredResult:
    if isinstance(told, types.InputRequiredResult):
        return told
    return types.InputRequiredResult.model_validate(told, by_name=False)


def raised(error: MCPError) -> BaseException:
    """What an error of the protocol's stands for in FastMCP's chain."""
    return error.__cause__ if isinstance(error.__cause__, FastMCPError) else error


KINDS = {
    "tools/call": Kind("name", _kept_tool, _given_tool),
    "prompts/get": Kind("name", _kept_prompt, _given_prompt),
    "resources/read": Kind("uri", _kept_resource, _given_resource),
}

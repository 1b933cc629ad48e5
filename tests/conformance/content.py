"""The half of the example server that asks nobody anything.

Every name, URI and schema here is one that the conformance suite calls by name; the bodies are as small as its checks
allow. `install` adds them to a server whose asking half is in server.py.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from mcp.server import MCPServer, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp.types import (
    AudioContent,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    PromptReference,
    RequestParams,
    ResourceTemplateReference,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import Field

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

CONTACT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def schema_tool() -> Tool:
    """A tool whose input schema must reach the client keyword by keyword; pass it to `MCPServer(tools=)`."""

    def json_schema_2020_12_tool() -> str:
        """Carry a schema that uses the wider 2020-12 vocabulary."""
        return "called"

    return Tool.from_function(json_schema_2020_12_tool).model_copy(update={"parameters": CONTACT_SCHEMA})


def install(mcp: MCPServer[Any]) -> None:
    _static_tools(mcp)
    _notifying_tools(mcp)
    _resources(mcp)
    _prompts(mcp)
    _methods_of_2025(mcp)


def _static_tools(mcp: MCPServer[Any]) -> None:
    image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
    note = _embedded("test://embedded-resource", "text/plain", "An embedded note.")
    record = _embedded("test://mixed-content-resource", "application/json", '{"kind": "mixed"}')

    @mcp.tool()
    def test_simple_text() -> str:
        """Answer with one line of text."""
        return "A line of text."

    @mcp.tool()
    def test_image_content() -> list[ImageContent]:
        """Answer with an image of one pixel."""
        return [image]

    @mcp.tool()
    def test_audio_content() -> list[AudioContent]:
        """Answer with an empty sound file."""
        return [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]

    @mcp.tool()
    def test_embedded_resource() -> list[EmbeddedResource]:
        """Answer with a resource inside the result."""
        return [note]

    @mcp.tool()
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Answer with text, an image and a resource at once."""
        return [TextContent(type="text", text="Three kinds of content."), image, record]

    @mcp.tool()
    def test_error_handling() -> str:
        """Fail, so that the client sees a tool error."""
        raise RuntimeError("this tool fails on purpose")

    @mcp.tool()
    def test_x_mcp_header(
        region: Annotated[
            str, Field(description="Travels in a header too", json_schema_extra={"x-mcp-header": "Region"})
        ] = "anywhere",
    ) -> str:
        """Take an argument that the client mirrors into a header."""
        return f"region {region}"


def _notifying_tools(mcp: MCPServer[Any]) -> None:
    @mcp.tool()
    async def test_tool_with_logging(ctx: Context) -> str:
        """Log three times before answering."""
        for step in ("begun", "half way", "done"):
            await ctx.info(f"logging tool {step}")
        return "logged"

    @mcp.tool()
    async def test_logging_tool(ctx: Context) -> str:
        """Log once; on 2026-07-28 nothing may be sent to a client that named no level."""
        await ctx.info("heard only by those who asked")
        return "logged"

    @mcp.tool()
    async def test_tool_with_progress(ctx: Context) -> str:
        """Report progress three times before answering."""
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"{done} of 100")
        return "progressed"

    @mcp.tool()
    async def test_reconnection(ctx: Context) -> str:
        """Drop the client's stream mid-call; the answer waits in the event store (2025-11-25)."""
        await ctx.info("closing the stream")
        await ctx.close_sse_stream()
        return "answered after the reconnect"

    def passing() -> str:
        """Exist for a moment."""
        return "passing"

    @mcp.tool()
    async def test_trigger_tool_change(ctx: Context) -> str:
        """Add and remove a tool, and announce it."""
        mcp.add_tool(passing, name="test_passing_tool")
        mcp.remove_tool("test_passing_tool")
        await ctx.notify_tools_changed()
        return "announced"

    @mcp.tool()
    async def test_trigger_prompt_change(ctx: Context) -> str:
        """Add and remove a prompt, and announce it."""
        mcp.add_prompt(Prompt.from_function(passing, name="test_passing_prompt"))
        mcp.remove_prompt("test_passing_prompt")
        await ctx.notify_prompts_changed()
        return "announced"


def _resources(mcp: MCPServer[Any]) -> None:
    @mcp.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """Text that never changes."""
        return "Static text."

    @mcp.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """Bytes that never change."""
        return bytes(range(16))

    @mcp.resource("test://template/{id}/data", mime_type="application/json")
    def templated(id: str) -> str:
        """A record chosen by the URI."""
        return json.dumps({"id": id})

    @mcp.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        """A resource to subscribe to."""
        return "Watched."


def _prompts(mcp: MCPServer[Any]) -> None:
    @mcp.prompt()
    def test_simple_prompt() -> list[UserMessage]:
        """A prompt without arguments."""
        return [UserMessage("Say something simple.")]

    @mcp.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        """A prompt that repeats its two arguments."""
        return [UserMessage(f"First {arg1}, then {arg2}.")]

    @mcp.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        """A prompt that carries a resource."""
        return [UserMessage(_embedded(resourceUri, "text/plain", "Carried along.")), UserMessage("Read the above.")]

    @mcp.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """A prompt that carries an image."""
        image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        return [UserMessage(image), UserMessage("Look at the above.")]

    @mcp.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # the SDK has no types here
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        """Complete nothing, correctly."""
        return Completion(values=[], total=0, has_more=False)


def _methods_of_2025(mcp: MCPServer[Any]) -> None:
    """Requests that 2026-07-28 removed. MCPServer has no public door to them, and extensions may not bind them."""

    async def accept(ctx: ServerRequestContext[Any, Any], params: RequestParams) -> EmptyResult:
        return EmptyResult()

    server = mcp._lowlevel_server
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    server.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))

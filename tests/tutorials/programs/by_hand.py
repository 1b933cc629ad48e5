"""The re-entrant form by hand, beyond low-level tools: a prompt, a resource template, a tool with its own state."""

from __future__ import annotations

import json

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult


def _question(message: str, field: str) -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _answer(ctx: Context, field: str) -> str | None:
    given = (ctx.input_responses or {}).get(field)
    return str(given.content[field]) if isinstance(given, ElicitResult) and given.content else None


def build() -> MCPServer:
    mcp = MCPServer("Theatre")

    @mcp.prompt()
    async def programme(ctx: Context) -> list[UserMessage] | InputRequiredResult:
        town = _answer(ctx, "town")
        if town is None:
            return InputRequiredResult(input_requests={"town": _question("In which town?", "town")})
        return [UserMessage(f"Write a programme for {town}.")]

    @mcp.resource("theatre://plays/{play}")
    async def script(play: str, ctx: Context) -> str | InputRequiredResult:
        language = _answer(ctx, "language")
        if language is None:
            return InputRequiredResult(input_requests={"language": _question("In which language?", "language")})
        return f"{play}, in {language}"

    @mcp.tool()
    async def cast(ctx: Context) -> str | InputRequiredResult:
        known: dict[str, str] = json.loads(ctx.request_state or "{}")
        for part in ("hero", "villain"):
            if part in known:
                continue
            player = _answer(ctx, part)
            if player is None:
                question = _question(f"Who plays the {part}?", part)
                return InputRequiredResult(input_requests={part: question}, request_state=json.dumps(known))
            known[part] = player
        return f"{known['hero']} against {known['villain']}"

    return mcp

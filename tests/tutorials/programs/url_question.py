"""A tool that sends its user to a web page, and one that reports what happened there."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context


def build() -> MCPServer:
    mcp = MCPServer("Library")

    @mcp.tool()
    async def request_card(reader: str, ctx: Context) -> str:
        answer = await ctx.elicit_url(
            message="Please prove who you are.",
            url=f"https://id.example.org/check/{reader}",
            elicitation_id=f"identity-{reader}",
        )
        return "Finish in your browser." if answer.action == "accept" else f"No card: {answer.action}."

    @mcp.tool()
    async def identity_proved(reader: str, ctx: Context) -> str:
        await ctx.session.send_elicit_complete(f"identity-{reader}", related_request_id=ctx.request_id)
        return f"Card issued to {reader}."

    return mcp

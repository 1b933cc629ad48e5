"""The server of section `survival`: a re-entrant tool that asks once, with an effect under `once` before and after.

Each effect writes one line to the file that `LEDGER` names.
"""

from __future__ import annotations

import os

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold_loadtest.bench.subjects.weather import SERVER_NAME, TOOL_NAME, Units, expected_text
from framehold_loadtest.config import variable

mcp: MCPServer = MCPServer(SERVER_NAME, log_level="ERROR")
_ledger = os.open(variable("LEDGER"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _note(line: str) -> None:
    os.write(_ledger, f"{line}\n".encode())


@mcp.tool(name=TOOL_NAME)
@framehold.reentrant
async def weather(location: str, ctx: Context) -> str:
    """Ask for units, and note what was done before and after."""
    await framehold.once("before", _note, f"before {location}")
    answer = await ctx.elicit("Which units?", Units)
    units = answer.data.units if answer.action == "accept" else answer.action
    await framehold.once("after", _note, f"after {location}")
    return expected_text(location, units)

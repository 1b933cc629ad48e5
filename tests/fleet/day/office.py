"""The server of the operated day: tools that are well, that fail, that block, that end their process, that keep memory,
and that take another way at each replay.

The tools `resize` and `import_file` do harm until the file that MENDED names exists: it stands for the mended release.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

import framehold

MENDED = "DAY_MENDED"
"""The variable that names the file."""
BLOCKED = 1.3
"""Seconds for which `resize` keeps the event loop."""

mcp = MCPServer("office")
_entries = itertools.count()
_kept: list[bytearray] = []


class Word(BaseModel):
    word: str


@mcp.tool()
@framehold.reentrant
async def book(ctx: Context, fails: bool = False) -> str:
    """Ask once; end, or fail."""
    await ctx.elicit("Which day?", Word)
    if fails:
        raise ToolError("no room is free")
    return "booked"


@mcp.tool()
async def refund(fails: bool = False) -> str:
    """Ask nothing; end, or fail."""
    if fails:
        raise ToolError("no such account")
    return "refunded"


@mcp.tool()
async def resize() -> str:
    """Block the event loop."""
    if not _mended():
        time.sleep(BLOCKED)
    return "resized"


@mcp.tool()
@framehold.reentrant
async def import_file(ctx: Context) -> str:
    """End its process after the answer."""
    await ctx.elicit("Which file?", Word)
    if not _mended():
        os.kill(os.getpid(), signal.SIGKILL)
    return "imported"


@mcp.tool()
@framehold.reentrant
async def quote(ctx: Context) -> str:
    """Ask something else at each entry."""
    await ctx.elicit(f"Is offer {next(_entries)} good?", Word)
    return "quoted"


@mcp.tool()
async def hoard() -> str:
    """Keep 4 MiB for ever."""
    _kept.append(bytearray(b"x" * (4 << 20)))
    return "kept"


def _mended() -> bool:
    return Path(os.environ[MENDED]).exists()

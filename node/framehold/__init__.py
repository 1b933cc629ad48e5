"""Framehold: `await ctx.elicit(...)` as a genuine suspension, for MCP servers on protocol revision 2026-07-28.

app = framehold.asgi(mcp)      # an ASGI app; `uvicorn server:app`, or `framehold node server.py`
"""

from __future__ import annotations

from framehold_core.errors import (
    AskError,
    ConfigError,
    DuplicateAsk,
    FrameholdError,
    LimitExceeded,
    NotInCall,
    StoreUnavailable,
)

from .attach import attach
from .authoring import ask
from .serving import asgi

__all__ = [
    "AskError",
    "ConfigError",
    "DuplicateAsk",
    "FrameholdError",
    "LimitExceeded",
    "NotInCall",
    "StoreUnavailable",
    "asgi",
    "ask",
    "attach",
]

"""Framehold: `await ctx.elicit(...)` as a genuine suspension, for MCP servers on protocol revision 2026-07-28.

app = framehold.asgi(mcp)      # an ASGI app; `uvicorn server:app`, or `framehold node server.py`
"""

from __future__ import annotations

from framehold_core.errors import (
    AskError,
    ConfigError,
    DivergenceError,
    DuplicateAsk,
    EffectFailed,
    FrameholdError,
    InDoubt,
    KeyReused,
    LimitExceeded,
    NotInCall,
    OnceError,
    ResultNotKept,
    StoreUnavailable,
)

from .attach import attach
from .authoring import ask, idempotency_key, now, once, random, uuid4
from .builder import ToolBuilder
from .era import by_era, era
from .marks import hold, reentrant
from .responses import accepted_content, input_response
from .serving import asgi

__all__ = [
    "AskError",
    "ConfigError",
    "DivergenceError",
    "DuplicateAsk",
    "EffectFailed",
    "FrameholdError",
    "InDoubt",
    "KeyReused",
    "LimitExceeded",
    "NotInCall",
    "OnceError",
    "ResultNotKept",
    "StoreUnavailable",
    "ToolBuilder",
    "accepted_content",
    "asgi",
    "ask",
    "attach",
    "by_era",
    "era",
    "hold",
    "idempotency_key",
    "input_response",
    "now",
    "once",
    "random",
    "reentrant",
    "uuid4",
]

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
from .marks import hold, reentrant
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
    "asgi",
    "ask",
    "attach",
    "hold",
    "idempotency_key",
    "now",
    "once",
    "random",
    "reentrant",
    "uuid4",
]

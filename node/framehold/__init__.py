"""Framehold: `await ctx.elicit(...)` as a genuine suspension, for MCP servers on protocol revision 2026-07-28.

app = framehold.asgi(mcp)      # an ASGI app; `uvicorn server:app`, or `framehold node server.py`

Each public name is imported when it is first used, so that `import framehold` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from framehold_core.errors import (
        AskError,
        ConfigError,
        DuplicateAsk,
        EffectFailed,
        FrameholdError,
        InDoubt,
        KeyReused,
        LimitExceeded,
        NotInCall,
        OnceError,
        ResultNotKept,
    )

    from .authoring.era import by_era, era
    from .authoring.functions import ask, idempotency_key, now, once, random, uuid4
    from .authoring.readers import Elicited, Missing, Roots, Sampled, accepted_content, input_response
    from .authoring.tool_builder import ToolBuilder
    from .config import Settings
    from .hosts.attach import attach
    from .http.app import asgi
    from .sdk.marks import options, reentrant
    from .version import VERSION as __version__

__all__ = [
    "AskError",
    "ConfigError",
    "DuplicateAsk",
    "EffectFailed",
    "Elicited",
    "FrameholdError",
    "InDoubt",
    "KeyReused",
    "LimitExceeded",
    "Missing",
    "NotInCall",
    "OnceError",
    "ResultNotKept",
    "Roots",
    "Sampled",
    "Settings",
    "ToolBuilder",
    "__version__",
    "accepted_content",
    "asgi",
    "ask",
    "attach",
    "by_era",
    "era",
    "idempotency_key",
    "input_response",
    "now",
    "once",
    "options",
    "random",
    "reentrant",
    "uuid4",
]

_MODULES = {
    "authoring.era": ("by_era", "era"),
    "authoring.functions": ("ask", "idempotency_key", "now", "once", "random", "uuid4"),
    "authoring.readers": ("Elicited", "Missing", "Roots", "Sampled", "accepted_content", "input_response"),
    "authoring.tool_builder": ("ToolBuilder",),
    "config": ("Settings",),
    "hosts.attach": ("attach",),
    "http.app": ("asgi",),
    "sdk.marks": ("options", "reentrant"),
}
"""Where each public name is defined. The rest are errors, and the version."""
_HOMES = {name: f"framehold.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'framehold' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    if name == "__version__":
        value: Any = importlib.import_module("framehold.version").VERSION
    else:
        value = getattr(importlib.import_module(_HOMES.get(name, "framehold_core.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""The booking server on a node whose store has no fence: a write is applied whoever owns the call by now, and wherever
its journal stands."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from framehold_loadtest.served.booking import mcp as booking
from framehold_store import codec
from framehold_store.scripts import SCRIPTS, LuaScript

_FENCE = "local function fence(creates)\n"


def unfenced(script: LuaScript) -> LuaScript:
    """The script, without its fence where a record stands."""
    text = script.text.replace(_FENCE, f"{_FENCE}  if h[1] then return nil end\n")
    return replace(script, text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


SCRIPTS.update({name: unfenced(script) for name, script in SCRIPTS.items()})
codec._ENCODERS.update({kind: (unfenced(script), encode) for kind, (script, encode) in codec._ENCODERS.items()})
mcp = booking

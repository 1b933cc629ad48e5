"""The Lua scripts by name. The text of a script is its file, with the files of its shared heads in front.

Redis runs a script by the digest of its text. A changed text is another script, so two releases on one server each run
their own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

_HEADS: dict[str, tuple[str, ...]] = {
    "commit": ("size", "count", "record", "fence", "trail"),
    "intent": ("size", "count", "record", "fence"),
    "result": ("size", "count", "record", "fence"),
    "finish": ("size", "count", "record", "fence", "trail"),
    "verify": ("size", "count", "record", "fence", "trail"),
    "heal": ("size", "count", "record", "fence", "trail"),
    "release": ("size", "count", "record", "fence", "trail"),
    "claim": ("size", "count", "record", "trail"),
    "read": ("size", "count", "record"),
    "register": ("lease",),
    "renew": ("lease",),
    "leave": ("lease",),
    "member": (),
    "members": (),
    "strings": (),
    "alive": (),
    "append": (),
    "events": (),
    "allowed": (),
    "keys": (),
    "summary": ("size",),
    "tools": ("size", "count", "version"),
    "pause": ("version",),
    "died": ("count", "version"),
    "restore": ("version",),
    "keep": (),
}


@dataclass(frozen=True, slots=True)
class LuaScript:
    """A script; `sha` is the SHA-1 of `text`, by which Redis runs it."""

    name: str
    text: str
    sha: str


def _load(name: str, heads: tuple[str, ...]) -> LuaScript:
    folder = files(__package__)
    parts = [folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in (*heads, name)]
    text = "\n".join(parts)
    return LuaScript(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


SCRIPTS = {name: _load(name, heads) for name, heads in _HEADS.items()}

"""Paused tools in Redis: one hash with two fields for each tool.

    p:<tool>    the pause: [version, seconds since 1970, by, why] as JSON; empty: not paused
    d:<tool>    the ends of processes that are held against the tool: [[boot, ms on the server's clock], ...] as JSON

A field is emptied and not deleted, so that the store's user needs no further right.
"""

from __future__ import annotations

import json

from redis.exceptions import ResponseError

from framehold_core.errors import StoreUnavailable
from framehold_core.pauses import FRAMEHOLD, WINDOW, Pause, Tools

from .codec import milliseconds
from .keys import MAX_TOOLS, Keys
from .registry import Command, Script

_VERSION = 1
_PAUSE, _DEATHS = "p:", "d:"


class PausedTools:
    """Paused tools of one namespace. `script` and `command` send to the store."""

    def __init__(self, keys: Keys, script: Script, command: Command) -> None:
        self._key, self._script, self._command = keys.tools, script, command

    async def read(self) -> Tools:
        raw = await self._script("tools", self._key, MAX_TOOLS)
        if isinstance(raw, int):
            raise StoreUnavailable(
                f"the paused tools can't be read (they take {raw} bytes or more, and {MAX_TOOLS} are read at most); "
                f"check who else writes {self._key}"
            )
        texts = [item.decode("utf-8", "replace") for item in raw]
        fields = dict(zip(texts[::2], texts[1::2], strict=True))
        found = (_read(name.removeprefix(_PAUSE), text) for name, text in fields.items() if name.startswith(_PAUSE))
        held = (name.removeprefix(_DEATHS) for name, text in fields.items() if name.startswith(_DEATHS) and text)
        return Tools(tuple(sorted(pause for pause in found if pause is not None)), frozenset(held))

    async def cleared(self, tool: str) -> None:
        raw = await self._command(self._key, "HSET", self._key, f"{_DEATHS}{tool}", "")
        if isinstance(raw, ResponseError):
            raise StoreUnavailable(f"the store refused to clear a tool ({raw}); look at the store's own log")

    async def pause(self, pause: Pause) -> None:
        await self._script("pause", self._key, pause.tool, json.dumps([_VERSION, pause.at, pause.by, pause.why]))

    async def resume(self, tool: str) -> bool:
        return bool(await self._script("pause", self._key, tool, ""))

    async def died(self, tool: str, boot: str, limit: int, why: str) -> tuple[Pause | None, bool]:
        terms = (tool, boot, milliseconds(WINDOW), limit, FRAMEHOLD, why, MAX_TOOLS)
        raw, paused = await self._script("died", self._key, *terms)
        return _read(tool, raw.decode("utf-8", "replace")), bool(paused)


def _read(tool: str, text: str) -> Pause | None:
    """The pause that is stored as `text`; None if the tool is not paused. A pause that can't be read stands: a tool
    that was paused must not run because somebody wrote garbage, or a newer release wrote more."""
    if not text:
        return None
    try:
        _, at, by, why, *_ = json.loads(text)
        return Pause(tool, max(0.0, float(at)), str(by), str(why))
    except (ValueError, TypeError, RecursionError):
        return Pause(tool, 0.0, "", "its pause can't be read")

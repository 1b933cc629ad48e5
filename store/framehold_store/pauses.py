"""Paused tools in Redis: one hash, whose fields scripts/version.lua describes.

A field is never deleted: a tool that is resumed keeps the version of that. The fields that were read last are
remembered. Where the store has a lower version of one later, it has lost it, and it is written again.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

from framehold_core.errors import StoreUnavailable
from framehold_core.pauses import FRAMEHOLD, WINDOW, Loss, Pause, Tools, lacking

from .codec import LATEST_MS, milliseconds, seconds
from .keys import MAX_TOOLS, Keys
from .registry import Script

_log = logging.getLogger(__name__)

_PAUSE, _DEATHS = "p:", "d:"
_MAX_VERSION = 10**15
_ONLY_CLEAR = "-"
_MARK = re.compile("([0-9a-fA-F]+)" + " ([0-9]{1,15})" * 3 + " ([A-Za-z]+)")
_NO_MARK = "", "0"


class PausedTools:
    """Paused tools of one namespace. `script` sends to the store."""

    def __init__(self, keys: Keys, script: Script) -> None:
        self._key, self._script = keys.tools, script
        self._known: dict[str, str] = {}
        self._mark = _NO_MARK
        """The id and the time of the mark that was read last."""

    async def read(self) -> Tools:
        raw = await self._script("tools", self._key, MAX_TOOLS, *self._mark)
        if isinstance(raw, int):
            raise StoreUnavailable(
                f"the paused tools can't be read (they take {raw} bytes or more, and {MAX_TOOLS} are read at most); "
                f"check who else writes {self._key}"
            )
        flat, mark, first = raw
        texts = [item.decode("utf-8", "replace") for item in flat]
        found = dict(zip(texts[::2], texts[1::2], strict=True))
        lost = lacking(_versions(self._known), _versions(found))
        again = {name: self._known[name] for name in lost}
        rewritten = await self._restore(again) if again else 0
        found |= again
        self._known = {name: text for name, text in found.items() if _version(text)}
        paused = (_read(name.removeprefix(_PAUSE), text) for name, text in found.items() if name.startswith(_PAUSE))
        held = (name.removeprefix(_DEATHS) for name, text in found.items() if name.startswith(_DEATHS) and _holds(text))
        self._mark, loss = _read_mark(mark.decode("ascii", "replace"))
        return Tools(
            tuple(sorted((pause for pause in paused if pause is not None), key=lambda pause: pause.tool)),
            frozenset(held),
            loss,
            bool(first),
            rewritten,
        )

    async def _restore(self, again: dict[str, str]) -> int:
        """Write fields again; how many pauses were. If the store does not take them, the next read tries again."""
        try:
            written: int = await self._script(
                "restore", self._key, MAX_TOOLS, *(x for pair in again.items() for x in pair)
            )
        except StoreUnavailable as error:
            _log.info("what the store has lost of the paused tools was not written again: %s", error)
            return 0
        return written

    async def cleared(self, tool: str) -> None:
        await self._write(tool, _ONLY_CLEAR)

    async def pause(self, pause: Pause) -> None:
        await self._write(pause.tool, "," + json.dumps([pause.at, pause.by, pause.why])[1:-1])

    async def resume(self, tool: str) -> bool:
        return await self._write(tool, "")

    async def _write(self, tool: str, rest: str) -> bool:
        """Write a pause, or its end; whether the tool was paused before."""
        before, version = await self._script("pause", self._key, tool, rest, self._last(tool), MAX_TOOLS)
        head = f"[1,{version.decode()}"
        self._known[f"{_DEATHS}{tool}"] = f"{head},[]]"
        if rest != _ONLY_CLEAR:
            self._known[f"{_PAUSE}{tool}"] = f"{head}{rest}]"
        return bool(before)

    async def died(self, tool: str, boot: str, limit: int, why: str) -> tuple[Pause | None, bool]:
        terms = (tool, boot, milliseconds(WINDOW), limit, FRAMEHOLD, why, self._last(tool), MAX_TOOLS)
        raw, paused = await self._script("died", self._key, *terms)
        return _read(tool, raw.decode("utf-8", "replace")), bool(paused)

    def _last(self, tool: str) -> int:
        """The highest version that is known of a tool."""
        return max(_version(self._known.get(f"{kind}{tool}", "")) or 0 for kind in (_PAUSE, _DEATHS))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _version(text: str) -> int | None:
    """The version of a field; 0 if it is empty, None if it can't be read."""
    found = _parsed(text) if text else [1, 0]
    given = found[1] if isinstance(found, list) and len(found) > 1 else None
    return given if type(given) is int and 0 <= given < _MAX_VERSION else None


def _versions(fields: dict[str, str]) -> dict[str, int | None]:
    return {name: _version(text) for name, text in fields.items()}


def _holds(text: str) -> bool:
    """Whether the end of a process is held against a tool."""
    found = _parsed(text) if text else []
    return not (isinstance(found, list) and (len(found) < 3 or found[2] == []))


def _read_mark(text: str) -> tuple[tuple[str, str], Loss | None]:
    """The id and the time of a mark, and the loss that it tells. One that no process writes counts as none, as in
    scripts/tools.lua."""
    found = _MARK.fullmatch(text)
    if found is None:
        return _NO_MARK, None
    name, at, *told, how = found.groups()
    try:
        _, lost, seen = map(seconds, (at, *told))
    except ValueError:
        return _NO_MARK, None
    return (name, at), Loss(lost, seen, how == "emptied") if lost else None


def _read(tool: str, text: str) -> Pause | None:
    """The pause that is stored as `text`; None if the tool is not paused. A pause that can't be read stands: a tool
    that was paused must not run because somebody wrote garbage, or a newer release wrote more."""
    if not text:
        return None
    found = _parsed(text)
    if isinstance(found, list) and len(found) == 2 and _version(text) is not None:
        return None
    match found[2:5] if isinstance(found, list) else ():
        case [int() | float() as at, str() as by, str() as why] if 0 <= at * 1000 <= LATEST_MS:
            return Pause(tool, float(at), by, why)
    return Pause(tool, 0.0, "", "its pause can't be read")

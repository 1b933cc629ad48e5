"""Log lines of which one event may cause thousands, as when the last node goes.

The law: bounded, and nothing is lost. Of one kind, one line is logged at once; for `interval` seconds the further ones
are counted, and logged at level debug only; then one line says how many there were, and what the last one was.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Mapping
from dataclasses import dataclass

INTERVAL = 5.0
"""Seconds for which lines of one kind are counted."""


@dataclass(slots=True)
class _Burst:
    loop: asyncio.AbstractEventLoop
    left_out: int = 0
    last: str = ""


class LogBursts:
    """The lines of one logger that may come in bursts. Belongs to one event loop at a time."""

    def __init__(self, logger: logging.Logger, interval: float = INTERVAL) -> None:
        self._logger, self._interval = logger, interval
        self._bursts: dict[str, _Burst] = {}

    def warning(self, text: str, *args: object, extra: Mapping[str, object]) -> None:
        """Log a line, or count it. Lines of one `text`, before its arguments are put in, are of one kind."""
        self.line(logging.WARNING, text, *args, extra=extra)

    def line(
        self, level: int, text: str, *args: object, extra: Mapping[str, object], error: BaseException | None = None
    ) -> None:
        """The same of any level, with the traceback of an `error`."""
        level = level if self.begins(text, text % args) else logging.DEBUG
        self._logger.log(level, text, *args, extra=extra, exc_info=error)

    def begins(self, kind: str, line: str) -> bool:
        """Whether a line of this kind is to be logged now. Otherwise it is counted."""
        burst = self._bursts.get(kind)
        if burst is None or burst.loop.is_closed():
            # A loop that was closed reports nothing any more: what it had counted is reported with the next burst.
            self._begin(kind, *((burst.left_out, burst.last) if burst else ()))
            return True
        burst.left_out, burst.last = burst.left_out + 1, line
        return False

    def _begin(self, kind: str, left_out: int = 0, last: str = "") -> None:
        loop = asyncio.get_running_loop()
        self._bursts[kind] = _Burst(loop, left_out, last)
        # In an empty context: what is logged then is about all requests, not about the one that came first.
        loop.call_later(self._interval, self._report, kind, context=contextvars.Context())

    def _report(self, kind: str) -> None:
        burst = self._bursts.pop(kind)
        if burst.left_out:
            note = "%d more lines like this one in the last %g s, which are logged at level debug only: %s"
            self._logger.warning(note, burst.left_out, self._interval, burst.last)
            self._begin(kind)

"""Shows the trade-off as it was measured: the report that FRAMEHOLD_TRADEOFF_REPORT names.

The law: nothing is measured or judged here. The report passes through models of its own, not as the bytes of its file:
so the document of the API says what comes, a list is also CSV, and whoever names the wrong file is told, instead of
having it published. What the models don't name is left out. The file is looked at for each answer, in a thread, by one
at a time; it is read again only when it is another one, by its inode, its size or when it was changed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from .about_tradeoff import TradeoffView
from .fields import printable
from .sources import Asked, Refused, Sources

LONGEST = 512 * 1024
"""Bytes of a report; one of seven options under five conditions has some 70,000. What is longer would hold the loop for
tens of milliseconds, whichever thread reads it."""
_MAKE = "run `framehold bench tradeoff --out DIR`, and start this router with FRAMEHOLD_TRADEOFF_REPORT=DIR/report.json"
_AGAIN = "nothing was told; name a report.json of `framehold bench tradeoff`"


class _Read(NamedTuple):
    """What a file was, and what was made of it: a view, or why there is none."""

    stamp: tuple[int, ...]
    view: TradeoffView | None
    wrong: str = ""


class Measurements:
    """The report of one router."""

    def __init__(self) -> None:
        self._last = _Read((), None)
        # A disk that hangs holds one thread, and not all that this process has.
        self._turn = asyncio.Lock()

    async def answer(self, sources: Sources, asked: Asked) -> TradeoffView:
        """`GET tradeoff`.

        Raises:
            Refused: there is no report, or none that can be read.
        """
        if not sources.report:
            raise Refused(404, f"no report is configured: {_MAKE}")
        async with self._turn:
            return await asyncio.to_thread(self._look, Path(sources.report))

    def _look(self, path: Path) -> TradeoffView:
        try:
            stamp = _stamp(path)
            if stamp != self._last.stamp:
                self._last = _read(path, stamp)
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(404, f"the report that FRAMEHOLD_TRADEOFF_REPORT names is not there: {_MAKE}") from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise Refused(
                503, f"the file that FRAMEHOLD_TRADEOFF_REPORT names can't be read ({why}): {_AGAIN}"
            ) from None
        if self._last.view is None:
            raise Refused(503, self._last.wrong)
        return self._last.view


def _stamp(path: Path) -> tuple[int, ...]:
    """What another file, or another content, would have otherwise. Raises OSError, also for what is no plain file."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        # A pipe would be waited for, and a device has no end.
        raise OSError(0, "it is no plain file")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _read(path: Path, stamp: tuple[int, ...]) -> _Read:
    with path.open("rb") as file:
        body = file.read(LONGEST + 1)
    if len(body) > LONGEST:
        return _Read(
            stamp, None, f"the report that FRAMEHOLD_TRADEOFF_REPORT names is beyond {LONGEST} bytes: {_AGAIN}"
        )
    try:
        return _Read(stamp, TradeoffView.model_validate_json(body))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = printable(".".join(map(str, first["loc"])))
        why = f"{where}: {first['msg']}" if where else first["msg"]
        return _Read(
            stamp,
            None,
            f"the file that FRAMEHOLD_TRADEOFF_REPORT names is no report of the trade-off ({why}): {_AGAIN}",
        )

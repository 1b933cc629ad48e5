"""Shows the measured trade-off: the report that FRAMEHOLD_TRADEOFF_REPORT names.

The law: nothing is measured or judged here. The report is parsed by models and not sent as the bytes of its file. So
the OpenAPI document describes it, it is available as CSV, and a wrong file gives an error instead of being published.
Fields that the models don't have are left out. The file is checked for each answer, in a thread, for one request at a
time. It is read again only if its inode, size or time of change is another.
"""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ..models.fields import printable
from ..models.tradeoff import TradeoffView
from .sources import Asked, Refused, Sources

MAX_REPORT_BYTES = 512 * 1024
"""Bytes of a report at most. A report of seven options under five conditions has about 70,000. Parsing a longer one
would block the event loop for tens of milliseconds, even in a thread."""
_MAKE = "run `framehold bench tradeoff --out DIR`, and start this router with FRAMEHOLD_TRADEOFF_REPORT=DIR/report.json"
_AGAIN = "nothing was returned; name a report.json of `framehold bench tradeoff`"


class _Read(NamedTuple):
    """A file that was read: its stamp, and its view or the reason why it has none."""

    stamp: tuple[int, ...]
    view: TradeoffView | None
    wrong: str = ""


class Measurements:
    """The trade-off report of one router, as it was last read."""

    def __init__(self) -> None:
        self._last = _Read((), None)
        # If the disk hangs, only one thread waits for it, not all threads of this process.
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
    """Numbers that differ if the file or its content is another: device, inode, size, time of change.

    Raises:
        OSError: the file can't be looked at, or is no plain file.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        # Reading a pipe would block, and a device may have no end.
        raise OSError(0, "it is no plain file")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _read(path: Path, stamp: tuple[int, ...]) -> _Read:
    with path.open("rb") as file:
        body = file.read(MAX_REPORT_BYTES + 1)
    if len(body) > MAX_REPORT_BYTES:
        return _Read(
            stamp, None, f"the report that FRAMEHOLD_TRADEOFF_REPORT names is beyond {MAX_REPORT_BYTES} bytes: {_AGAIN}"
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

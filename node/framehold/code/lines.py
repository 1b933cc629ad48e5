"""Which line of the author's code runs, or waits, for messages about a mistake in it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from .authors import is_framehold, is_library

_LOOP_FILES = frozenset({asyncio.base_events.__file__, asyncio.events.__file__, asyncio.runners.__file__})


_MAX_DEPTH = 200
_PARTS = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
"""The attributes of a coroutine, a generator and an asynchronous generator: its frame, and what it waits for."""


def running_frame() -> FrameType | None:
    """The innermost frame of the author's code that runs now in this task or thread; None if there is none. The
    author's code that started the event loop is not meant."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not _is_authors(frame):
        frame = None if frame.f_code.co_filename in _LOOP_FILES else frame.f_back
    return frame


def waiting_frame(task: asyncio.Task[Any] | None) -> FrameType | None:
    """The innermost frame of the author's code in which a suspended task waits; None if there is none."""
    own = [] if task is None else [frame for frame in waiting_frames(task) if _is_authors(frame)]
    return own[-1] if own else None


def waiting_frames(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """The frames of the chain of coroutines that wait for each other, the outermost first. A coroutine that is written
    in C, or a future, ends the chain: what was started in other tasks or threads is not followed."""
    awaited: Any = task.get_coro()
    for _ in range(_MAX_DEPTH):
        names = next((names for names in _PARTS if hasattr(awaited, names[0])), None)
        if names is None or not isinstance(frame := getattr(awaited, names[0]), FrameType):
            return
        yield frame
        awaited = getattr(awaited, names[1], None)


def definition(fn: Any) -> str:
    """`file:line` where a function is defined; empty for anything else."""
    code = getattr(inspect.unwrap(fn), "__code__", None) if callable(fn) else None
    return file_and_line(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else ""


def shown(frame: FrameType | None) -> str:
    """`file:line` of the line at which a frame stands; empty for None."""
    return "" if frame is None else file_and_line(frame.f_code.co_filename, frame.f_lineno)


def file_and_line(name: str, line: int | None) -> str:
    """`file:line`. A file below the current folder is named from there, unless that folder was deleted."""
    file = Path(name)
    with contextlib.suppress(OSError, ValueError):
        file = file.relative_to(Path.cwd())
    return f"{file}:{line}"


def _is_authors(frame: FrameType) -> bool:
    return not is_library(frame.f_code.co_filename) and not is_framehold(str(frame.f_globals.get("__name__")))

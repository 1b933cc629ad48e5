"""Where a task stands: the chain of coroutines that wait for each other (`lines.waiting_frames`). It only reads."""

from __future__ import annotations

import asyncio
from typing import Any

from ..code import lines
from .stacks import HANDLERS, CodePlace

MAX_PLACES = 20


def stands_at(task: asyncio.Task[Any], handlers: frozenset[str]) -> tuple[str, ...]:
    """The lines at which a task stands, the innermost first, each as `module:function:line`: those of the author's
    code, with the innermost line of all in front if that is a library's. `handlers` are the top-level packages that
    handlers come from (`stacks.authors`). At most MAX_PLACES."""
    frames = [*lines.waiting_frames(task)][::-1]
    places = [CodePlace.of((frame.f_code, frame.f_globals, frame.f_lineno or 0)) for frame in frames]
    mine = [place for place in places if place.owner(handlers) == HANDLERS]
    shown = mine if places[:1] == mine[:1] else [*places[:1], *mine]
    return tuple(place.where for place in shown[:MAX_PLACES])

"""Section `steps`: how many functions of Framehold each round of a call enters, before, in and after the author's code.

A count does not depend on the machine. It shows in a review where a change has made a round longer. Calls of one
question are made without a store, and counted in the last ones. Functions of libraries and of Python itself are not
counted, nor are lambdas, comprehensions and coroutines that only go on: what is counted are the steps that Framehold's
own code is divided into.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable
from inspect import CO_COROUTINE
from types import FrameType
from typing import Any, TypeVar

from framehold_loadtest.bench import child, in_process, weather
from framehold_loadtest.bench.in_process import PORT, Local, local, scripted
from framehold_loadtest.local.listeners import Cores

WARM = 20
"""Calls before the one that is counted: they fill what a process keeps."""
COUNTED = 8
"""Calls that are counted: of each stretch the fewest entries are shown."""
STRETCHES = ("in", "handler", "out")
"""Before the author's code, in it, and after it until the response is sent."""
_PACKAGES = ("/framehold/", "/framehold_core/", "/framehold_store/", "/framehold_router/")
_HANDLER = "script"
_SECONDS = 30.0
Entries = dict[str, Any]
"""The number of a round, a stretch of it, how many functions it enters there, and how many files these are in."""
ResultT = TypeVar("ResultT")


def measure(cores: Cores) -> dict[str, Any]:
    """The entries of each round and stretch.

    Raises:
        NotAvailable: they can't be counted.
    """
    return {"rows": child.run(entries, cores.server, _SECONDS)}


async def entries() -> list[Entries]:
    """The rows."""
    async with local() as app:
        for _ in range(WARM):
            await _call(app)
        # A collection would call functions of the node, at any moment.
        gc.disable()
        counted = [await _call(app) for _ in range(COUNTED)]
        # On a busy machine a timer of the node may fire within a round.
        return [min(of_stretch, key=lambda one: one["entries"]) for of_stretch in zip(*counted, strict=True)]


async def _call(app: Local) -> list[Entries]:
    """Make a call; what each of its rounds enters."""
    call = scripted(0, 1)
    first, begun = await _Counter().counted(app.request(weather.first_round(PORT, call)), 1)
    answer = weather.second_round(PORT, call, weather.read_question(first))
    last, ended = await _Counter().counted(app.request(answer), 2)
    weather.check_result(last, call)
    return [*begun, *ended]


class _Counter:
    """Counts while `counted` runs. Profiling is of the whole thread: nothing else may run in it."""

    def __init__(self) -> None:
        self._stretch = 0
        self._entered: list[list[str]] = [[] for _ in STRETCHES]

    async def counted(self, running: Awaitable[ResultT], number: int) -> tuple[ResultT, list[Entries]]:
        """The result of `running`, which is one round, and what it has entered."""
        sys.setprofile(self._event)
        try:
            result = await running
        finally:
            sys.setprofile(None)
        found = zip(STRETCHES, self._entered, strict=True)
        return result, [{"round": number, "stretch": stretch, "entries": len(files), "files": len(set(files))}
                        for stretch, files in found]  # fmt: skip

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == _HANDLER and code.co_filename == in_process.__file__:
            self._stretch = {"call": 1, "return": 2}.get(event, self._stretch)
        elif event == "call" and _is_step(frame):
            self._entered[self._stretch].append(code.co_filename)


def _is_step(frame: FrameType) -> bool:
    """Whether a named function of Framehold is entered."""
    code = frame.f_code
    if code.co_name[0] == "<" or not any(name in code.co_filename for name in _PACKAGES):
        return False
    return not (code.co_flags & CO_COROUTINE and _goes_on(frame))


def _goes_on(frame: FrameType) -> bool:
    """Whether a coroutine goes on behind an `await`, in place of being entered."""
    first = next((line for *_, line in frame.f_code.co_lines() if line is not None), 0)
    return frame.f_lineno != first

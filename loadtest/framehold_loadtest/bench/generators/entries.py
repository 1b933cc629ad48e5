"""The generator of section `steps`: it counts the functions of Framehold that a round enters.

It makes calls of one question in this process, without a store, and counts in the last ones. It prints a JSON list with
an `Entries` for each round and stretch. Functions of libraries and of Python itself are not counted, nor are lambdas,
comprehensions and coroutines that only go on: what is counted are the steps that Framehold's own code is divided into.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from inspect import CO_COROUTINE
from types import FrameType
from typing import Any, TypeVar

from framehold_loadtest.bench.generators import in_process, weather
from framehold_loadtest.bench.generators.in_process import PORT, Local, local, scripted

WARM = 20
"""Calls before the one that is counted: they fill what a process keeps."""
COUNTED = 3
"""Calls that are counted: the one with the fewest entries is shown."""
STRETCHES = ("in", "handler", "out")
"""Before the author's code, in it, and after it until the response is sent."""
_PACKAGES = ("/framehold/", "/framehold_core/", "/framehold_store/", "/framehold_router/")
_HANDLER = "script"
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Entries:
    """How many functions a round enters in one stretch, and how many files these are in."""

    round: int
    stretch: str
    entries: int
    files: int


class Counter:
    """Counts while `counted` runs. Profiling is of the whole thread: nothing else may run in it."""

    def __init__(self) -> None:
        self._stretch = 0
        self._entered: list[list[str]] = [[] for _ in STRETCHES]

    async def counted(self, running: Awaitable[ResultT], round_: int) -> tuple[ResultT, list[Entries]]:
        """The result of `running`, which is one round, and what it has entered."""
        sys.setprofile(self._event)
        try:
            result = await running
        finally:
            sys.setprofile(None)
        found = zip(STRETCHES, self._entered, strict=True)
        return result, [Entries(round_, stretch, len(files), len(set(files))) for stretch, files in found]

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


async def _count() -> list[Entries]:
    async with local() as app:
        for _ in range(WARM):
            await _call(app, [])
        # A collection would call functions of the node, at any moment.
        gc.disable()
        counted: list[list[Entries]] = [[] for _ in range(COUNTED)]
        for found in counted:
            await _call(app, found)
        # On a busy machine a timer of the node may fire within a round.
        return min(counted, key=lambda found: sum(one.entries for one in found))


async def _call(app: Local, found: list[Entries]) -> None:
    """Make a call, and add what each of its rounds enters to `found`."""
    call = scripted(0, 1)
    first, entered = await Counter().counted(app.request(weather.first_round(PORT, call)), 1)
    found += entered
    answer = weather.second_round(PORT, call, weather.read_question(first))
    last, entered = await Counter().counted(app.request(answer), 2)
    found += entered
    weather.check_result(last, call)


def main() -> None:
    """Count, and print it."""
    print(json.dumps([asdict(one) for one in asyncio.run(_count())]))


if __name__ == "__main__":
    main()

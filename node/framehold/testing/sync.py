"""Runs a rehearsal for a test that is not async, and removes the rehearsal's own frames from the tracebacks of
errors."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from ..telemetry.stacks import HANDLERS, CodePlace
from .client_script import RehearsalFailed

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

_FOLDERS = (os.path.dirname(__file__), os.path.dirname(asyncio.__file__), os.path.dirname(concurrent.futures.__file__))
_HIDDEN = (*(os.path.join(folder, "") for folder in _FOLDERS), contextlib.__file__)


def without_own_frames(error: Exception) -> Exception:
    """`error`, whose traceback begins where the rehearsal was called, or where the author's own code raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HIDDEN):
        trace = trace.tb_next
    if isinstance(error, RehearsalFailed):
        error.__suppress_context__ = True
        if (cause := error.__cause__) is not None:
            error.__cause__ = _from_authors_code(cause)
    return error.with_traceback(trace)


def _from_authors_code(error: BaseException) -> BaseException:
    """`error`, whose traceback begins in the author's code; whole if no line of it is the author's."""
    trace = error.__traceback__
    while trace is not None and CodePlace.of((trace.tb_frame.f_code, trace.tb_frame.f_globals, 0)).owner() != HANDLERS:
        trace = trace.tb_next
    return error if trace is None else error.with_traceback(trace)


def at_once(fn: Callable[P, Coroutine[Any, Any, ResultT]]) -> Callable[P, ResultT]:
    """`fn` as a function that blocks until the result is there. It runs on a loop of its own; if a loop runs already,
    in another thread."""

    @functools.wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> ResultT:
        __tracebackhide__ = True

        def whole() -> ResultT:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                return runner.run(fn(*args, **kwargs))

        try:
            if not _on_a_loop():
                return whole()
            with ThreadPoolExecutor(1, "rehearsal") as threads:
                return threads.submit(contextvars.copy_context().run, whole).result()
        except Exception as error:
            raise without_own_frames(error)  # noqa: B904 - it is the same error

    return run


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

"""The tasks that handlers start: what they raise stays in their call, and the frame of the handler hears of them.

SystemExit and KeyboardInterrupt stay in the task that raises them.

asyncio lets both through: a task that ends by one of them ends its event loop, and with it everybody's calls. Code that
was written for a command line raises them (argparse does, at a bad argument).

    1. `contain` gives an event loop a task factory
    2. whoever begins a request says so in its context (`begin`): each task that is started there, or in a task that was
       started there, is `Contained`
    3. such a task ends with a RuntimeError in their place, which its awaiter gets

Tasks of the author's lifespan are not contained: they may end the process, and mean to.

A handler that has started no task has settled as soon as its own task waits (`Frame.ask`).
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any

from .ports import RunningFrame

ENDS_PROCESS = (SystemExit, KeyboardInterrupt)
_in_request: contextvars.ContextVar[bool] = contextvars.ContextVar("framehold_in_request", default=False)
Factory = Callable[..., Any]

starter: contextvars.ContextVar[RunningFrame | None] = contextvars.ContextVar("framehold_starter", default=None)
"""Whose handler the running code belongs to; None outside of handlers, and in effects, whose tasks ask nothing."""


def begin() -> None:
    """From now on contain the tasks that are started in the current context."""
    _in_request.set(True)


def leave_out() -> None:
    """Don't contain the next task of this context: it contains all that it runs by itself."""
    _in_request.set(False)


def sees_tasks(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the tasks that are started on `loop` are seen: nobody has exchanged its task factory."""
    return isinstance(loop.get_task_factory(), _Containing)


def is_contained(error: BaseException) -> bool:
    """Whether `error` is the author's, and has to stay in its call. A KeyboardInterrupt is not where Ctrl-C raises it
    in whatever code runs: in a process, as pytest is one, that handles no SIGINT."""
    return not isinstance(error, KeyboardInterrupt) or signal.getsignal(signal.SIGINT) is not signal.default_int_handler


def in_place_of(error: BaseException) -> RuntimeError:
    """The exception that stands for one that would end the process."""
    return RuntimeError(f"{type(error).__name__} was raised; the process goes on")


def contain(loop: asyncio.AbstractEventLoop) -> None:
    """Give `loop` a task factory that contains what `begin` marks. A factory that it has makes the tasks as before."""
    factory: Any = loop.get_task_factory()
    if not isinstance(factory, _Containing):
        loop.set_task_factory(factory := _Containing(factory))
    factory.users += 1


def release(loop: asyncio.AbstractEventLoop) -> None:
    """Take one `contain` back. After the last one `loop` has the task factory again that it had before."""
    factory: Any = loop.get_task_factory()
    if isinstance(factory, _Containing):
        factory.users -= 1
        if not factory.users:
            loop.set_task_factory(factory.before)


class _Containing:
    """A task factory around another one, or around none."""

    def __init__(self, before: Factory | None) -> None:
        self.before, self.users = before, 0

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        context = options.get("context")
        inside = _in_request.get() if context is None else context.get(_in_request, False)
        frame = starter.get() if context is None else context.get(starter)
        if frame is not None and frame.task is not None:
            frame.branches = True
        if inside and asyncio.iscoroutine(coro):
            coro = Contained(coro)
        if self.before is not None:
            return self.before(loop, coro, **options)
        return asyncio.Task(coro, loop=loop, **options)


class Contained(Coroutine[Any, Any, Any]):
    """A coroutine that ends with a RuntimeError where the one inside of it would end the process. To debuggers and to
    asyncio's messages it looks like the one inside."""

    __slots__ = ("__weakref__", "_inner")

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def send(self, value: Any) -> Any:
        """Run the coroutine inside to its next pause."""
        try:
            return self._inner.send(value)
        except ENDS_PROCESS as error:
            if not is_contained(error):
                raise
            raise in_place_of(error) from error

    def throw(self, typ: Any, val: BaseException | object = None, tb: TracebackType | None = None) -> Any:
        """Raise an exception in the coroutine inside, at its pause."""
        try:
            return self._inner.throw(typ if val is None else val)  # type: ignore[arg-type]
        except ENDS_PROCESS as error:
            if not is_contained(error):
                raise
            raise in_place_of(error) from error
        finally:
            # The frame is in the traceback of what it raises: if it referred to that, the two would be a cycle.
            del typ, val, tb

    def close(self) -> None:
        """End the coroutine inside."""
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

"""Finds mistakes of a handler that no client is told about: errors that the handler caught, exceptions that the SDK
hides from the client, and coroutines of `once` that were never awaited.

Python reports a coroutine that was never awaited by calling a function of the module `warnings`. While a call is
played, that function is replaced: the replacement looks whether the coroutine is one of `once`, and then calls the
original.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from mcp.server.mcpserver.exceptions import UnexpectedResourceError, UnexpectedToolError

from framehold_core.errors import AskError, KeyReused

from ..authoring.functions import once
from ..frame.rehearsal import RehearsalObserver, misused, rehearsal_observer
from ..sdk.session import FrameSession
from ..sdk.wrapped_handler import Handler

MISUSE = (KeyReused, AskError)
"""The errors that a handler gets when it misuses Framehold. A TypeError of `once` is another."""


class RaiseObserver(RehearsalObserver, Protocol):
    """A rehearsal observer that also gets the exceptions of the handler."""

    def broke(self, error: BaseException) -> None:
        """The handler raised `error`."""


class ObservedSession(FrameSession):
    """A session that reports refused questions to the rehearsal observer."""

    def keyed(self, key: str) -> FrameSession:
        """See `FrameSession.keyed`."""
        return _observed(super().keyed(key))

    async def send_request(self, *args: Any, **kwargs: Any) -> Any:
        """See `FrameSession.send_request`."""
        try:
            return await super().send_request(*args, **kwargs)
        except AskError as error:
            misused(error)
            raise


def observed(handler: Handler) -> Handler:
    """`handler`, entered with an `ObservedSession`."""

    async def entered(ctx: Any, params: Any) -> Any:
        if isinstance(ctx.session, FrameSession):
            _observed(ctx.session)
        return await handler(ctx, params)

    return entered


def _observed(session: FrameSession) -> FrameSession:
    """Make `session` an `ObservedSession`. It stays the same object, since `framehold.ask` uses it, too."""
    session.__class__ = ObservedSession
    return session


class _Listener(logging.Handler):
    """Reports exceptions that the SDK logs, and hides from clients, to `run`."""

    def __init__(self, run: RaiseObserver) -> None:
        super().__init__(logging.ERROR)
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        """Report the exception of a log record, if it belongs to this call."""
        error = record.exc_info[1] if record.exc_info else None
        while isinstance(error, (UnexpectedToolError, UnexpectedResourceError)) and error.__cause__ is not None:
            error = error.__cause__
        if error is not None and rehearsal_observer.get() is self._run:
            self._run.broke(error)


@contextmanager
def logged_exceptions(run: RaiseObserver) -> Iterator[None]:
    """Report the exceptions that the SDK logs meanwhile to `run`."""
    logger, listener = logging.getLogger("mcp"), _Listener(run)
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)


_HOOK = "_warn_unawaited_coroutine"


class _Unawaited:
    """Replaces the function that Python calls with each coroutine that was never awaited, while calls are played. Plays
    may overlap."""

    def __init__(self) -> None:
        self._plays = 0
        self._python: Callable[[Any], Any] = lambda coroutine: None

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Report each `once` that is never awaited meanwhile to the rehearsal observer."""
        if self._plays == 0 and (found := getattr(warnings, _HOOK, None)) is not None:
            self._python = found
            setattr(warnings, _HOOK, self)
        self._plays += 1
        try:
            yield
        finally:
            self._plays -= 1
            if self._plays == 0 and getattr(warnings, _HOOK, None) is self:
                setattr(warnings, _HOOK, self._python)

    def __call__(self, coroutine: Any) -> None:
        if getattr(coroutine, "cr_code", None) is once.__code__:
            frame = coroutine.cr_frame
            key = None if frame is None else frame.f_locals.get("key")
            misused(TypeError(f"framehold.once({key!r}) was never awaited; nothing was run; write `await` before it"))
        self._python(coroutine)


unawaited = _Unawaited().reported

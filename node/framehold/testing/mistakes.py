"""Finds mistakes of a handler that no client sees: errors that the handler caught, and exceptions that the SDK
hides from the client."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from framehold_core.errors import AskError, KeyReused

from ..frame.rehearsal import RehearsalObserver, misused, rehearsal_observer
from ..sdk.questions import question
from ..sdk.session import FrameSession
from ..sdk.tool_shortcut import straightened
from ..sdk.wrapped_handler import Handler

MISUSE = (KeyReused, AskError)
"""The errors that a handler gets when it misuses Framehold. A TypeError of `once` is another."""


class ObservedSession(FrameSession):
    """A session that reports questions, and those that are refused, to the rehearsal observer."""

    def keyed(self, key: str) -> FrameSession:
        """See `FrameSession.keyed`."""
        return _observed(super().keyed(key))

    async def send_request(self, request: Any, result_type: Any, *args: Any, **kwargs: Any) -> Any:
        """See `FrameSession.send_request`."""
        observer = rehearsal_observer.get()
        asked = question(request, result_type)
        if observer is not None and asked is not None:
            observer.asks(asked.wire.get("params") or {})
        try:
            return await super().send_request(request, result_type, *args, **kwargs)
        except AskError as error:
            misused(error)
            raise


def observed(handler: Handler) -> Handler:
    """`handler`, entered as a node enters it, with an `ObservedSession`. Its exceptions are reported."""
    enter = straightened(handler)

    async def entered(ctx: Any, params: Any) -> Any:
        if isinstance(ctx.session, FrameSession):
            _observed(ctx.session)
        try:
            return await enter(ctx, params)
        except Exception as error:
            if (observer := rehearsal_observer.get()) is not None:
                observer.broke(error)
            raise

    return entered


def _observed(session: FrameSession) -> FrameSession:
    """Make `session` an `ObservedSession`. It stays the same object, since `framehold.ask` uses it, too."""
    session.__class__ = ObservedSession
    return session


class _Listener(logging.Handler):
    """Reports exceptions that the SDK or FastMCP logs, with or without their traceback, to `run`."""

    def __init__(self, run: RehearsalObserver) -> None:
        super().__init__(logging.WARNING)
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        """Report the exception of a log record, or the one that is being handled, if it belongs to this call."""
        error = record.exc_info[1] if record.exc_info else sys.exc_info()[1]
        if error is not None and rehearsal_observer.get() is self._run:
            self._run.broke(error)


@contextmanager
def logged_exceptions(run: RehearsalObserver) -> Iterator[None]:
    """Report the exceptions that the SDK or FastMCP logs meanwhile to `run`."""
    loggers, listener = [logging.getLogger(name) for name in ("mcp", "fastmcp")], _Listener(run)
    for logger in loggers:
        logger.addHandler(listener)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(listener)

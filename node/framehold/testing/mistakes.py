"""Mistakes that no client is told of: what a handler is told and may hide, what it raised, and what it never awaited.

Python itself says that a coroutine was never awaited, in a function of `warnings`. While a call is played that
function is ours: it looks whether the coroutine is one of `once`, and goes on as always.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from mcp.server.mcpserver.exceptions import UnexpectedResourceError, UnexpectedToolError

from framehold_core.errors import AskError, KeyReused

from ..authoring import once
from ..invocation import Handler
from ..session import FrameSession
from ..witness import Witness, misused, witness

MISUSE = (KeyReused, AskError)
"""What tells a handler that it did what it may not. A TypeError of `once` does, too."""


class Broken(Witness, Protocol):
    """What is needed of a run."""

    def broke(self, error: BaseException) -> None:
        """The handler raised this."""


class Watched(FrameSession):
    """A session whose questions may be refused in sight of the witness."""

    def keyed(self, key: str) -> FrameSession:
        """See `FrameSession.keyed`."""
        return _seen(super().keyed(key))

    async def send_request(self, *args: Any, **kwargs: Any) -> Any:
        """See `FrameSession.send_request`."""
        try:
            return await super().send_request(*args, **kwargs)
        except AskError as error:
            misused(error)
            raise


def watched(handler: Handler) -> Handler:
    """The handler, entered with such a session."""

    async def entered(ctx: Any, params: Any) -> Any:
        if isinstance(ctx.session, FrameSession):
            _seen(ctx.session)
        return await handler(ctx, params)

    return entered


def _seen(session: FrameSession) -> FrameSession:
    """The same session, made one of these: `framehold.ask` has it, too."""
    session.__class__ = Watched
    return session


class _Listener(logging.Handler):
    """Hears of the exceptions that the SDK keeps from clients: it logs them."""

    def __init__(self, run: Broken) -> None:
        super().__init__(logging.ERROR)
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        """Take an exception of this call."""
        error = record.exc_info[1] if record.exc_info else None
        while isinstance(error, (UnexpectedToolError, UnexpectedResourceError)) and error.__cause__ is not None:
            error = error.__cause__
        if error is not None and witness.get() is self._run:
            self._run.broke(error)


@contextmanager
def overheard(run: Broken) -> Iterator[None]:
    """Tell the run what its handler raises."""
    logger, listener = logging.getLogger("mcp"), _Listener(run)
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)


_HOOK = "_warn_unawaited_coroutine"


class _Unawaited:
    """What Python calls with a coroutine that was never awaited, while calls are played. Plays may overlap."""

    def __init__(self) -> None:
        self._plays = 0
        self._python: Callable[[Any], Any] = lambda coroutine: None

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell the witness of each `once` that is never awaited."""
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


unawaited = _Unawaited().told

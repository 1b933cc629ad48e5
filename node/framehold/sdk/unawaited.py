"""Ends a call whose handler has forgotten the `await` before a `once`: the effect did not run, and a result would say
that it did.

Python reports a coroutine that was never awaited by calling a function of the module `warnings`, when it frees the
coroutine: at the end of the statement, or of the function whose variable holds it. If it is in a reference cycle, the
garbage collector frees it, maybe while another call runs. While a server runs in this process, that function is
replaced. The replacement looks whether the coroutine is that of a watched function, made in a call; for any other it
calls the original. So nothing of this is on the way of a handler that makes no mistake.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from ..code import lines
from ..frame.rehearsal import rehearsal_observer
from ..telemetry.failures import HandlerFailure
from ..telemetry.stacks import CodePlace
from .invocation import HandlerOutcome
from .present_call import Present, current

logger = logging.getLogger(__name__)

_HOOK = "_warn_unawaited_coroutine"


class _Unawaited:
    """Replaces the function that Python calls with each coroutine that was never awaited. Its users may overlap."""

    def __init__(self) -> None:
        self._users = 0
        self._python: Callable[[Any], Any] = lambda coroutine: None
        self._watched: set[CodeType] = set()

    def watch(self, fn: Any) -> None:
        """Report coroutines of `fn`, a coroutine function with the parameters `key` and `call`. `call` is the call that
        made the coroutine, None outside of calls."""
        assert isinstance(fn, FunctionType)
        self._watched.add(fn.__code__)

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Report coroutines that are never awaited meanwhile. After the last user Python reports as before."""
        if self._users == 0 and (found := getattr(warnings, _HOOK, None)) is not None:
            self._python = found
            setattr(warnings, _HOOK, self)
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self._users == 0 and getattr(warnings, _HOOK, None) is self:
                setattr(warnings, _HOOK, self._python)

    def __call__(self, coroutine: Any) -> None:
        if getattr(coroutine, "cr_code", None) not in self._watched or not _is_reported(coroutine):
            self._python(coroutine)


unawaited = _Unawaited()


def _is_reported(coroutine: Any) -> bool:
    """End the call whose handler made this coroutine, and log it; false if it belongs to no call."""
    made = coroutine.cr_frame
    given = {} if made is None else made.f_locals
    call: Present | None = given.get("call")
    if call is None:
        return False
    # What runs now says nothing about the mistake if it belongs to another call.
    is_here = current.get() is call
    frame = lines.running_frame() if is_here else None
    place = f" ({lines.shown(frame)})" if frame is not None else ""
    why = f"framehold.once({given['key']!r}) was never awaited; nothing was run; write `await` before it{place}"
    if is_here and (observer := rehearsal_observer.get()) is not None:
        observer.misused(error := TypeError(why))
        observer.broke(error)
    where = "" if frame is None else CodePlace.of((frame.f_code, frame.f_globals, frame.f_lineno or 0)).where
    _fail(call, why, _outcome(call, HandlerFailure("TypeError", where)))
    return True


def _fail(call: Present, why: str, outcome: HandlerOutcome) -> None:
    """End a call with an outcome, and log why. If it has ended already, only log."""
    frame = call.frame
    if frame is not None and frame.dead and not call.ended:
        # What its handler had still to await.
        return
    then = "has ended already" if call.ended else "ends with an error"
    logger.error("%r: %s; its call %s", call.tool, why, then, extra={} if frame is None else frame.log_fields)
    if call.ended:
        return
    if frame is not None:
        _on_its_loop(frame.loop, lambda: frame.fail(outcome, why))
    elif call.unrecorded is not None:
        call.unrecorded.failed = outcome


def _on_its_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call `call` on `loop`: now if this is its thread, else before anything that this thread asks of it from now
    on."""
    try:
        if asyncio.get_running_loop() is loop:
            call()
            return
    except RuntimeError:
        # No loop runs in this thread.
        pass
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


def _outcome(present: Present, failure: HandlerFailure) -> HandlerOutcome:
    """The outcome that the SDK gives a call whose handler raised."""
    if present.method == "tools/call":
        text = types.TextContent(type="text", text=f"Error executing tool {present.tool}")
        return HandlerOutcome(types.CallToolResult(content=[text], is_error=True), failure=failure)
    return HandlerOutcome(error=MCPError(types.INTERNAL_ERROR, "Internal server error"), failure=failure)


def result_or_raise(outcome: object) -> Any:
    """The result of an outcome, or its error raised."""
    assert isinstance(outcome, HandlerOutcome)
    if outcome.error is not None:
        raise outcome.error
    return outcome.value()

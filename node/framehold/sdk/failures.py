"""What the running handler raised. The SDK and FastMCP turn the exception of a tool into a result, so whoever does that
notes the exception first; the handler's outcome then keeps its class and place."""

from __future__ import annotations

from contextvars import ContextVar

from ..telemetry.raised_at import RaisedAt, raised_at

_noted: ContextVar[RaisedAt | None] = ContextVar("framehold_raised", default=None)


def note(error: BaseException) -> None:
    """Note what the running handler raised, before a result is made of `error` or its tracebacks are removed."""
    _noted.set(raised_at(error))


def noted() -> RaisedAt | None:
    """What the running handler raised, as far as it was noted."""
    return _noted.get()

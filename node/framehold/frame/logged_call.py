"""Which call a log line belongs to: whoever writes a line within a round need not name it.

The law: one context variable. In the task of a request it holds the call of that request, in the context of a handler
the handler's frame. A task that outlives its request and serves others is started in an empty context, so that its
lines name no call.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from framehold_core.ids import CallId, prefix

from . import span


class Logged(Protocol):
    """What log lines can belong to."""

    @property
    def log_fields(self) -> Mapping[str, Any]:
        """The fields of a line that is written now: `call` (the beginning of its id), and what is known of `tool`,
        `round`, `epoch`, `node`, `trace_id` and `span_id`."""
        ...


class NamedCall(NamedTuple):
    """A call of which only the id is known yet."""

    call: CallId

    @property
    def log_fields(self) -> Mapping[str, Any]:
        """The beginning of its id."""
        return {"call": prefix(self.call)}


logged_call: contextvars.ContextVar[Logged | None] = contextvars.ContextVar("framehold_logged", default=None)
"""What the lines of the running code belong to; None outside of calls."""


def log_fields() -> dict[str, Any]:
    """The fields of a line that the running code writes: those of its call, and of the span that is current now."""
    found = logged_call.get()
    return {**({} if found is None else found.log_fields), **span.ids()}

"""Context variables of a handler that outlives its requests: what the transport sets anew each round is taken over."""

from __future__ import annotations

import contextvars
from typing import Any

from . import spans

OWN = "framehold_"
"""How the names of our own context variables begin: a request may carry those of a call that it was sent from."""
_seen: contextvars.ContextVar[contextvars.Context | None] = contextvars.ContextVar("framehold_round", default=None)
"""What the transport said in the last round that this context heard of; the next is compared with it."""

_kept: set[contextvars.ContextVar[Any]] = set()


def keep(*variables: contextvars.ContextVar[Any]) -> None:
    """What these hold is the handler's own: no round sets them."""
    _kept.update(variables)


def begun(variables: contextvars.Context) -> contextvars.Context:
    """A handler's own context, which begins as that of the request that entered it."""
    context = variables.copy()
    context.run(_begin, variables)
    return context


def _begin(variables: contextvars.Context) -> None:
    _seen.set(variables)
    spans.entered()


def refresh(fresh: contextvars.Context) -> None:
    """Take over what the transport changed between two rounds (access token, request id), in a context of the
    handler's.

    Only variables that differ between the two requests are set: what the handler set itself stays.
    """
    before = _seen.get()
    if before is fresh:
        return
    for variable, value in fresh.items():
        if variable.name.startswith(OWN) or variable in _kept:
            continue
        if before is None or before.get(variable) is not value:
            variable.set(spans.taken_over(variable.get(None), value))
    _seen.set(fresh)

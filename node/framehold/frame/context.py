"""Context variables of a handler, which lives longer than the request that entered it.

The transport sets some variables for each request (access token, request id). At each new round they are copied into
the handler's context. When a request leaves, it gets the variables as its handler has them: the author's middleware
sees what a handler has set, as if it had run in the request's own task.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from . import contained, span
from .logged_call import logged_call
from .ports import RoundCarrier, RunningFrame

OWN_PREFIX = "framehold_"
"""The beginning of the names of Framehold's context variables. They are never copied from a request: a handler may send
a request in its own process, and that request carries the variables of the handler's call."""
_last_round: contextvars.ContextVar[contextvars.Context | None] = contextvars.ContextVar(
    "framehold_round", default=None
)
"""The request context that was last copied into this context. The next one is compared with it."""

_hidden: contextvars.ContextVar[Mapping[contextvars.ContextVar[Any], Any]] = contextvars.ContextVar(
    "framehold_hidden", default=MappingProxyType({})
)
"""The values of requests that a handler has hidden by its own, by variable: a reset brings them back."""

_UNSET = object()
_handler_owned: set[contextvars.ContextVar[Any]] = set()
"""Variables that a handler's context and the contexts of its requests have each for themselves."""


def keep(*variables: contextvars.ContextVar[Any]) -> None:
    """Never copy these variables from a request into a handler's context, or back."""
    _handler_owned.update(variables)


def handler_context(variables: contextvars.Context, frame: RunningFrame) -> contextvars.Context:
    """A new context for the handler of `frame`, copied from the context of the request that enters it."""
    context = variables.copy()
    context.run(_enter, variables, frame)
    return context


def _enter(variables: contextvars.Context, frame: RunningFrame) -> None:
    _last_round.set(variables)
    logged_call.set(frame)
    contained.starter.set(frame)
    contained.leave_out()
    span.enter()


def refresh(fresh: contextvars.Context) -> None:
    """Copy what the transport changed between two rounds (access token, request id) into the current context, which is
    the handler's. `fresh` is the context of the request that resumes the handler.

    Only variables that differ between the two requests are set. A variable that the handler set itself keeps its value
    until the handler resets it.
    """
    before = _last_round.get()
    if before is fresh:
        return
    for variable, value in fresh.items():
        if before is not None and before.get(variable) is value:
            continue
        if variable in _handler_owned or _is_private(variable):
            continue
        mine = variable.get(None)
        if before is None or mine is before.get(variable) or not _is_handlers(variable, mine, before):
            variable.set(span.next_value(mine, value))
    _last_round.set(fresh)


def _is_handlers(variable: contextvars.ContextVar[Any], mine: Any, before: contextvars.Context) -> bool:
    """Whether `mine` is a value that the handler has set itself, and not what stood there before it did."""
    if span.is_rounds(mine):
        return False
    hidden = {**_hidden.get()}
    is_set = mine is not hidden.setdefault(variable, before.get(variable))
    if not is_set:
        del hidden[variable]
    _hidden.set(hidden)
    return is_set


def take_back(carrier: RoundCarrier) -> None:
    """Copy what a handler has set into the current context, which is that of the request which carried its round. The
    request keeps nothing of the handler then.

    Nothing is copied where the handler's variables are those of another request: of one whose round this request
    joined.
    """
    handler, carrier.handler_context, carrier.ending = carrier.handler_context, None, None
    if handler is None or handler.get(_last_round) is not carrier.variables:
        return
    for variable, value in handler.items():
        if variable in _handler_owned or carrier.variables.get(variable, _UNSET) is value:
            continue
        if not _is_private(variable) and not span.is_rounds(value):
            variable.set(value)


def _is_private(variable: contextvars.ContextVar[Any]) -> bool:
    if variable.name.startswith(OWN_PREFIX):
        # Looked up by itself from now on: there are few of them.
        _handler_owned.add(variable)
    return variable in _handler_owned

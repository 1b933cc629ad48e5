"""The observer of a call that is rehearsed (`testing`). In production there is none. It is looked up only when an
effect runs, a value is drawn, a request is refused, or a drain leaves calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, TypeVar

from framehold_core.effects import Refusal

from .entropy import Entropy

ErrorT = TypeVar("ErrorT", bound=Exception)


class RehearsalObserver(Protocol):
    """Observes one rehearsed call, including what its client does not see."""

    @property
    def entropy(self) -> Entropy:
        """The source of the call's recorded values, in place of the node's."""

    async def effect(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """An effect of `once` begins: return its result, or raise its error. `call` is its function with its arguments;
        `run` runs it."""

    def asks(self, params: Mapping[str, Any]) -> None:
        """The handler asks a question with these parameters (JSON), maybe one that diverges."""

    def misused(self, error: Exception) -> None:
        """The handler misused the API; `error` is raised into it."""

    def broke(self, error: BaseException) -> None:
        """The handler raised `error`, or the SDK did around an exception of the handler."""

    def refused(self, refusal: Refusal) -> None:
        """A request was refused: its reply has neither questions nor an outcome."""


rehearsal_observer: ContextVar[RehearsalObserver | None] = ContextVar("framehold_witness", default=None)
"""The observer of the running call; None in production."""


def misused(error: ErrorT) -> ErrorT:
    """Report a misuse of the API to the observer, if there is one. Returns `error`, for the caller to raise."""
    if (watching := rehearsal_observer.get()) is not None:
        watching.misused(error)
    return error

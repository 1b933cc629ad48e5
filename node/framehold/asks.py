"""A question on its way: what a handler asks, who carries it to a client, and what a frame needs of its runtime."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol

from framehold_core import journal
from framehold_core.call import Phase
from framehold_core.errors import DuplicateAsk
from framehold_core.journal import Draft, Kind, Lane

from .onces import Scribe


def _as_read(answer: Any) -> Any:
    return answer


NOTHING: Mapping[str, Any] = MappingProxyType({})
"""Of answers: one for all, where there are none."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a handler wants to know. `wire` is the request as the client gets it, `fp` its digest; `parse` reads a raw
    answer, or raises ValueError; `heard` makes of what was read what the handler awaits, or raises it; `text` is how
    the question begins, for people."""

    kind: str
    wire: dict[str, Any]
    fp: str
    parse: Callable[[Any], Any]
    text: str = ""
    heard: Callable[[Any], Any] = _as_read


class Carrier(Protocol):
    """The request of a round, as far as a frame needs it: where its notifications go, and what its client can
    answer."""

    variables: contextvars.Context

    def taken_over(self) -> None:
        """The call that this request is for was run by a process that is gone, and is carried on here."""

    def refusal(self, question: Question) -> object | None:
        """The outcome to end the call with if this client can't be asked `question`; None if it can."""


class Keeper(Scribe, Protocol):
    """What a frame needs of the runtime that holds it."""

    def phase(self) -> Phase: ...
    def asked(self, asks: tuple[Draft, ...]) -> None: ...
    def refused(self, outcome: object) -> None: ...
    def rebuilt(self) -> None: ...
    def strayed(self, error: Exception) -> None: ...
    def ended(self, frame: Any, outcome: object) -> None: ...


@lru_cache(maxsize=1024)
def _told(text: str) -> bytes:
    """How a question begins, as its entry has it: one for all that ask it."""
    return text.encode("utf-8", "replace")


@dataclass(slots=True)
class Ask:
    """A question that waits for its answer."""

    key: str
    question: Question
    lane: Lane
    answer: asyncio.Future[Any]

    def draft(self, round_: int) -> Draft:
        """This ask as a journal entry."""
        text = _told(self.question.text)
        return Draft(Kind.ASK, self.key, round_, self.lane, self.question.fp, "text" if text else "none", text)


@lru_cache(maxsize=1024)
def stem_of(kind: str, fp: str) -> str:
    """How the keys of a question without one begin."""
    return f"{kind}-{fp[:8]}"


@lru_cache(maxsize=1024)
def numbered(stem: str, count: int) -> str:
    """The key of the `count`-th such question. One text for all frames that ask the same."""
    return f"{stem}-{count}"


def beforehand(key: str, question: Question, lane: Lane, answer: bytes) -> tuple[Draft, Draft]:
    """A question that was answered before anybody was asked, as journal entries: round 0."""
    ask = Draft(Kind.ASK, key, 0, lane, question.fp, "none", b"")
    return ask, Draft(Kind.ANSWER, key, 0, lane, journal.digest(answer), "json", answer)


def swapped(key: str) -> DuplicateAsk:
    """The error of a question that is pending already under its key."""
    return DuplicateAsk(
        f"a question with the key {key!r} is pending already: answers could be swapped; nothing was asked; "
        "give each its own key: framehold.ask(key, message, Model)"
    )

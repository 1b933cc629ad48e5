"""A question that a handler asks its client: its value, its key and its journal entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from framehold_core.errors import DuplicateAsk
from framehold_core.journal import Draft, EntryKind, EntryLane


def _unchanged(answer: Any) -> Any:
    return answer


NO_ANSWERS: Mapping[str, Any] = MappingProxyType({})
"""The empty mapping of answers. All frames without prefilled answers share it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a handler.

    `wire` is the request as the client gets it, and `fp` is the digest of it. `parse` reads a raw answer (JSON values)
    or raises ValueError. `result` turns the parsed answer into the value that the handler's `await` returns, or raises
    the error that the `await` raises. `text` is the beginning of the question, for people."""

    kind: str
    wire: dict[str, Any]
    fp: str
    parse: Callable[[Any], Any]
    text: str = ""
    result: Callable[[Any], Any] = _unchanged


@lru_cache(maxsize=1024)
def _text_bytes(text: str) -> bytes:
    """The beginning of a question as UTF-8, for its journal entry. Equal questions share one object."""
    return text.encode("utf-8", "replace")


@dataclass(slots=True)
class Ask:
    """A question that waits for its answer."""

    key: str
    question: Question
    lane: EntryLane
    answer: asyncio.Future[Any]

    def draft(self, round_: int) -> Draft:
        """The journal entry that records this question in round `round_`."""
        text = _text_bytes(self.question.text)
        return Draft(EntryKind.ASK, self.key, round_, self.lane, self.question.fp, "text" if text else "none", text)


@lru_cache(maxsize=1024)
def key_stem(kind: str, fp: str) -> str:
    """The beginning of the key of a question whose author gave no key."""
    return f"{kind}-{fp[:8]}"


@lru_cache(maxsize=1024)
def numbered_key(stem: str, count: int) -> str:
    """The key of the `count`-th question with this stem in a call. All frames that ask it share one string."""
    return f"{stem}-{count}"


def prefilled_drafts(key: str, question: Question, lane: EntryLane, answer: bytes) -> tuple[Draft, Draft]:
    """The two journal entries of a question whose answer came with the first request. They belong to round 0."""
    ask = Draft(EntryKind.ASK, key, 0, lane, question.fp, "none", b"")
    return ask, Draft(EntryKind.ANSWER, key, 0, lane, "given", "json", answer)


def duplicate_ask(key: str) -> DuplicateAsk:
    """The error for a second question under a key whose first question still waits for its answer."""
    return DuplicateAsk(
        f"a question with the key {key!r} is pending already: answers could be swapped; nothing was asked; "
        "give each its own key: framehold.ask(key, message, Model)"
    )

"""The client of a rehearsed call: the questions that it gets, and its answers.

When a call is played for the first time, each question takes the next answer of the script. Later each question gets
the answer that it got the first time, in whatever order the questions come: branches of a gather may ask in another
order. A question that wasn't asked the first time is a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from framehold_core.replay import DEPENDS

from ..frame.difference import difference
from ..sdk.form_content import listed, mismatch
from ..sdk.questions import KINDS

_SDK_RESULTS = (
    types.ElicitResult,
    types.CreateMessageResult,
    types.CreateMessageResultWithTools,
    types.ListRootsResult,
)
_MODEL = "rehearsal"
"""The name of the model in a sampled text."""


HELD = f"when the call was held; likely {DEPENDS}"
"""With what a rehearsal compares, and the likely cause of a difference."""


class RehearsalFailed(AssertionError):
    """The ways of playing a call differ, or its answers don't fit its questions."""


class RehearsalEnds(RehearsalFailed):
    """A rehearsal can't play a call to its end. That is no fault of the call."""


@dataclass(frozen=True)
class AskedQuestion:
    """A question as the client gets it: its key, its kind ("elicit", "sample" or "roots"), its parameters as JSON, and
    the round (1, 2, ...) that asked it."""

    key: str
    kind: str
    params: Mapping[str, Any]
    round: int

    @property
    def message(self) -> str:
        """The message to the user; for a sampling request its texts; for roots ""."""
        if self.kind != "sample":
            return str(self.params.get("message", ""))
        blocks = (message.get("content") for message in self.params.get("messages", ()))
        each = (block for found in blocks for block in (found if isinstance(found, list) else [found]))
        return "\n".join(block["text"] for block in each if isinstance(block, dict) and "text" in block)

    def __str__(self) -> str:
        return f"{self.message or self.kind!r} (key {self.key!r}, round {self.round})"


Answer = str | Mapping[str, Any] | BaseModel | Callable[[AskedQuestion], Any]
"""The answer to one question; see `testing.rehearsed`."""


class together:
    """Answers to all the questions of one round, by key: `together(left={"seat": 1}, right="decline")`, or
    `together({"a key": ...})`. In the list of answers it takes the place of these answers."""

    def __init__(self, answers: Mapping[str, Answer] | None = None, /, **more: Answer) -> None:
        self.answers: dict[str, Answer] = {**(answers or {}), **more}

    def __repr__(self) -> str:
        return f"together({self.answers!r})"


Answers = Sequence[Answer | together] | Callable[[AskedQuestion], Any]


class ClientScript:
    """The answers of one call, and the answer that each question got when the call was first played."""

    def __init__(self, answers: Answers) -> None:
        self._always = answers if callable(answers) else None
        self._given: list[Any] = [] if callable(answers) else list(answers)
        self._taken = 0
        self._known: dict[tuple[str, int], tuple[AskedQuestion, Any]] = {}
        """By key and turn, in order: the questions of the first time, each with its answer as a client sends it."""

    def first(self, asked: Sequence[AskedQuestion], before: Sequence[AskedQuestion]) -> dict[str, Any]:
        """The answers to the questions of a round, by key, when the call is first played. `before` are the questions
        of earlier rounds.

        Raises:
            RehearsalFailed: an answer is missing, or does not fit its question.
        """
        times = Counter(item.key for item in before)
        found: dict[str, Any] = {}
        for item, answer in zip(asked, self._next(asked, before), strict=True):
            found[item.key] = wire(item, answer)
            self._known[item.key, times[item.key]] = (item, found[item.key])
        return found

    def again(self, way: str, asked: Sequence[AskedQuestion], before: Sequence[AskedQuestion]) -> dict[str, Any]:
        """The answers to the questions of a round, by key, when the call is played again in `way`. `before` are the
        questions of earlier rounds.

        Raises:
            RehearsalFailed: a question differs from the one that was asked the first time.
        """
        if (why := self.other(asked, before)) is not None:
            raise RehearsalFailed(f"the call differs under {way}: {why}")
        times = Counter(item.key for item in before)
        return {item.key: self._known[item.key, times[item.key]][1] for item in asked}

    def further(self, asked: Sequence[AskedQuestion], before: Sequence[AskedQuestion]) -> dict[str, Any]:
        """The answers to the questions of a round, by key, when other code carries the call on. A question that was not
        asked the first time gets the answer to the question that had its place, or that of the function for all
        questions. `before` are the questions of earlier rounds.

        Raises:
            RehearsalEnds: there is no answer for a question.
            RehearsalFailed: the answer of the function does not fit its question.
        """
        times = Counter(item.key for item in before)
        found: dict[str, Any] = {}
        for place, item in enumerate(asked, len(before)):
            was, answer = self._known.get((item.key, times[item.key])) or self._at(place) or (None, None)
            if was is not None and was.kind == item.kind:
                found[item.key] = answer
            elif self._always is not None:
                found[item.key] = wire(item, self._always)
            else:
                raise RehearsalEnds(f"it asks question {place + 1}, {item}, for which there is no answer")
        return found

    def other(
        self, asked: Sequence[AskedQuestion], before: Sequence[AskedQuestion] = (), since: str = HELD
    ) -> str | None:
        """A text about the first of these questions that differs from what was asked the first time; None if there is
        none. `before` are the questions of earlier rounds."""
        times = Counter(item.key for item in before)
        for place, item in enumerate(asked, len(before)):
            known = self._known.get((item.key, times[item.key]))
            times[item.key] += 1
            if known is None or known[0].params != item.params or known[0].kind != item.kind:
                return _other(place + 1, item, (known or self._at(place) or (None,))[0], since)
        return None

    def known(self) -> list[tuple[AskedQuestion, int, Any]]:
        """The questions of the first time, in order, each with its turn and its answer."""
        return [(asked, turn, answer) for (_, turn), (asked, answer) in self._known.items()]

    def know(self, asked: AskedQuestion, turn: int, answer: Any) -> None:
        """Add a question of the first time, as `known` returned it."""
        self._known[asked.key, turn] = (asked, answer)

    def unasked(self, asked: Sequence[AskedQuestion]) -> AskedQuestion | None:
        """A question that was asked the first time, and is missing in `asked`; None if there is none."""
        times: Counter[str] = Counter(item.key for item in asked)
        return next((was for (key, n), (was, _) in self._known.items() if n >= times[key]), None)

    def left(self) -> list[Any]:
        """The answers that no question has taken."""
        return self._given[self._taken :]

    def _next(self, asked: Sequence[AskedQuestion], before: Sequence[AskedQuestion]) -> Iterator[Any]:
        if not asked:
            return
        if self._always is not None:
            yield from [self._always] * len(asked)
            return
        if isinstance(self._ahead(), together):
            answers = self._take(asked[0], before).answers
            if answers.keys() != {item.key for item in asked}:
                raise RehearsalFailed(
                    f"round {asked[0].round} asks {listed([item.key for item in asked])}, but together(...) answers "
                    f"{listed(answers)}; nothing was sent; name each of the round's keys{_so_far(before)}"
                )
            yield from (answers[item.key] for item in asked)
            return
        for place, item in enumerate(asked):
            answer = self._take(item, (*before, *asked[:place]))
            if isinstance(answer, together):
                raise RehearsalFailed(
                    f"question {len(before) + place + 1}, {item}, is asked in one round with the one before it; "
                    "together(...) must answer a whole round; nothing was sent"
                )
            yield answer

    def _at(self, place: int) -> tuple[AskedQuestion, Any] | None:
        return tuple(self._known.values())[place] if place < len(self._known) else None

    def _ahead(self) -> Any:
        return self._given[self._taken] if self._taken < len(self._given) else None

    def _take(self, item: AskedQuestion, before: Sequence[AskedQuestion]) -> Any:
        if self._taken == len(self._given):
            raise RehearsalFailed(
                f"too few answers: {len(self._given)} given, and none is left for question {len(before) + 1}, {item}; "
                f"add one{_so_far(before)}"
            )
        self._taken += 1
        return self._given[self._taken - 1]


def wire(item: AskedQuestion, answer: Any) -> Any:
    """One answer in the form in which a client sends it.

    Raises:
        RehearsalFailed: the answer does not fit the question.
    """
    if callable(answer):
        answer = answer(item)
    if isinstance(answer, _SDK_RESULTS):
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    if item.kind == "sample" and isinstance(answer, str):
        return {"role": "assistant", "content": {"type": "text", "text": answer}, "model": _MODEL}
    if item.kind == "elicit" and answer in ("decline", "cancel"):
        return {"action": answer}
    if isinstance(answer, BaseModel):
        # A form has no null: a client leaves the field out.
        answer = answer.model_dump(by_alias=True, mode="json", exclude_none=item.kind == "elicit")
    if not isinstance(answer, Mapping):
        raise RehearsalFailed(f"{answer!r} can't answer {item}; nothing was sent; {_WANTED[item.kind]}")
    content = to_jsonable_python(dict(answer))
    if item.kind != "elicit":
        return content
    if item.params.get("mode") == "url":
        return {"action": "accept"}
    if why := mismatch(content, item.params.get("requestedSchema") or {}):
        raise RehearsalFailed(
            f"{answer!r} does not match the form of {item}: {why}; nothing was sent; give what the form asks for, or "
            "an ElicitResult, which is sent as it is"
        )
    return {"action": "accept", "content": content}


_WANTED = {
    "elicit": 'give a dict with the form\'s content ({} accepts a URL), "decline" or "cancel"',
    "sample": "give a text, or a CreateMessageResult",
    "roots": "give a ListRootsResult",
}


def read(requests: Mapping[str, Any], round_: int) -> tuple[AskedQuestion, ...]:
    """The questions of a result that asks. `requests` are its `inputRequests`, as JSON."""
    return tuple(
        AskedQuestion(key, KINDS.get(asked["method"], asked["method"]), asked.get("params") or {}, round_)
        for key, asked in requests.items()
    )


def differing(what: str, was: Any, now: Any, since: str = HELD) -> str:
    """A text about a difference. `since` says when it was otherwise, and maybe the likely cause."""
    return f"{what} is {now!r}, and was {was!r} {since}"


def _other(place: int, item: AskedQuestion, was: AskedQuestion | None, since: str) -> str:
    if was is None:
        return f"question {place}, {item}, was not asked {since}"
    # A key that is made from the text of its question adds nothing to that text.
    parts = ({"kind": asked.kind, **asked.params} for asked in (was, item))
    found = difference(next(parts), next(parts), f"question {place}")
    what, then, now = found or (f"the key of question {place}", was.key, item.key)
    return differing(what, then, now, since)


def _so_far(before: Sequence[AskedQuestion]) -> str:
    lines = "".join(f"\n  {n}. {item}" for n, item in enumerate(before, 1))
    return f"; asked so far:{lines}" if lines else "; it is the first"

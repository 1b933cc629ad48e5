"""A frame of a node that rehearses (FRAMEHOLD_REHEARSE). When its handler has ended, the handler can be entered once
more with all that it has heard, to see whether it comes to the same.

While it is entered once more, it gets the answers, the results of effects and the values of the first time, its
notifications are dropped, and nothing is asked, run or drawn. What it does otherwise is kept in `otherwise`.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, cast

from .asks import Question
from .frame import Frame
from .rebuild import Rebuild


class EnteredOtherwise(BaseException):
    """Ends a handler that is entered once more, and goes another way. No `except Exception` catches it."""


class _Heard(NamedTuple):
    question: Question
    answer: Any
    error: Exception | None


class _NoJournal:
    """In the place of the journal of a rebuild: nothing more is recorded."""

    live = False

    def __init__(self, found: Callable[[str], NoReturn]) -> None:
        self.cursor, self._found = self, found

    def deliver_next(self, *more: object) -> bool:
        """See `Rebuild.deliver_next`: there is nothing."""
        return False

    def once(self, key: str, *more: Any) -> NoReturn:
        """See `Cursor.once`."""
        self._found(f"it comes to once {key!r}, which did not run the first time")

    def value(self, key: str, *more: Any) -> NoReturn:
        """See `Cursor.value`."""
        self._found(f"it draws the value {key!r}, which it did not draw the first time")


class RehearsedFrame(Frame):
    """A frame that keeps what its handler hears."""

    __slots__ = ("_heard", "_times", "otherwise")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._heard: dict[tuple[str, int], _Heard] = {}
        self._times: Counter[str] = Counter()
        self.otherwise = ""
        """How the handler went another way when it was entered once more; empty if it did not."""

    @property
    def has_heard(self) -> bool:
        """Whether the handler got an answer."""
        return bool(self._heard)

    async def ask(self, question: Question, key: str | None = None) -> Any:
        """See `Frame.ask`."""
        name = self._key(question) if key is None else key
        place = (name, self._times[name])
        self._times[name] += 1
        if self._is_once_more:
            return await self._answer_again(place, question)
        try:
            answer = await super().ask(question, name)
        except Exception as error:
            self._heard[place] = _Heard(question, None, error)
            raise
        self._heard[place] = _Heard(question, copy.deepcopy(answer), None)
        return answer

    async def _answer_again(self, place: tuple[str, int], question: Question) -> Any:
        heard = self._heard.get(place)
        if heard is None or heard.question.fp != question.fp:
            self._goes_otherwise(f"it asks {question.text!r}, which it did not ask the first time")
        await asyncio.sleep(0)
        if heard.error is not None:
            raise heard.error
        return copy.deepcopy(heard.answer)

    def replayed(self, read: Callable[[Rebuild], Any]) -> Any:
        """See `Frame.replayed`. Where the handler is entered once more, nothing is recorded that it has not heard."""
        return read(cast(Rebuild, self.replay)) if self._is_once_more else super().replayed(read)

    def fail(self, outcome: object, why: str) -> None:
        """See `Frame.fail`."""
        if self._is_once_more:
            self.otherwise = self.otherwise or why
        else:
            super().fail(outcome, why)

    @contextmanager
    def once_more(self) -> Iterator[None]:
        """The handler is entered once more meanwhile. Without `otherwise` it has also asked all that it asked before,
        if it ended."""
        self._asked, self._times = (), Counter()
        self.recorded.begin_again()
        self.replay = cast(Rebuild, _NoJournal(self._goes_otherwise))
        try:
            yield
            missed = next((heard for (name, time), heard in self._heard.items() if time >= self._times[name]), None)
            if missed is not None and not self.otherwise:
                self.otherwise = f"it does not ask {missed.question.text!r}"
        finally:
            self.replay = None

    @property
    def _is_once_more(self) -> bool:
        return isinstance(self.replay, _NoJournal)

    def _goes_otherwise(self, what: str) -> NoReturn:
        self.otherwise = self.otherwise or what
        raise EnteredOtherwise(what)

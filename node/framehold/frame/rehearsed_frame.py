"""A frame of a node that rehearses (FRAMEHOLD_REHEARSE). When its handler has ended, the handler can be entered once
more with all that it has heard, to see whether it comes to the same.

While it is entered once more, it gets the answers, the results of effects and the values of the first time, in their
order then. Its notifications are dropped, and nothing is asked, run or drawn. What it does otherwise is kept in
`otherwise`.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, NoReturn, cast

from .asks import Question
from .frame import FoundT, Frame
from .rebuild import Rebuild
from .recorded import FrameRecord


class EnteredOtherwise(BaseException):
    """Ends a handler that is entered once more, and goes another way. No `except Exception` catches it."""


class _Heard(NamedTuple):
    question: Question
    answer: Any
    error: BaseException | None


class _NoJournal:
    """In the place of the journal of a rebuild: nothing more is recorded."""

    live = False

    def __init__(self, found: Callable[[str], NoReturn], deliver: Callable[[], bool]) -> None:
        self.cursor, self._found, self._deliver = self, found, deliver

    def deliver_next(self, *more: object) -> bool:
        """See `Rebuild.deliver_next`: what was heard next at the first time."""
        return self._deliver()

    def once(self, key: str, *more: Any) -> NoReturn:
        """See `Cursor.once`."""
        self._found(f"it comes to once {key!r}, which did not run the first time")

    def value(self, key: str, *more: Any) -> NoReturn:
        """See `Cursor.value`."""
        self._found(f"it draws the value {key!r}, which it did not draw the first time")


class _Recorded(FrameRecord):
    """Effects that are heard in the order of the first time."""

    _frame: RehearsedFrame

    async def once(self, key: str, *more: Any) -> Any:
        """See `FrameRecord.once`."""
        return await self._frame.in_order(("once", key), partial(super().once, key, *more))


class RehearsedFrame(Frame):
    """A frame that keeps what its handler hears."""

    __slots__ = ("_delivered", "_heard", "_order", "_times", "_waiting", "otherwise")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._heard: dict[tuple[str, int], _Heard] = {}
        self._times: Counter[str] = Counter()
        self._delivered = 0
        self._order: dict[tuple[str, object], int] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self.otherwise = ""
        """How the handler went another way when it was entered once more; empty if it did not."""

    @property
    def has_heard(self) -> bool:
        """Whether the handler got an answer."""
        return bool(self._heard)

    @property
    def recorded(self) -> FrameRecord:
        """See `Frame.recorded`."""
        if self._recorded is None:
            self._recorded = _Recorded(self, self._host)
        return self._recorded

    def hear(self, delivery: Callable[[], None]) -> None:
        """See `Frame.hear`."""
        super().hear(partial(self._count, delivery))

    def _count(self, delivery: Callable[[], None]) -> None:
        self._delivered += 1
        delivery()

    def _answer(self, *answers: Any) -> None:
        self._delivered += 1
        super()._answer(*answers)

    def _deliver_next(self, replay: Rebuild) -> None:
        self._delivered += 1
        super()._deliver_next(replay)

    async def in_order(self, what: tuple[str, object], hear: Callable[[], Awaitable[FoundT]]) -> FoundT:
        """Hear something. The first time it is noted after how many deliveries; once more it waits for its turn."""
        if self._is_once_more and what in self._order:
            turn = self.loop.create_future()
            self._waiting.append((self._order[what], turn))
            self.settle()
            await turn
            return await hear()
        try:
            return await hear()
        finally:
            self._order.setdefault(what, self._delivered)

    def _go_on(self) -> bool:
        """Let those go on that heard what they wait for at the same time, and before the others."""
        first = min((order for order, _ in self._waiting), default=0)
        found = [turn for order, turn in self._waiting if order == first]
        self._waiting = [item for item in self._waiting if item[0] != first]
        for turn in found:
            if not turn.done():
                turn.set_result(None)
        return bool(found)

    async def ask(self, question: Question, key: str | None = None) -> Any:
        """See `Frame.ask`."""
        name = self._key(question) if key is None else key
        place = (name, self._times[name])
        self._times[name] += 1
        if self._is_once_more:
            return await self._answer_again(place, question)
        try:
            answer = await self.in_order(("ask", place), partial(super().ask, question, name))
        except (Exception, asyncio.CancelledError) as error:
            if not self.dead:  # Nobody hears it once more; and its traceback leads back to this frame.
                self._heard[place] = _Heard(question, None, error)
            raise
        self._heard[place] = _Heard(question, copy.deepcopy(answer), None)
        return answer

    async def _answer_again(self, place: tuple[str, int], question: Question) -> Any:
        heard = self._heard.get(place)
        if heard is None or heard.question.fp != question.fp:
            self._goes_otherwise(f"it asks {question.text!r}, which it did not ask the first time")
        await self.in_order(("ask", place), partial(asyncio.sleep, 0))
        if isinstance(heard.error, asyncio.CancelledError):
            # It was given up.
            await self.loop.create_future()
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
        self.replay = cast(Rebuild, _NoJournal(self._goes_otherwise, self._go_on))
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

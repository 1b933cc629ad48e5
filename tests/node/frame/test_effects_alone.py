"""The effects of one frame, with a test in the place of their frame and of its engine."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, ClassVar

import pytest

from framehold.frame import fingerprints
from framehold.frame.once import Effects
from framehold.frame.payloads import Payloads
from framehold.frame.rebuild import Rebuild
from framehold.frame.state_journal import StateJournal
from framehold_core import journal
from framehold_core.errors import AskError, InDoubt, KeyReused, ResultNotKept, SealError
from framehold_core.ids import CallId
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_core.value import replace
from framehold_core.writes import once_digest
from framehold_store.seal import Sealer
from framehold_store.values import Values
from tests.kit.effects import SOON, failure
from tests.kit.effects import Effects as Ran
from tests.kit.engine import turns
from tests.kit.nodes import KEY

pytestmark = pytest.mark.anyio

PAYLOADS = Payloads(Sealer((KEY.encode(),), "test"), Values(pickle=False, limit=1 << 10))
CALL = CallId("a" * 32)
K = once_digest("k")
DRAWN = (Draft(EntryKind.VALUE, "drawn", 1, EntryLane.SIDE, "fp", "json", b"1"),)
"""A value that the handler is to draw again: its frame is not rebuilt before that."""


class Alone:
    """A frame and its engine, which do what the test says. `asked` is what its effects asked of it."""

    dead, round, drops, call_id, payloads = False, 1, False, CALL, PAYLOADS
    made: ClassVar[list[Alone]] = []

    def __init__(self, *recorded: Draft, state: tuple[bytes, ...] = ()) -> None:
        entries = [journal.entry(n, draft, PAYLOADS.sealed(CALL, n, draft)) for n, draft in enumerate(recorded)]
        self.replay = Rebuild(entries, lambda item: PAYLOADS.opened(CALL, item)) if recorded else None
        self.asked, self.tasks, self.ran = list[str](), list[asyncio.Task[None]](), Ran()
        self.is_allowed = self.has_room = self.is_open = True
        self.is_next = False
        self.state = StateJournal(CALL)
        self.state.load(CALL, state)
        self.made.append(self)
        self.effects = Effects(self, self, self.state)  # type: ignore[arg-type]  # what effects need of them

    def once(self, fn: Callable[..., Any] | None = None, *args: Any, idempotent: bool = False) -> asyncio.Task[Any]:
        """A task of the handler that comes to the effect `k`."""
        return asyncio.create_task(self.effects.once("k", fn or self.ran.held, args, {}, idempotent))

    async def begun(self) -> asyncio.Task[Any]:
        """The effect `k`, while it runs."""
        waiting = self.once()
        await turns(3)
        self.effects.decided(K, True)
        await turns(3)
        assert self.ran.ran == ["it"]
        return waiting

    async def has_result(self) -> asyncio.Task[Any]:
        """The effect `k`, which has run."""
        waiting = await self.begun()
        self.ran.go.set()
        await turns(5)
        return waiting

    async def heard(self) -> asyncio.Task[Any]:
        """The effect `k`, whose outcome the handler has heard."""
        waiting = await self.has_result()
        self.effects.result_kept(K)
        await turns(3)
        return waiting

    def rebuilt(self) -> None:
        self.replay = None
        self.effects.frame_rebuilt()

    def kill(self) -> None:
        self.dead = True
        self.effects.kill()

    async def check_allowed(self, what: str) -> None:
        if not self.is_allowed:
            raise AskError(what)

    def lane(self) -> EntryLane:
        return EntryLane.SIDE

    def replayed(self, read: Callable[[Rebuild], Any]) -> Any:
        assert self.replay is not None
        try:
            return read(self.replay)
        except SealError:
            raise asyncio.CancelledError("this frame can't be rebuilt") from None

    def hears_at_once(self, key: str) -> bool:
        return self.is_next

    def hear(self, delivery: Callable[[], None]) -> None:
        delivery()

    def note_wait(self) -> None:
        self.asked.append("waits")

    def settle(self) -> None:
        self.asked.append("settles")

    def admit(self, what: str) -> None:
        self.asked.append("admit")

    def keeps(self, size: int) -> bool:
        return self.has_room

    def may_run(self) -> bool:
        return self.is_open

    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        self.tasks.append(asyncio.create_task(effect, context=context))
        return self.tasks[-1]

    def intended(self, key: str, draft: Draft | None) -> None:
        self.asked.append("begins" if draft is None else "intent")

    def resulted(self, key: str, draft: Draft) -> None:
        self.asked.append("result")

    def flush(self) -> None:
        self.asked.append("flush")

    @property
    def are_over(self) -> bool:
        return all(task.done() for task in self.tasks)


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    """Effects that a test leaves under way end with it."""
    yield
    while Alone.made:
        left = Alone.made.pop()
        left.kill()
        left.ran.go.set()


def entry_of(alone: Alone, kind: EntryKind, value: bytes = b"") -> Draft:
    """What is recorded of the effect `k`."""
    fp = fingerprints.of(alone.ran.held, (), {})
    return Draft(kind, "k", 1, EntryLane.SIDE, fp, "json" if value else "text", value)


def after(*kinds: EntryKind) -> Alone:
    """Effects of a frame that is being rebuilt; these are recorded of the effect `k`."""
    drafts = [entry_of(Alone(), kind, b'["it"]' if kind is EntryKind.RESULT else b"") for kind in kinds]
    return Alone(*drafts)


async def by_now(waiting: asyncio.Task[Any]) -> Any:
    """What a task has come to that needs no further report: what it gives or raises."""
    await turns(5)
    assert waiting.done(), "it waits for something"
    return await failure(waiting) if waiting.cancelled() or waiting.exception() else await waiting


# Its steps


async def test_an_effect_goes_through_its_steps() -> None:
    """It is admitted, its intent is kept, it runs, its caller hears what it came to, and that is durable in the end."""
    alone = Alone()
    assert alone.effects.settled and not alone.effects.busy
    waiting = await alone.begun()
    assert alone.asked == ["admit", "waits", "intent"] and alone.effects.busy
    alone.ran.go.set()
    await turns(5)
    assert alone.asked[3:] == ["result"] and not waiting.done()
    alone.effects.result_kept(K)
    assert await by_now(waiting) == ["it"]
    assert not alone.effects.busy and not alone.effects.settled
    alone.effects.results_stored([K])
    await turns(3)
    assert alone.effects.settled and alone.are_over and alone.asked[4:] == []
    assert await by_now(alone.once()) == ["it"]
    assert alone.asked[4:] == [] and alone.ran.ran == ["it"]


async def test_where_frames_are_dropped_the_frame_hears_that_its_effect_is_over() -> None:
    """It has held its questions back meanwhile."""
    alone = Alone()
    alone.drops = True
    await alone.has_result()
    assert "settles" not in alone.asked
    alone.effects.result_kept(K)
    assert "settles" in alone.asked


async def test_what_is_not_allowed_here_does_not_begin() -> None:
    alone = Alone()
    alone.is_allowed = False
    assert isinstance(await by_now(alone.once()), AskError) and not alone.asked and not alone.tasks


async def test_another_effect_under_its_key_is_refused() -> None:
    alone = Alone()
    waiting = await alone.begun()
    assert isinstance(await by_now(alone.once(alone.ran.held, "other")), KeyReused)
    assert alone.ran.ran == ["it"] and not waiting.done()


async def test_a_result_for_which_there_is_no_room_is_not_kept() -> None:
    alone = Alone()
    alone.has_room = False
    assert isinstance(await by_now(await alone.heard()), ResultNotKept)


Report = Callable[[Effects], None]
REPORTS: dict[str, Report] = {
    "may run": lambda effects: effects.decided(K, True),
    "must not run": lambda effects: effects.decided(K, False),
    "kept": lambda effects: effects.result_kept(K),
    "stored": lambda effects: effects.results_stored([K]),
}
each_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


@each_report
async def test_a_report_about_an_effect_that_the_frame_has_not_come_to_changes_nothing(report: Report) -> None:
    alone = Alone()
    report(alone.effects)
    assert await by_now(await alone.heard()) == ["it"]


@each_report
async def test_a_report_about_an_effect_that_has_not_begun_changes_nothing(report: Report) -> None:
    """It waits for its frame to be rebuilt."""
    alone = Alone(*DRAWN)
    waiting = alone.once()
    await turns(3)
    report(alone.effects)
    await turns(3)
    assert alone.ran.ran == [] and not alone.are_over and not waiting.done()
    alone.rebuilt()
    await turns(3)
    alone.effects.decided(K, True)
    await turns(3)
    assert alone.ran.ran == ["it"]


@each_report
async def test_a_report_that_comes_twice_changes_nothing(report: Report) -> None:
    alone = Alone()
    waiting = await alone.heard()
    alone.effects.results_stored([K])
    report(alone.effects)
    await turns(3)
    report(alone.effects)
    assert await by_now(waiting) == ["it"] and alone.effects.settled and len(alone.state.added) == 1


# What is recorded


async def test_an_effect_that_may_have_run_is_in_doubt() -> None:
    """Its intent is recorded, so there is room for it: no other is written, and it does not run."""
    alone = after(EntryKind.INTENT)
    waiting = alone.once()
    await turns(3)
    assert alone.asked == ["waits"]
    alone.rebuilt()
    await turns(3)
    alone.effects.result_kept(K)
    assert isinstance(await by_now(waiting), InDoubt)
    assert alone.ran.ran == [] and alone.asked == ["waits", "result"]


async def test_an_effect_that_may_have_run_runs_again_where_it_is_declared_idempotent_since() -> None:
    """As the text of InDoubt advises."""
    alone = after(EntryKind.INTENT)
    waiting = alone.once(idempotent=True)
    alone.ran.go.set()
    await turns(3)
    alone.rebuilt()
    await turns(3)
    assert alone.asked == ["waits", "begins"]
    alone.effects.decided(K, True)
    await turns(5)
    alone.effects.result_kept(K)
    assert await by_now(waiting) == ["it"] and alone.ran.ran == ["it"]


@pytest.mark.parametrize("is_next", [False, True])
async def test_a_recorded_outcome_is_heard_in_its_turn(is_next: bool) -> None:
    """At once where it is next, else when it is given. There is room for it, and it does not run."""
    alone = after(EntryKind.INTENT, EntryKind.RESULT)
    alone.is_next = is_next
    waiting = alone.once()
    await turns(3)
    assert waiting.done() is is_next and alone.asked == ["waits"][is_next:]
    if not is_next:
        alone.effects.give("k")
    assert await by_now(waiting) == ["it"] and alone.ran.ran == [] and len(alone.state.added) == 1


async def state_with_k() -> tuple[bytes, ...]:
    """The state that a round leaves in which the effect `k` has run."""
    alone = Alone()
    await alone.heard()
    return alone.state.dump(PAYLOADS)


@pytest.mark.parametrize("is_rebuilt", [False, True])
async def test_what_an_earlier_round_recorded_does_not_run(is_rebuilt: bool) -> None:
    """Under its key no other effect runs."""
    state = await state_with_k()
    alone, other = (Alone(*DRAWN[:is_rebuilt], state=state) for _ in range(2))
    assert await by_now(alone.once()) == ["it"]
    assert isinstance(await by_now(other.once(other.ran.held, "other")), KeyReused)
    assert alone.ran.ran == other.ran.ran == [] and alone.asked == other.asked == []


@pytest.mark.parametrize("is_rebuilt", [False, True])
async def test_what_an_earlier_round_recorded_and_no_key_opens(is_rebuilt: bool) -> None:
    """The state was read when the call began; a rebuild on a node that can't read it fails."""
    alone = Alone(*DRAWN[:is_rebuilt], state=await state_with_k())
    ((place, item),) = alone.state.entries.items()
    alone.state.entries[place] = replace(item, value=item.value[::-1])
    error = await by_now(alone.once())
    assert isinstance(error, asyncio.CancelledError if is_rebuilt else SealError) and alone.ran.ran == []


# Durable before it is said


async def test_what_was_heard_is_written_at_once_and_waited_for() -> None:
    alone = Alone()
    await alone.heard()
    saying = asyncio.create_task(alone.effects.stored())
    await turns(3)
    assert alone.asked[-1] == "flush" and not saying.done()
    alone.effects.results_stored([K])
    await turns(3)
    assert saying.done()


@pytest.mark.parametrize("step", [Alone.begun, Alone.has_result])
async def test_what_nobody_has_heard_is_not_waited_for(step: Callable[[Alone], Any]) -> None:
    alone = Alone()
    await step(alone)
    saying = asyncio.create_task(alone.effects.stored())
    await turns(3)
    assert saying.done() and "flush" not in alone.asked


async def test_what_is_durable_is_not_written_again() -> None:
    alone = Alone()
    await alone.heard()
    alone.effects.results_stored([K])
    async with asyncio.timeout(SOON):
        await alone.effects.stored()
    assert "flush" not in alone.asked


async def test_a_frame_that_is_gone_owes_nothing() -> None:
    alone = Alone()
    await alone.begun()
    alone.kill()
    saying = asyncio.create_task(alone.effects.stored())
    await turns(3)
    assert saying.done() and "flush" not in alone.asked


# The frame is gone


async def _comes_to_it(alone: Alone) -> None:
    """Its task is made, and has not run yet."""
    alone.once()
    await turns(1)


async def _is_intended(alone: Alone) -> None:
    alone.once()
    await turns(3)


async def _waits_for_the_window(alone: Alone) -> None:
    alone.is_open = False
    alone.once()
    await turns(3)
    alone.effects.decided(K, True)
    await turns(3)


@pytest.mark.parametrize("is_rebuilt", [False, True])
@pytest.mark.parametrize("step", [_comes_to_it, _is_intended, _waits_for_the_window])
async def test_what_has_not_begun_does_not_begin(step: Callable[[Alone], Any], is_rebuilt: bool) -> None:
    """Nothing waits for it either."""
    alone = Alone(*DRAWN[:is_rebuilt])
    await step(alone)
    alone.kill()
    alone.is_open = True
    await asyncio.wait(alone.tasks, timeout=1)
    assert alone.are_over and alone.ran.ran == [] and "result" not in alone.asked


async def test_what_runs_runs_to_its_end_and_is_not_kept() -> None:
    alone, ended = Alone(), list[str]()

    async def runs() -> None:
        await alone.ran.held()
        ended.append("it")

    waiting = alone.once(runs)
    await turns(3)
    alone.effects.decided(K, True)
    await turns(3)
    assert alone.ran.ran == ["it"]
    alone.kill()
    assert isinstance(await by_now(waiting), asyncio.CancelledError) and not alone.are_over
    alone.ran.go.set()
    await turns(5)
    assert ended == ["it"] and alone.are_over and "result" not in alone.asked


async def test_a_result_that_is_not_durable_when_the_frame_goes_is_not_waited_for() -> None:
    alone = Alone()
    await alone.has_result()
    alone.kill()
    await turns(3)
    assert alone.are_over


async def test_who_waits_for_an_effect_that_is_cut_off_is_told() -> None:
    """As by the end of the process."""
    alone = Alone()
    waiting = await alone.begun()
    alone.tasks[0].cancel()
    assert isinstance(await by_now(waiting), asyncio.CancelledError)

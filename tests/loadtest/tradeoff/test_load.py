"""The users of a cell: when those who think answer, and how long anybody waits."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

import pytest

from framehold_loadtest.notes import ENDED, UNBORN, Call
from framehold_loadtest.tradeoff.callers import Aim, Modern
from framehold_loadtest.tradeoff.load import Load
from framehold_loadtest.tradeoff.pace import QUICK, Shape

pytestmark = pytest.mark.load

SERVED, SPREAD, THINKERS, MANY = 0.1, 0.4, 4, 12


class Served:
    """Callers whose calls ask once and take `SERVED` seconds; the first `refused` of them are refused."""

    def __init__(self, refused: int = 0) -> None:
        self.asked = self.answered = 0
        self.all_asked, self.half_answered = threading.Event(), threading.Event()
        self.many_answered = threading.Event()
        self.refused = refused

    def opened(self, aim: Aim) -> _Caller:
        return _Caller(self, aim)


class _Caller(Modern):
    def __init__(self, served: Served, aim: Aim) -> None:
        super().__init__(aim)
        self._served = served

    async def call(self, name: str) -> Call:
        served, began = self._served, time.time()
        await asyncio.sleep(SERVED)
        if served.refused:
            served.refused -= 1
            return Call(name, began, time.time(), 1, UNBORN, "503")
        served.asked += 1
        if served.asked >= THINKERS:
            served.all_asked.set()
        await self._aim.think()
        served.answered += 1
        if served.answered >= THINKERS // 2:
            served.half_answered.set()
        if served.answered >= MANY:
            served.many_answered.set()
        return Call(name, began, time.time(), 2, ENDED)


def test_half_of_those_who_think_answer_at_the_fault_and_nobody_waits_for_their_thought() -> None:
    served = Served()
    load = Load(0, served.opened, replace(QUICK, users=0, thinkers=THINKERS, spread=SPREAD))
    load.start()
    assert served.all_asked.wait(20) and served.answered == 0
    load.answer_early()
    assert served.half_answered.wait(20)
    assert served.answered == THINKERS // 2, "the others wait until all is well"
    load.stop()
    assert [call.outcome for call in load.slow.calls] == [ENDED] * THINKERS
    assert len(load.slow.waits) == THINKERS
    lasted = sum(call.ended - call.began for call in load.slow.calls)
    assert sum(load.slow.waits) < lasted - THINKERS // 2 * SPREAD / 4, "what they thought is no wait"


def test_who_is_refused_at_the_beginning_waits_until_a_later_try_ends() -> None:
    """One wait for three calls, of which the last one ended."""
    served = Served(refused=2)
    load = Load(0, served.opened, replace(QUICK, users=1, thinkers=0))
    load.start()
    assert served.half_answered.wait(20) or served.answered
    load.stop()
    outcomes = [call.outcome for call in load.quick.calls]
    assert outcomes[:3] == [UNBORN, UNBORN, ENDED]
    assert len(load.quick.waits) == outcomes.count(ENDED)
    first = load.quick.calls[2].ended - load.quick.calls[0].began
    assert abs(load.quick.waits[0] - first) < SERVED / 2


def test_users_do_not_think_in_step() -> None:
    """They begin one after another, and none of their thoughts is as long as the next one: they come in no bursts."""
    served, think = Served(), 0.2
    load = Load(0, served.opened, replace(QUICK, users=6, thinkers=0), Shape(think=think))
    load.start()
    assert served.many_answered.wait(20)
    load.stop()
    calls = load.quick.calls
    thoughts = [call.ended - call.began - SERVED for call in calls[:MANY]]
    assert min(thoughts) < 0.8 * think < 1.2 * think < max(thoughts) < 2 * think
    first = sorted(call.began for call in calls)[:6]
    assert first[-1] - first[0] > think / 4

"""Each option's server as real processes: a call ends right, with the effects and the entries that the deck says."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from framehold_loadtest import ledger
from framehold_loadtest.notes import ENDED, Call
from framehold_loadtest.tradeoff.callers import Aim
from framehold_loadtest.tradeoff.options import OPTIONS
from framehold_loadtest.tradeoff.pace import QUICK, ROUNDS
from framehold_loadtest.tradeoff.record import Turn

AGAIN = {"H-hold": 0, "H-replay": 2, "E": 2, "E naive": 2, "F": 2, "G": 2, "A": 2}
"""Entries beyond the first of a call with two questions. G's are its steps', not its end's."""
EFFECTS = {"E naive": {"reserve": 3, "book": 1}}
"""Where they are not once each."""


async def at_once() -> None:
    """No thought."""


async def one_call(port: int, option: str) -> tuple[Call, list[Turn]]:
    turns: list[Turn] = []
    caller = OPTIONS[option].caller(Aim(port, ROUNDS, 10.0, turns.append, at_once))
    try:
        return await caller.call("trip-1"), turns
    finally:
        caller.close()


@pytest.mark.parametrize("name", OPTIONS)
def test_a_call_ends_right_with_its_effects_and_entries(name: str, tmp_path: Path) -> None:

    with contextlib.ExitStack() as stack:
        site = OPTIONS[name].make(tmp_path, replace(QUICK, nodes=1))
        site.start(stack)
        call, turns = asyncio.run(one_call(site.front(stack, sticky=True), name))
    assert (call.outcome, call.why) == (ENDED, "")
    assert [turn.round for turn in turns] == [1, 2, 3] and all(turn.answered for turn in turns)
    assert all(turn.sent > 300 and turn.received > 100 for turn in turns)
    assert all((turn.token > 0) == (name != "A" and turn.round < ROUNDS) for turn in turns)
    lines = ledger.read(site.ledger)
    assert ledger.reentries(lines, [call]) == AGAIN[name]
    done = Counter(line.split(" ")[1] for line in lines if f" {ledger.ENTERED} " not in line)
    # Under `once` an effect that a branch repeats has the same key, and is one.
    if name == "H-replay":
        assert ledger.compare(lines, [call]).once == len(ledger.EFFECTS)
    else:
        assert done == EFFECTS.get(name, {"reserve": 1, "book": 1})
    assert ledger.compare(lines, [call]).twice == (name == "E naive")

"""Each option's server as real processes: a call ends right, with the effects and the entries that the deck says."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from framehold_loadtest import ledger
from framehold_loadtest.client import trip
from framehold_loadtest.client.connection import Connection, post
from framehold_loadtest.notes import ENDED, LOST, Call
from framehold_loadtest.tradeoff.callers import Aim
from framehold_loadtest.tradeoff.options import OPTIONS, Option
from framehold_loadtest.tradeoff.pace import QUICK, ROUNDS
from framehold_loadtest.tradeoff.record import Turn

pytestmark = pytest.mark.load

AGAIN = {"H-hold": 0, "H-replay": 2, "E": 2, "E naive": 2, "F": 2, "G": 2, "A": 2}
"""Entries beyond the first of a call with two questions. G's are its steps', not its end's."""
EFFECTS = {"E naive": {"reserve": 3, "book": 1}}
"""Where they are not once each."""
KEPT = 16384
"""Bytes that a tool keeps between its rounds: it rides in the token, unless it is held."""
TWICE = {"E": 2, "E naive": 2, "F": 1, "G": 2}
"""Effects that happen twice where the reply to the last round is lost, and the round is sent again."""


async def at_once() -> None:
    """No thought."""


async def one_call(port: int, option: str, name: str, *, size: int = 0, loses: bool) -> tuple[Call, list[Turn]]:
    turns: list[Turn] = []
    caller = OPTIONS[option].caller(Aim(port, ROUNDS, 10.0, turns.append, at_once, size, loses))
    try:
        return await caller.call(name), turns
    finally:
        caller.close()


@pytest.mark.parametrize(("option", "status"), [(OPTIONS["E"], 200), (OPTIONS["F"], 200), (OPTIONS["A"], 406)])
def test_a_handler_that_holds_nothing_is_served_in_the_json_mode(option: Option, status: int, tmp_path: Path) -> None:
    """The SDK takes a client that accepts no event stream in its JSON mode only; A is served in the default mode."""

    async def accepting_json_alone(port: int) -> int:
        channel = await Connection.open(port)
        fields = trip.FIELDS | {"Accept": "application/json"}
        reply = await channel.request(post(port, fields, trip.begin("one", ROUNDS)))
        channel.close()
        return reply.status

    with contextlib.ExitStack() as stack:
        site = option.make(tmp_path, replace(QUICK, nodes=1))
        site.start(stack)
        assert asyncio.run(accepting_json_alone(site.front(stack, sticky=True))) == status


@pytest.mark.parametrize("name", OPTIONS)
def test_a_call_ends_right_with_its_effects_and_entries(name: str, tmp_path: Path) -> None:

    with contextlib.ExitStack() as stack:
        site = OPTIONS[name].make(tmp_path, replace(QUICK, nodes=1))
        site.start(stack)
        port = site.front(stack, sticky=True)
        call, turns = asyncio.run(one_call(port, name, "right", loses=False))
        lost, _ = asyncio.run(one_call(port, name, "lost", loses=True))
        kept, heavy = asyncio.run(one_call(port, name, "kept", size=KEPT, loses=False))
    assert (call.outcome, call.why) == (ENDED, "")
    assert [turn.round for turn in turns] == [1, 2, 3] and all(turn.answered for turn in turns)
    assert all(turn.sent > 300 and turn.received > 100 for turn in turns)
    assert all((turn.token > 0) == (name != "A" and turn.round < ROUNDS) for turn in turns)
    # The tool fails if what it kept between its rounds is not what it made.
    assert (kept.outcome, kept.why) == (ENDED, "")
    assert (max(turn.token for turn in heavy) > KEPT) == (name not in ("H-hold", "A"))
    # A stream that broke can't be had again: what it did is done, and nobody was told.
    assert lost.outcome == (LOST if name == "A" else ENDED)
    written = ledger.read(site.ledger)
    assert ledger.compare([line for line in written if line.startswith("lost ")], [lost]).twice == TWICE.get(name, 0)
    lines = [line for line in written if line.startswith("right ")]
    assert ledger.reentries(lines, [call]) == AGAIN[name]
    done = Counter(line.split(" ")[1] for line in lines if f" {ledger.ENTERED} " not in line)
    # Under `once` an effect that a branch repeats has the same key, and is one.
    if name == "H-replay":
        assert ledger.compare(lines, [call]).once == len(ledger.EFFECTS)
    else:
        assert done == EFFECTS.get(name, {"reserve": 1, "book": 1})
    assert ledger.compare(lines, [call]).twice == (name == "E naive")

"""Whatever a handler did, it is rebuilt from any record of it; whatever was changed in it, no record is passed by."""

from __future__ import annotations

import random
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framehold_core import replay
from framehold_core.errors import DivergenceError
from framehold_core.journal import Entry, EntryKind, EntryLane
from framehold_core.replay import Cursor
from tests.core.handlers import Again, Atom, Live, Reply, Script, atoms, with_atom

LEARNED = (EntryKind.ASK, EntryKind.INTENT, EntryKind.VALUE)
NEW = Atom(EntryKind.ASK, "new", "fp-new")


def script_of(shape: list[list[list[tuple[EntryKind, int]]]]) -> Script:
    """A script. Branches that run side by side ask under keys of their own; over time keys are used again. A question
    differs each time, and a `once` never does."""
    script = []
    for statement, branches in enumerate(shape):
        lines = []
        for branch, line in enumerate(branches):
            lane = f"{branch}" if len(branches) > 1 else "main"
            lines.append(tuple(_atom(kind, number, lane, (statement, at)) for at, (kind, number) in enumerate(line)))
        script.append(tuple(lines))
    return tuple(script)


def _atom(kind: EntryKind, number: int, lane: str, place: tuple[int, int]) -> Atom:
    if kind is EntryKind.INTENT:
        return Atom(kind, f"o{number}", f"fn-o{number}")
    key = f"k{number}-{lane}" if kind is EntryKind.ASK else f"v-{lane}-{place}"
    return Atom(kind, key, f"{key} at {place}")


LINES = st.lists(st.tuples(st.sampled_from(LEARNED), st.integers(0, 2)), min_size=1, max_size=4)
BRANCHES = st.one_of(LINES.map(lambda line: [line]), st.lists(LINES, min_size=2, max_size=3))
SCRIPTS = st.lists(BRANCHES, min_size=1, max_size=5).map(script_of)
PREFILLED = st.sets(st.sampled_from(["k0-main", "k1-main", "k0-0", "k1-1"]), max_size=2)
LUCK = st.randoms(use_true_random=False)


def recorded(script: Script, prefilled: set[str], luck: random.Random) -> tuple[Live, list[Entry]]:
    """A script as it went, and a journal of it as it may stand after a crash."""
    live = Live(script, luck.randrange, {key: f"{key}#prefilled" for key in prefilled}).play()
    return live, live.entries[: luck.choice(live.cuts)]


def delivered(live: Live, entries: list[Entry]) -> list[Reply]:
    """What a handler heard of what is recorded, delivery by delivery."""
    return [reply for reply in live.rounds if reply <= heard(entries, EntryKind.ANSWER, EntryKind.RESULT)]


def heard(entries: list[Entry], *kinds: EntryKind) -> Reply:
    """The recorded results, and the recorded answers of those that were asked."""
    found = (item for item in entries if item.kind in kinds)
    return frozenset((item.key, item.value.decode()) for item in found if item.round or item.kind is EntryKind.RESULT)


def learned(entries: list[Entry]) -> Counter[Atom]:
    """What a handler must come to again. What a round asks again because it was answered in part was asked once."""
    answered: Counter[str] = Counter()
    found: dict[tuple[EntryKind, str, int], Atom] = {}
    for item in entries:
        answered[item.key] += item.kind is EntryKind.ANSWER
        if item.kind in LEARNED:
            times = answered[item.key] if item.kind is EntryKind.ASK else 0
            found.setdefault((item.kind, item.key, times), Atom(item.kind, item.key, item.fp))
    return Counter(found.values())


@settings(max_examples=300, deadline=None)
@given(SCRIPTS, PREFILLED, LUCK)
def test_a_handler_is_rebuilt_from_any_record_of_it(script: Script, prefilled: set[str], luck: random.Random) -> None:
    """The same answers in the same rounds, all that is recorded met, and nothing heard that is not recorded."""
    live, entries = recorded(script, prefilled, luck)
    again = Again(script, luck.randrange, entries).play()
    assert again.rounds == delivered(live, entries)
    assert learned(entries) <= Counter(again.came)
    assert Counter(again.learned) <= Counter(live.learned)
    rest = {(item.key, item.value.decode()) for item in again.cursor.rest()}
    assert rest == heard(entries, EntryKind.ANSWER) - {pair for reply in again.rounds for pair in reply}
    again.cursor.finish()


@settings(max_examples=400, deadline=None)
@given(SCRIPTS, PREFILLED, LUCK, st.sampled_from(["text", "gone", "new", "swapped"]))
def test_a_changed_handler_diverges_or_comes_to_all_that_is_recorded(
    script: Script, prefilled: set[str], luck: random.Random, how: str
) -> None:
    """One edit anywhere. Where it is accepted, it lies beyond the record: all of that was met, word for word."""
    live, entries = recorded(script, prefilled, luck)
    *place, atom = luck.choice(list(atoms(script)))
    changed = edited(script, (place[0], place[1], place[2]), atom, how)
    try:
        again = Again(changed, luck.randrange, entries).play()
    except DivergenceError as error:
        assert "recorded" in str(error) and "likely its code changed since then" in str(error)
        return
    assert learned(entries) <= Counter(again.came)
    assert again.rounds == delivered(live, entries)
    if atom.kind is EntryKind.INTENT:
        # A second use of its key is no place in the record, but it must be of the same effect.
        assert how != "text" or not learned(entries)[atom] or atom._replace(fp=f"{atom.fp}, changed") not in again.came
    if atom.kind is not EntryKind.INTENT or sum(item == atom for *_, item in atoms(script)) == 1:
        assert not (learned(entries)[atom] and how in ("text", "gone", "new"))


def edited(script: Script, place: tuple[int, int, int], atom: Atom, how: str) -> Script:
    """The script with one edit."""
    if how == "text":
        return with_atom(script, place, atom._replace(fp=f"{atom.fp}, changed"))
    if how == "gone":
        return with_atom(script, place)
    if how == "new":
        return with_atom(script, place, NEW, atom)
    statement, branch, at = place
    line = script[statement][branch]
    if at + 1 == len(line):
        return with_atom(script, place, atom, NEW)
    return with_atom(with_atom(script, place, line[at + 1]), (statement, branch, at + 1), atom)


@settings(max_examples=200, deadline=None)
@given(SCRIPTS, LUCK)
def test_a_damaged_record_is_never_passed_by(script: Script, luck: random.Random) -> None:
    """One recorded fingerprint or key is another: no handler can come to it."""
    live = Live(script, luck.randrange, {}).play()
    places = [n for n, item in enumerate(live.entries) if item.kind in LEARNED]
    if not places:
        return
    n = luck.choice(places)
    item = live.entries[n]
    entries = list(live.entries)
    key = luck.choice((item.key, f"{item.key}x"))
    entries[n] = Entry(n, item.kind, key, item.round, item.lane, f"{item.fp}x", item.codec, item.value)
    again_in_part = any(other.key == item.key and other.fp == item.fp for other in live.entries[:n])
    if again_in_part:
        # Asked again because its round was answered in part: only the first of the two is looked at.
        return
    with pytest.raises(DivergenceError):
        Again(script, luck.randrange, entries).play()


# ---- how long it takes


def journal_of(asks: int, *, together: bool) -> list[Entry]:
    """Asks and answers: one a round, or all in one round."""
    lines: list[tuple[EntryKind, int, int]] = []
    for n in range(asks):
        lines += [(EntryKind.ASK, n, 1 if together else n + 1)] + ([] if together else [(EntryKind.ANSWER, n, n + 1)])
    lines += [(EntryKind.ANSWER, n, 1) for n in range(asks)] if together else []
    lane = EntryLane.SIDE if together else EntryLane.MAIN
    return [Entry(n, kind, f"k{of}", round_, lane, "fp", "json", b"") for n, (kind, of, round_) in enumerate(lines)]


def lines_run(asks: int, *, together: bool) -> int:
    """How many lines of the cursor a replay runs whose driver looks for answers after each ask."""
    entries, count = journal_of(asks, together=together), 0
    lane = EntryLane.SIDE if together else EntryLane.MAIN

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != replay.__file__:
            return None
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        cursor = Cursor(entries)
        reply = 0
        for n in range(asks):
            cursor.ask(f"k{n}", "fp", lane)
            reply += len(cursor.ready())
    finally:
        sys.settrace(before)
    assert cursor.live and reply == asks
    return count


@pytest.mark.parametrize("together", [False, True])
def test_the_work_of_a_replay_grows_with_its_journal_and_no_faster(together: bool) -> None:
    """A thousand entries, then four thousand. Lines are counted, not seconds: a busy machine changes nothing."""
    short, long = lines_run(500, together=together), lines_run(2000, together=together)
    assert long < 4.1 * short

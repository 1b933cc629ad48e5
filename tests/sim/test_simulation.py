"""The simulation is clean, and each rule that is taken away turns it red."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from framehold_core import ownership

from . import played, runs
from .bound_checks import BoundWatch
from .found import BOUND, FOUND_BY, find
from .mutations import ELSEWHERE, MASKED, RED, mutated
from .plan import draw
from .report import ENOUGH, INTERESTING, main, run_part, smallest, story
from .stories import POISON, POISON_BESIDE_OTHERS, STORIES
from .world import play

RARE = (160700, 202625, 240043, 489062, 644507, 654417, 693478, 737529, 975538, 2366083, 10019909, 20018048, 20078049)
"""Seeds beyond those of the clean run that once failed.

- 160700: a change put a question behind one with a timer
- 202625: changed code wrote nothing to a call but the result of an idempotent effect
- 240043: a drain met its deadline while a store that came back empty had not answered yet
- 489062: a store went back while a heartbeat was on its way
- 644507: a handler that was parked ended by its timer while its lease was verified
- 654417, 693478: a store lost an outcome, or a release, whose acknowledgement was on its way
- 737529: a store went back a little, and one of two nodes had lost its last renewal
- 975538: a handler came to an effect by an answer on one node, and by its timer on the next
- 2366083: a call was claimed by a node whose claim was not heard, and then by another one that was told "not held"
- 10019909: two failovers, and a heal over a successor's answers
- 20018048: an effect without an intent began in a frame that was being handed off
- 20078049: a store lost a write of a round that goes on, whose acknowledgement was on its way
"""

ROOT = Path(__file__).parents[2]


def test_every_invariant_holds_in_every_schedule() -> None:
    """No seed breaks an invariant; the stage `lanes` plays thousands, other ones each day."""
    counts, failed = run_part(1, 400, None)
    assert failed is None, story(smallest(failed))[0]
    assert counts["schedules"] == 400


@pytest.mark.parametrize(("schedules", "code"), ((ENOUGH, 1), (100, 0)))
def test_a_long_run_that_never_saw_something_fails_and_names_it(
    schedules: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything that makes a schedule interesting happens in a long run. A short one may miss it."""
    seen = Counter({**{name: 1 for name in INTERESTING if name != "heals"}, "schedules": schedules})
    played: list[int] = []

    def run(play: object, first: int, count: int, chunk: int) -> tuple[Counter[str], int | None]:
        played.append(first)
        return seen.copy(), None

    monkeypatch.setattr(runs, "run", run)
    assert main(1, schedules, None) == code
    assert ("schedules saw none of: heals" in capsys.readouterr().out) == bool(code)
    assert played == [1, ENOUGH + 1][: 1 + code], "so many again are played before it is held for missing"


@pytest.mark.parametrize("seed", RARE)
def test_a_rare_schedule_is_clean(seed: int) -> None:
    """What only a long run has found is played each time, as it was found: before anybody wrote the store."""
    assert play(draw(seed, 0.0))[1] is None


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_clean(name: str) -> None:
    assert play(STORIES[name])[1] is None


@pytest.mark.parametrize("name", RED)
def test_a_rule_taken_away_turns_the_simulation_red(name: str) -> None:
    assert find(name) is not None, (
        f"{BOUND:,} schedules notice nothing of {name!r}: no check of tests/sim/*_checks.py sees it (write one), "
        "no schedule comes there (write a story in stories.py), or another rule makes up for it (MASKED)"
    )


@pytest.mark.nightly
@pytest.mark.parametrize("name", MASKED)
def test_a_masked_mutation_stays_green_and_says_why(name: str) -> None:
    """What another rule makes up for is written down with its reason; if it turns red, it belongs to RED."""
    reason, _ = MASKED[name]
    assert reason
    counts, failed = run_part(1, 500, name)
    assert failed is None and counts["schedules"] == 500


@pytest.mark.parametrize("number", re.findall(r'<a id="rule-(\d+)">', (ROOT / "docs/protocol.md").read_text("utf-8")))
def test_every_rule_has_a_mutation_or_a_test_elsewhere(number: str) -> None:
    """Each numbered rule of docs/protocol.md; a test that is named for one exists."""
    named = ELSEWHERE.get(number, ())
    assert named or any(mutation.rule == number for mutation in RED.values())
    for test in named:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in tests


@pytest.mark.parametrize(("invariant", "name"), FOUND_BY.items())
def test_every_invariant_finds_a_mutation_by_its_name(invariant: str, name: str) -> None:
    assert find(name, invariant) is not None


def test_a_handler_that_kills_its_nodes_is_entered_by_five_claims_and_is_stuck() -> None:
    """Rule 15: once by its call, then once for each claim, and not again."""
    world, violation = play(STORIES["poison"])
    assert violation is None
    assert (world.counts["entries"], world.counts["takeovers"], world.counts["ended stuck"]) == (1 + 5, 5, 1)


def test_a_handler_that_ends_its_processes_is_paused_until_it_is_resumed() -> None:
    """Rule 27: beside others by its call and by the first claim, then alone by two more; a resumed one goes on until it
    is stuck."""
    text, _ = story(STORIES["poison_paused"])
    before, _, after = text.partition("is paused")
    assert before.count("enter the handler") == 4 and "resumes" in after and "enter the handler" in after
    world, violation = play(STORIES["poison_paused"])
    assert violation is None and world.counts["ended stuck"] == 1 and world.counts["pauses"] > 1


def _paused(seed: int) -> set[str]:
    """The handlers that are paused in one schedule of a handler that ends its processes, beside others."""
    text, held = story(replace(POISON_BESIDE_OTHERS, seed=seed))
    assert held, text
    return set(re.findall(r"\[([^]]+)\] is paused", text))


def test_those_beside_a_handler_that_ends_its_processes_are_not_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 27, in eighty schedules. If suspects enter together, others are."""
    poison = {POISON}
    assert all(_paused(seed) == poison for seed in range(80))
    monkeypatch.setattr(ownership, "is_suspect", lambda *_: False)
    monkeypatch.setattr(BoundWatch, "i9_alone", lambda *_: None)
    assert any(_paused(seed) > poison for seed in range(80))


def test_a_failing_schedule_shrinks_to_a_transcript() -> None:
    """What is left of a failing schedule still fails, is no longer than before, and reads line by line."""
    seed = find("claim-ignores-the-mark")
    assert seed is not None
    plan = smallest(seed, "claim-ignores-the-mark")
    before = draw(seed)
    assert len(plan.faults) <= len(before.faults) and len(plan.clients) == 1 and not plan.mischief
    text, held = story(plan, "claim-ignores-the-mark")
    assert not held
    assert "Claimed -> REBUILDING: enter the handler at epoch 2" in text
    assert text.strip().splitlines()[-1].split()[1:3] == ["CHECK", "I6"]


def test_a_seed_always_tells_the_same_story() -> None:
    """A schedule depends on its seed and on nothing else, or no failure could be replayed."""
    assert story(draw(7)) == story(draw(7))


def test_a_mutation_leaves_no_trace() -> None:
    with mutated("both-fences-off"):
        pass
    assert play(draw(228))[1] is None


def test_schedules_of_one_tree_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin anew when a module that a schedule runs has changed."""
    monkeypatch.setattr(played, "digest", lambda: "this tree")
    file = tmp_path / "played.json"
    assert played.Played(file).add(500) == 500
    again = played.Played(file)
    assert again.end == played.BEGIN + 500 and again.add(100) == 600
    monkeypatch.setattr(played, "digest", lambda: "another tree")
    assert played.Played(file).end == played.BEGIN


def test_a_schedule_is_of_all_modules_that_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played, "ROOT", tmp_path)
    (tmp_path / "part.py").write_text("VALUE = 1")
    part = ModuleType("part")
    part.__file__ = str(tmp_path / "part.py")
    without = played.digest()
    monkeypatch.setitem(sys.modules, "part", part)
    before = played.digest()
    (tmp_path / "part.py").write_text("VALUE = 2")
    assert len({without, before, played.digest()}) == 3

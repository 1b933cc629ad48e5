"""`make test` and `make nightly`: each test is in one stage, a stage has its tools, the table says what happened."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Sequence
from itertools import chain, combinations
from pathlib import Path

import pytest
import yaml

from tests.kit.processes import ROOT
from tests.stages import __main__ as command
from tests.stages import budget, kept, marks
from tests.stages.catalogue import NIGHTLY, TEST, Stage
from tests.stages.lanes import run
from tests.stages.marks import OTHERS, TOOLS, Marks

FILES = marks.test_files(ROOT / "tests")
CHOOSING = [stage for stage in (*TEST, *NIGHTLY) if any("-m" in lane and "pytest" in lane for lane in stage.lanes)]


def expressions(stage: Stage) -> list[str]:
    """What the runs of pytest in a stage select."""
    runs = [lane for lane in stage.lanes if "pytest" in lane]
    return [lane[lane.index("-m", lane.index("pytest")) + 1] for lane in runs]


def wholes(of: Marks) -> list[frozenset[str]]:
    """Each set of marks that a test of a file may have."""
    some = chain.from_iterable(combinations(of.sometimes, count) for count in range(len(of.sometimes) + 1))
    return [of.always.union(each) for each in some]


def test_each_test_is_in_one_stage() -> None:
    """Whatever marks a test has, one stage of `make test` or of `make nightly` selects it, and no other one."""
    having = {whole: file for file in FILES for whole in wholes(marks.of_file(file))}
    assert frozenset() in having and frozenset({"browser"}) in having
    selected = {
        whole: [
            stage.name
            for stage in CHOOSING
            for each in expressions(stage)
            if marks.selects(each, Marks(whole, frozenset()))
        ]
        for whole in having
    }
    assert {having[whole]: stages for whole, stages in selected.items() if len(stages) != 1} == {}


def test_a_stage_has_the_tools_of_its_tests() -> None:
    """A tool that a test needs is installed by the stage that selects the test."""
    lacking = [
        (stage.name, file.name, tool)
        for stage in CHOOSING
        for each in expressions(stage)
        for file in FILES
        if marks.selects(each, marks.of_file(file))
        for tool in marks.of_file(file).always.intersection(TOOLS).difference(stage.needs)
    ]
    assert lacking == []


def test_each_mark_is_known_and_explained() -> None:
    """`pytest --markers` explains the marks by which stages choose, and no other ones."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    listed = re.findall(
        r'(?m)^    "(\w+): ', text[text.index("\nmarkers = [") : text.index("\n]", text.index("\nmarkers"))]
    )
    assert set(listed) == OTHERS.union(TOOLS)


def test_make_has_a_set_for_each_tool() -> None:
    """With the room that it takes on the disk."""
    text = (ROOT / "Makefile").read_text("utf-8")
    sets = re.search(r"(?m)^SETS := (.*)$", text)
    assert sets
    assert set(sets[1].split()) == {"test", "firefox", "fuzz", "day", *TOOLS}
    assert set(re.findall(r"(?m)^MB_(\w+) := \d+$", text)) == set(sets[1].split())
    assert {need for stage in (*TEST, *NIGHTLY) for need in stage.needs} < set(sets[1].split())


@pytest.mark.parametrize(
    ("text", "always", "sometimes"),
    [
        ("import pytest\n", set(), set()),
        ("pytestmark = pytest.mark.fleet\n", {"fleet"}, set()),
        ("pytestmark = [pytest.mark.anyio, pytest.mark.chart]\n\n@pytest.mark.alone\n", {"chart"}, {"alone"}),
        ("pytestmark = [\n    pytest.mark.fleet,\n    pytest.mark.alone,\n]\n", {"fleet", "alone"}, set()),
        ("ROWS = [pytest.param(1, marks=pytest.mark.nightly)]\n", set(), {"nightly"}),
    ],
)
def test_marks_are_read_from_a_file(text: str, always: set[str], sometimes: set[str], tmp_path: Path) -> None:
    """Those of all its tests, and those that some of them have."""
    path = tmp_path / "test_it.py"
    path.write_text(text)
    assert marks.of_file(path) == (frozenset(always), frozenset(sometimes))


def test_rooms_are_folders_and_files_have_one() -> None:
    """Each room of the table has tests, and the longest name wins."""
    rooms = budget.minutes()
    assert [name for name in rooms if name != "rest" and not (ROOT / "tests" / name).is_dir()] == []
    assert budget.room("tests/node/engine/test_x.py", {"node": 1, "node/engine": 1}) == "node/engine"
    assert budget.room("tests/nodes/test_x.py", {"node": 1}) == "rest"
    assert all((ROOT / file).exists() for file in budget.durations())


def test_a_room_that_takes_too_long_is_named() -> None:
    spent = {"tests/core/test_a.py": 50.0, "tests/core/test_b.py": 40.0, "tests/store/test_c.py": 59.0}
    assert budget.over(spent, {"core": 1, "store": 1}) == ["core took 1.5 minutes of 1"]


def test_lanes_run_at_the_same_time_and_all_of_them_count(tmp_path: Path) -> None:
    """A lane that fails fails the stage, whichever it is; what still runs at the limit is ended."""
    meet = f"mkfifo {tmp_path}/way; echo from a lane > {tmp_path}/way"
    other = f"until [ -p {tmp_path}/way ]; do :; done; read line < {tmp_path}/way; echo $line > {tmp_path}/came"
    assert run([("sh", "-c", meet), ("sh", "-c", other)], tmp_path, 30)
    assert (tmp_path / "came").read_text() == "from a lane\n"
    assert not run([("true",), ("false",)], tmp_path, 30)
    assert not run([("sleep", "60")], tmp_path, 0.2)


def test_workflows_do_what_can_be_done_by_hand() -> None:
    """Each push is checked by `.ci/run`, which is `make test`; each night runs `make nightly`."""
    folder = ROOT / ".github" / "workflows"
    ci, nightly = (yaml.safe_load((folder / f"{name}.yml").read_text("utf-8")) for name in ("ci", "nightly"))
    # YAML reads a bare `on` as true.
    assert set(ci[True]) == {"push", "pull_request"} and set(nightly[True]) == {"schedule", "workflow_dispatch"}
    steps = [*ci["jobs"]["test"]["steps"], *nightly["jobs"]["nightly"]["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert [command.partition('PATH=$PATH" ')[2].partition(" STAGE")[0] for command in commands] == [
        ".ci/run",
        "make nightly",
    ]
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")


def stage(name: str, text: str, **more: object) -> Stage:
    return Stage(name, (("sh", "-c", text),), **more)  # type: ignore[arg-type]  # fields of Stage


def played(monkeypatch: pytest.MonkeyPatch, words: Sequence[str], *stages: Stage) -> int:
    monkeypatch.setattr(command, "TEST", stages)
    monkeypatch.setattr(command, "NIGHTLY", stages)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["stages", *words])
    monkeypatch.setenv("TESTS_REPORT", os.devnull)
    return command.main()


def test_a_commit_is_checked_until_a_stage_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = (stage("good", "true"), stage("bad", "false"), stage("unseen", "true"))
    assert played(monkeypatch, ["test"], *stages) == 1
    table = capsys.readouterr().out.split("\nstage")[1]
    assert "good" in table and "unseen" not in table and "minutes of tests:" in table
    assert re.search(r"bad +0 +0  failed  again: make test STAGE=bad", table)
    assert played(monkeypatch, ["test", "--stage", "good"], *stages) == 0


def test_a_night_goes_on_behind_a_failure_and_keeps_what_passed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A stage that passed is played again when what it reads has changed; one that failed or that asks the world, each
    time: the answer to the audit of the locks changes though nothing here does."""
    monkeypatch.setattr(kept, "FILE", tmp_path / "nightly.json")
    monkeypatch.setattr(kept, "commit", lambda: "0123456789")
    monkeypatch.setattr(kept, "digest", " ".join)
    runs = tmp_path / "runs"
    asking = stage("audit", f"echo asked >> {tmp_path}/asked", asks=True)
    bad, good = stage("bad", f"echo bad >> {runs}; false"), stage("good", f"echo good >> {runs}", reads=("core",))
    stages = (bad, good, asking)
    assert played(monkeypatch, ["nightly"], *stages) == 1
    assert played(monkeypatch, ["nightly"], *stages) == 1
    assert Counter(runs.read_text().split()) == {"bad": 2, "good": 1}
    assert (tmp_path / "asked").read_text().split() == ["asked"] * 2
    assert [each.name for each in NIGHTLY if each.asks] == ["audit"]
    changed = stage("good", f"echo good >> {runs}", reads=("store",))
    assert played(monkeypatch, ["nightly"], stages[0], changed) == 1
    assert Counter(runs.read_text().split()) == {"bad": 3, "good": 2}
    capsys.readouterr()
    assert played(monkeypatch, ["nightly", "--stage", "good"], stages[0], changed) == 0
    assert played(monkeypatch, ["nightly", "--stage", "bad"], *stages) == 1
    table = capsys.readouterr().out.rpartition("\nstage")[2]
    assert re.search(r"bad .*failed  at 0123456789  again: make nightly STAGE=bad", table)
    assert re.search(r"good .*passed, before what it reads was changed  at 0123456789\n", table)
    assert Counter(runs.read_text().split()) == {"bad": 4, "good": 3}


def test_hours_widen_one_open_ended_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(kept, "FILE", tmp_path / "nightly.json")
    open_ended = stage("soak", f"echo {{minutes}} > {tmp_path}/minutes", minutes=20)
    assert played(monkeypatch, ["nightly", "--stage", "soak", "--hours", "2"], open_ended, stage("other", "true")) == 0
    assert (tmp_path / "minutes").read_text() == "120\n"
    assert played(monkeypatch, ["nightly", "--hours", "2"], open_ended, stage("other", "true")) == 2
    assert "name it by --stage: soak" in capsys.readouterr().err


def test_a_stage_that_is_not_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(monkeypatch, ["test", "--stage", "brwser"], stage("browser", "true")) == 2
    assert capsys.readouterr().err == "no stage brwser; there are browser\n"


def test_a_digest_changes_with_what_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed or not."""
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    own = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    kept._git("init", "-q")
    (tmp_path / "tests").mkdir()
    for name in ("core", "docs", "tests/durations.json", "tests/nightly.json"):
        (tmp_path / name).write_text("1")
    kept._git("add", ".")
    kept._git(*own, "commit", "-qm", "Begin")
    before = kept.digest(["core", "tests"])
    (tmp_path / "docs").write_text("2")
    # `make nightly` writes these between two stages.
    for name in ("durations", "nightly"):
        (tmp_path / f"tests/{name}.json").write_text("2")
    assert kept.digest(["core", "tests"]) == before and kept.commit().endswith("+")
    (tmp_path / "core").write_text("2")
    assert kept.digest(["core", "tests"]) != before
    kept._git(*own, "commit", "-qam", "Go on")
    assert kept.digest(["core", "tests"]) != before and not kept.commit().endswith("+")

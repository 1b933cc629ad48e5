"""`--watch` prints again and again until Ctrl-C, which is no error."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.fake_router import NODE, FakeRouter, Operator
from tests.cli.terminal import Terminal
from tests.kit.processes import DEADLINE, ROOT, RUN, environment

pytestmark = pytest.mark.anyio


def looks(monkeypatch: pytest.MonkeyPatch, count: int) -> list[float]:
    """Raises KeyboardInterrupt instead of the pause after this many reads."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == count:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    return slept


def test_a_new_table_each_time(operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are 2 s apart, with an empty line between them. The error of a router that is away is printed, and
    watching continues."""
    slept = looks(monkeypatch, 4)
    router.says["GET nodes"] = [
        (200, {"nodes": [NODE]}),
        (200, {"nodes": [{**NODE, "node_id": "n2"}]}),
        (503, {"error": "away"}),
        (200, {"nodes": []}),
    ]
    result = operator("nodes", "--watch")
    assert (result.code, result.err, slept) == (0, "", [2.0] * 4)
    tables = result.out.split("\n\n")
    assert [table.splitlines()[-1].split()[0] for table in tables] == ["n1", "n2", "503:", "There"]
    assert "503: away; it is asked again in 2 s" in tables[2]


def test_json_is_a_line_each(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, 3)
    result = operator("nodes", "-w", "-o", "json")
    assert [json.loads(line) for line in result.out.splitlines()] == [[NODE]] * 3


def test_csv_goes_on_where_the_router_is_away(
    operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output has rows alone; the error is on standard error."""
    looks(monkeypatch, 3)
    router.says["GET nodes"] = [(200, {"nodes": [NODE]}), (503, {"error": "away\x1b[2J"}), (200, {"nodes": [NODE]})]
    result = operator("nodes", "--watch", "-o", "csv")
    assert (result.code, result.err) == (0, "framehold: 503: away\\x1b[2J; it is asked again in 2 s\n")
    assert [line.split(",")[0] for line in result.out.splitlines()] == ["node_id", "n1"] * 2


def test_a_first_look_that_fails_ends_it(operator: Operator, router: FakeRouter) -> None:
    router.refuse("nodes", 503, "away")
    assert operator("nodes", "--watch") == (2, "", "framehold: 503: away\n")


async def test_in_a_terminal_the_table_is_redrawn(router: FakeRouter, tmp_path: Path) -> None:
    """The table is drawn over the last one. After Ctrl-C the last table stays on the screen."""
    router.say("nodes", {"nodes": [NODE]}, {"nodes": [{**NODE, "node_id": "n2"}]})
    command = [*RUN, "nodes", "--watch", "--url", router.url]
    settings = {"TERM": "xterm", "COLUMNS": "160", "XDG_RUNTIME_DIR": str(tmp_path)}
    with Terminal(command, **settings) as terminal:
        await terminal.sees("Ctrl-C ends it")
        # Both tables may be there already.
        assert "n1" in terminal.seen.partition("Ctrl-C ends it")[0]
        assert "n2" not in terminal.seen.partition("Ctrl-C ends it")[0]
        await terminal.sees("n2")
        assert "\x1b[1A" in terminal.seen
        await terminal.interrupts()
        assert await terminal.leaves() == 0
        assert "Traceback" not in terminal.seen


def test_a_reader_that_has_gone_away_is_no_error(router: FakeRouter, tmp_path: Path) -> None:
    """For example `framehold nodes | head -1`."""
    read, write = os.pipe()
    os.close(read)
    result = subprocess.run(
        [*RUN, "nodes", "--url", router.url],
        cwd=ROOT,
        env=environment(XDG_RUNTIME_DIR=str(tmp_path), PYTHONUNBUFFERED=""),
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=DEADLINE,
        check=False,
    )
    os.close(write)
    assert result.stderr == b""

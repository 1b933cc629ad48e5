"""`--watch`: again and again, until Ctrl-C, which is no error."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.fake_router import NODE, FakeRouter, Operator
from tests.cli.processes import RUN, environment
from tests.node.nodes import ROOT, until

pytestmark = pytest.mark.anyio


def looks(monkeypatch: pytest.MonkeyPatch, count: int) -> list[float]:
    """Ctrl-C comes instead of the pause after so many looks."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == count:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    return slept


def test_a_new_table_each_time(operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an empty line between, each two seconds; a router that is away for a moment is said."""
    slept = looks(monkeypatch, 4)
    router.says["GET nodes"] = [
        (200, {"nodes": [NODE]}),
        (200, {"nodes": [{**NODE, "node_id": "n2"}]}),
        (503, {"error": "away"}),
        (200, {"nodes": []}),
    ]
    told = operator("nodes", "--watch")
    assert (told.code, told.err, slept) == (0, "", [2.0] * 4)
    tables = told.out.split("\n\n")
    assert [table.splitlines()[-1].split()[0] for table in tables] == ["n1", "n2", "503:", "There"]
    assert "503: away; it is asked again in 2 s" in tables[2]


def test_json_is_a_line_each(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, 3)
    told = operator("nodes", "-w", "-o", "json")
    assert [json.loads(line) for line in told.out.splitlines()] == [[NODE]] * 3


def test_a_first_look_that_fails_ends_it(operator: Operator, router: FakeRouter) -> None:
    router.refuse("nodes", 503, "away")
    assert operator("nodes", "--watch") == (2, "", "framehold: 503: away\n")


async def test_in_a_terminal_the_table_is_redrawn(router: FakeRouter, tmp_path: Path) -> None:
    """In its place, and what was last seen stays there when Ctrl-C ends it."""
    router.say("nodes", {"nodes": [NODE]}, {"nodes": [{**NODE, "node_id": "n2"}]})
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*RUN, "nodes", "--watch", "--url", router.url],
        cwd=ROOT,
        env=environment(TERM="xterm", COLUMNS="160", XDG_RUNTIME_DIR=str(tmp_path)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.set_blocking(master, False)
    seen = ""

    def sees(text: str) -> bool:
        nonlocal seen
        try:
            seen += os.read(master, 65536).decode()
        except OSError:
            pass
        return text in seen

    try:
        await until(lambda: sees("Ctrl-C ends it"), "the first table")
        assert "n1" in seen and "n2" not in seen
        await until(lambda: sees("n2"), "the second table")
        assert "\x1b[1A" in seen
        child.send_signal(signal.SIGINT)
        await until(lambda: child.poll() is not None, "its end")
        assert child.returncode == 0 and "Traceback" not in seen
    finally:
        child.kill()
        child.wait()
        os.close(master)
        os.close(slave)


def test_a_reader_that_has_gone_away_is_no_error(router: FakeRouter, tmp_path: Path) -> None:
    """As in `framehold nodes | head -1`."""
    read, write = os.pipe()
    os.close(read)
    told = subprocess.run(
        [*RUN, "nodes", "--url", router.url],
        cwd=ROOT,
        env=environment(XDG_RUNTIME_DIR=str(tmp_path), PYTHONUNBUFFERED=""),
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    os.close(write)
    assert told.stderr == b""

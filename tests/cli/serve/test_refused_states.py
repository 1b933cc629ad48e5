"""Anybody can send a state that nobody has sealed: the log gets few lines about them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from framehold.cli.serve.log import Few
from tests.node.nodes import node
from tests.wire import Caller

pytestmark = pytest.mark.anyio
LOST = "requestState rejected"


async def test_two_hundred_forged_states_are_a_few_lines(tmp_path: Path) -> None:
    async with node("tests/node/three_rounds.py", tmp_path) as child, Caller(child.url) as caller:
        for number in range(200):
            token = f"h1.{number:032x}.forged"
            reply = await caller.retry("three_rounds", token, {}, arguments={})
            assert reply.status == 400
        text = child.log()
    lines = [line for line in text.splitlines() if LOST in line]
    assert 1 <= len(lines) <= 4, lines


def test_a_line_says_how_many_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    few = Few(interval=5.0)

    def line(level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord("sdk", level, "", 0, "%s %d", ("refused", 7), None)
        return record.getMessage() if few.filter(record) else None

    assert [line(), line(), line()] == ["refused 7", None, None]
    assert line(logging.ERROR) == "refused 7"
    now[0] = 15.0
    assert line() == "refused 7 (2 more since the last line)" and line() is None
    now[0] = 20.0
    assert line() == "refused 7 (1 more since the last line)"
    now[0] = 40.0
    assert line() == "refused 7"

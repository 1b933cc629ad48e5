"""Anybody can send a state that nobody has sealed, or a wrong Host: the log gets few lines about them."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx2
import pytest

from framehold_cli.serve.log import Few
from tests.kit.client import Caller
from tests.kit.nodes import node
from tests.kit.processes import until

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


async def test_two_hundred_wrong_hosts_are_a_few_lines(tmp_path: Path) -> None:
    """And the line that names the setting."""
    wrong = {"host": "127.0.41.1:7480", "content-type": "application/json"}
    async with node("tests/node/three_rounds.py", tmp_path) as child, httpx2.AsyncClient() as http:
        for _ in range(200):
            assert (await http.post(child.url, headers=wrong)).status_code == 421
        text = child.log()
    assert 1 <= text.count("Invalid Host header") <= 4, text
    assert text.count("name it in FRAMEHOLD_ALLOWED_HOSTS") == 1, text


async def test_a_burst_of_warnings_is_its_first_line_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    """Errors pass."""
    few = Few(interval=0.02)

    def passes(level: int = logging.WARNING) -> bool:
        return bool(few.filter(logging.LogRecord("sdk", level, "", 0, "%s %d", ("refused", 7), None)))

    assert [passes(), passes(), passes(logging.ERROR), passes()] == [True, False, True, False]
    await until(lambda: len(caplog.messages) == 1, "the count")
    assert caplog.messages[0].startswith("2 more lines like this one") and caplog.messages[0].endswith(": refused 7")

"""`framehold call` from a script: the output and the exit code."""

from __future__ import annotations

import asyncio
import io
import re
import sys

import pytest

from framehold_cli.call.call import Options, run
from framehold_cli.call.connection import Endpoint
from framehold_cli.call.target import CallTarget, TargetKind
from framehold_core.errors import ConfigError
from tests.cli.desk import TOOLS, call

pytestmark = pytest.mark.anyio


async def test_a_form_is_filled_in(desk: str) -> None:
    """Arguments and answers are converted to the types of the tool. Each question shows its node."""
    result = await call(desk, "pick", "count=3", "label=007", answers="pear, apple\nn\n")
    assert (result.returncode, result.stderr) == (0, ""), result
    assert "[n1, " in result.stdout and "3 of 007?" in result.stdout
    assert "007/3: accept {'fruit': ['pear', 'apple'], 'ripe': False}" in result.stdout


async def test_questions_that_come_together_are_put_one_after_the_other(desk: str) -> None:
    """The lines of two questions are not mixed, and each answer belongs to its own question."""
    result = await call(desk, "both", answers="x\ny\n")
    first, second = ("x", "y") if result.stdout.index("First?") < result.stdout.index("Second?") else ("y", "x")
    assert f"{first}, {second}" in result.stdout.splitlines()[-1], result


async def test_no_more_input_gives_the_call_up(desk: str) -> None:
    """When a script has no answer left, the call ends: it doesn't hang, accept, or ask again and again."""
    for tool in (("pick", "count=1", "label=x"), ("asks_on", "times=100")):
        for answers in ("", "pear\n"):
            result = await call(desk, *tool, answers=answers)
            assert result.returncode == 1 and result.stdout.count("?") <= 2, result
            assert re.fullmatch(
                f"\nframehold: stopped: {tool[0]} asks, and there is no more input to answer with; give one line for "
                r"each field; call \w{8} waits on its node until it expires\n",
                result.stderr,
            )


async def test_more_rounds_than_other_clients_answer(desk: str) -> None:
    """One notice is printed, at the first round after the official clients' limit."""
    result = await call(desk, "asks_on", "times=10", answers="x\n" * 10)
    assert (result.returncode, result.stderr) == (0, ""), result
    result = await call(desk, "asks_on", "times=13", answers="x\n" * 13)
    assert result.returncode == 0 and "13 times" in result.stdout
    assert result.stderr == (
        "framehold: this is round 11; official clients stop after 10 rounds: ask less, or several things at once\n"
    )


async def test_an_address_is_shown(desk: str) -> None:
    """The URL of a URL question is shown. The user accepts or declines it."""
    for answer, action in (("\n", "accept"), ("n\n", "decline")):
        result = await call(desk, "sign", answers=answer)
        assert "https://example.com/sign" in result.stdout and result.stdout.rstrip().endswith(action), result


async def test_a_tools_error_is_exit_code_1(desk: str) -> None:
    """The error is printed on standard error."""
    result = await call(desk, "fails")
    assert result.returncode == 1 and "the kitchen is closed" in result.stderr and result.stdout == ""


async def test_a_structured_result(desk: str) -> None:
    result = await call(desk, "counts")
    assert result.returncode == 0 and '"apples": 2' in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "there is no tool 'nowhere' at {url}; there are: {tools}"),
        (("pick", "count=many", "label=x"), "argument count: 'many' is not of type integer; nothing was called"),
        (("pick", "count=1"), "missing: label=...; pick takes count, label; nothing was called"),
    ],
)
async def test_a_mistake_is_one_line_and_exit_code_2(desk: str, arguments: tuple[str, ...], says: str) -> None:
    result = await call(desk, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"framehold: {says.format(url=desk, tools=TOOLS)}\n"


async def test_nobody_there(desk: str) -> None:
    """The address of a server that isn't MCP, and texts that are no http address, end with one line and exit code 2."""
    for wrong in (desk.replace("/mcp", "/nowhere"), "127.0.0.1:8080", "http://[x"):
        result = await call(wrong, "pick")
        assert (result.returncode, result.stdout) == (2, ""), result
        assert wrong in result.stderr and "nothing was called" in result.stderr and result.stderr.count("\n") == 1


async def test_no_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a server there is no retry: the address is more likely wrong than the server away."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(ConfigError, match=r"nobody speaks MCP at .*can't be reached.*nothing was called"):
        target = CallTarget(TargetKind.TOOL, "pick")
        await asyncio.to_thread(run, target, [], Endpoint("http://127.0.0.1:1/mcp"), Options(patience=0.5))
    assert capsys.readouterr().err == ""


async def test_what_a_server_says_can_not_steer_the_terminal(desk: str) -> None:
    """Control characters in titles, questions, results and errors are escaped. Line ends and tabs of a result stay."""
    result = await call(desk, "steers", answers="x\n")
    assert result.returncode == 0 and "\x1b" not in result.stdout
    assert "a question\\x1b[2J\n    [n9] Another?" in result.stdout
    assert "  a title\\x1b[31m\\n: " in result.stdout
    assert "one\n\ttwo\\x1b]0;x\\x07\\u202eend" in result.stdout
    result = await call(desk, "steers_wrong")
    assert result.returncode == 1 and "wrong\\x9b31m" in result.stderr


async def test_an_argument_that_is_given_twice(desk: str) -> None:
    result = await call(desk, "pick", "count=1", "label=x", "count=2")
    assert (result.returncode, result.stderr) == (2, "framehold: argument count is given twice; nothing was called\n")

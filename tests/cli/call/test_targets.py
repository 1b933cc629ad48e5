"""Tools, prompts and resources that `framehold call` calls, and what a program gets with `--json`."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR

import framehold as public
from framehold.config import Settings
from framehold_cli.call import samples
from framehold_cli.call import target as target_module
from framehold_cli.call.call import run
from framehold_cli.call.connection import Endpoint
from framehold_cli.call.script import AnswerScript
from framehold_cli.call.target import CallTarget, TargetKind
from framehold_core.errors import ConfigError
from tests.cli.desk import call
from tests.kit.nodes import KEY, served

pytestmark = pytest.mark.anyio
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the standard input of a command. Without it there is none."""

    def typed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    typed("")
    return typed


async def called(url: str, target: CallTarget, *words: str) -> int:
    """A call in this process, from a script."""
    return await asyncio.to_thread(run, target, words, Endpoint(url))


async def document(url: str, target: CallTarget, *words: str, answers: Sequence[str] = (), captured: Captured) -> Any:
    """The document of a call with `--json`, with the exit code as `code`. Nothing else is printed."""
    script = AnswerScript(target, answers)
    code = await asyncio.to_thread(run, target, words, Endpoint(url), None, script)
    result = captured.readouterr()
    assert result.err == ""
    return {**json.loads(result.out), "code": code}


def tool(name: str) -> CallTarget:
    return CallTarget(TargetKind.TOOL, name)


@pytest.mark.parametrize(
    ("words", "prompt", "resource", "target", "pairs"),
    [
        (["book", "hotel=Luna"], None, None, CallTarget(TargetKind.TOOL, "book"), ["hotel=Luna"]),
        (["order=B1"], "complaint", None, CallTarget(TargetKind.PROMPT, "complaint"), ["order=B1"]),
        ([], None, "shop://hours", CallTarget(TargetKind.RESOURCE, "shop://hours"), []),
    ],
)
def test_what_a_command_line_names(
    words: list[str], prompt: str | None, resource: str | None, target: CallTarget, pairs: list[str]
) -> None:
    assert CallTarget.of(words, prompt, resource) == (target, pairs)


@pytest.mark.parametrize(
    ("words", "prompt", "resource", "why"),
    [
        ([], None, None, "nothing is named; nothing was called; give a tool's name, --prompt NAME or --resource URI"),
        ([], "a", "b", "--prompt and --resource name two targets; nothing was called"),
        (["x=1"], None, "shop://hours", "a resource takes no arguments; nothing was called"),
    ],
)
def test_a_command_line_that_names_no_one_target(
    words: list[str], prompt: str | None, resource: str | None, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        CallTarget.of(words, prompt, resource)


async def test_a_prompt(desk: str) -> None:
    """Its question is asked like that of a tool, and each message is shown with its role."""
    result = await call(desk, "--prompt", "letter", "to=Ada", answers="x\n")
    assert (result.returncode, result.stderr) == (0, "") and result.stdout.endswith("user: Dear Ada\\x1b[2J, x\n")


async def test_a_prompt_s_arguments_are_checked(desk: str, types: Callable[[str], None]) -> None:
    with pytest.raises(ConfigError, match=r"missing: to=\.\.\.; letter takes to; nothing was called"):
        await called(desk, CallTarget(TargetKind.PROMPT, "letter"))
    with pytest.raises(ConfigError, match=r"there is no prompt 'nowhere' at .*; there are: letter"):
        await called(desk, CallTarget(TargetKind.PROMPT, "nowhere"))


async def test_a_prompt_that_is_called_as_a_tool(desk: str, types: Callable[[str], None]) -> None:
    """The error has the command that is meant."""
    with pytest.raises(ConfigError, match=r"no tool 'letter' .*; it is a prompt: framehold call --prompt letter"):
        await called(desk, tool("letter"), "to=Ada")


async def test_a_resource(desk: str, types: Callable[[str], None], capsys: Captured) -> None:
    """A text is shown; of bytes only their number is. An address that no resource has is an error of the server."""
    result = await call(desk, "--resource", "desk://drawers/7", answers="x\n")
    assert result.returncode == 0 and result.stdout.endswith("] 7: x\n")
    assert await called(desk, CallTarget(TargetKind.RESOURCE, "desk://picture")) == 0
    assert "(4 bytes: image/png; --json has them as base64)" in capsys.readouterr().out
    assert await called(desk, CallTarget(TargetKind.RESOURCE, "desk://nowhere")) == 1
    assert "desk://nowhere came to no result: Unknown resource" in capsys.readouterr().err


async def test_a_document(desk: str, types: Callable[[str], None], capsys: Captured) -> None:
    """Answers come from the options first, then from standard input. The document has each question with its answer."""
    types('"decline"\n')
    words = ("count=3", "label=007")
    found = await document(desk, tool("pick"), *words, answers=['{"fruit": ["pear"]}'], captured=capsys)
    assert (found["code"], found["outcome"], found["tool"], found["url"]) == (0, "completed", "pick", desk)
    assert "007/3: accept {'fruit': ['pear'], 'ripe': True}" in found["result"]["content"][0]["text"]
    [asked] = found["asked"]
    assert (asked["mode"], asked["message"]) == ("form", "3 of 007?") and "fruit" in asked["requestedSchema"][
        "properties"
    ]
    assert asked["answer"] == {"action": "accept", "content": {"fruit": ["pear"]}}
    assert (found["rounds"], found["node"], found["error"], found["failure"]) == (2, "n1", None, None)
    assert len(found["call"]) == 8
    found = await document(desk, tool("pick"), *words, captured=capsys)
    assert found["asked"][0]["answer"] == {"action": "decline"} and "007/3: decline" in json.dumps(found["result"])


async def test_the_document_of_a_question_with_an_address(
    desk: str, types: Callable[[str], None], capsys: Captured
) -> None:
    found = await document(desk, tool("sign"), answers=["accept"], captured=capsys)
    [asked] = found["asked"]
    assert (asked["mode"], asked["url"], asked["answer"]) == ("url", "https://example.com/sign", {"action": "accept"})


async def test_the_document_of_a_question_without_an_answer(
    desk: str, types: Callable[[str], None], capsys: Captured
) -> None:
    """The call ends at once: a tool may ask again and again."""
    found = await document(desk, tool("asks_on"), "times=3", answers=['{"word": "x"}'], captured=capsys)
    assert (found["code"], found["outcome"], found["result"], found["rounds"]) == (1, "unanswered", None, 2)
    assert "there is no answer left; give one --answer, or one line of input, for each question" in found["error"]
    assert [one["answer"] is None for one in found["asked"]] == [False, True]
    types("neither\n")
    found = await document(desk, tool("asks_on"), "times=3", captured=capsys)
    assert found["outcome"] == "unanswered" and "the answer 'neither' is neither a JSON object" in found["error"]


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "[" * 5_000, "[" * 5_000 + "]" * 5_000])
def test_what_json_can_not_say_is_no_answer(value: str) -> None:
    """Such a number would have been sent as null."""
    with pytest.raises(ConfigError, match="is neither a JSON object"):
        AnswerScript(tool("pick"), [f'{{"count": {value}}}'])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"froot": ["pear"]}', "the form has no 'froot'; its fields are 'fruit', 'ripe'"),
        ('{"fruit": "pear"}', "fruit: 'pear' is not of type 'array'"),
        ('{"fruit": ["plum"]}', "fruit.0: 'plum' is not"),
    ],
)
async def test_an_answer_that_does_not_match_its_form_is_not_sent(
    desk: str, types: Callable[[str], None], capsys: Captured, answer: str, why: str
) -> None:
    """From an option and from standard input: the tool would go on with its defaults, or blame itself."""
    words = ("count=3", "label=007")
    for given, typed in (([answer], ""), ([], f"{answer}\n")):
        types(typed)
        found = await document(desk, tool("pick"), *words, answers=given, captured=capsys)
        assert (found["code"], found["outcome"], found["rounds"]) == (1, "unanswered", 1)
        assert f"; call {found['call']} waits on its node until it expires" in found["error"]
        assert f"the answer {answer} does not match the form of '3 of 007?': {why}" in found["error"]
        assert "it was not sent" in found["error"] and found["asked"][0]["answer"] is None


async def test_the_documents_of_failures(desk: str, types: Callable[[str], None], capsys: Captured) -> None:
    found = await document(desk, tool("fails"), captured=capsys)
    assert (found["code"], found["outcome"]) == (1, "tool_error")
    assert found["result"]["isError"] is True and found["error"] is None
    found = await document(desk, CallTarget(TargetKind.RESOURCE, "desk://nowhere"), captured=capsys)
    assert (found["code"], found["outcome"], found["result"]) == (1, "protocol_error", None)
    assert "Unknown resource" in found["error"] and found["resource"] == "desk://nowhere"
    with pytest.raises(ConfigError, match="there is no tool 'nowhere'"):
        await document(desk, tool("nowhere"), captured=capsys)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("data", "reason"), [("paused", "paused"), ("lost", "lost"), ("answers_conflict", None)])
async def test_the_document_of_a_prompt_says_why_framehold_ended_it(
    data: str, reason: str | None, types: Callable[[str], None], capsys: Captured
) -> None:
    """A prompt has no result for it: its error has the reason."""
    mcp = MCPServer("desk")

    @mcp.prompt()
    def letter() -> str:
        """Write a letter."""
        raise MCPError(INTERNAL_ERROR, "as Framehold refuses it", {"reason": data})

    async with served(public.asgi(mcp, Settings(keys=(KEY,), node_id="n1"))) as url:
        found = await document(url, CallTarget(TargetKind.PROMPT, "letter"), captured=capsys)
    assert (found["outcome"], found["reason"]) == ("protocol_error", reason)


@pytest.mark.parametrize("text", ["", "3", "[1]", "yes", "{", "null"])
def test_what_is_no_answer(text: str) -> None:
    """It is refused before anything is called, where it is an option."""
    with pytest.raises(ConfigError, match="form's fields nor accept, decline or cancel; nothing was called"):
        AnswerScript(tool("pick"), [text])


def test_what_utf_8_does_not_hold() -> None:
    """JSON can write half of a surrogate pair, and no request can hold it."""
    half = '{"word": "\\ud800"}'
    with pytest.raises(ConfigError, match=r"^{'word': .* is not UTF-8; nothing was called"):
        AnswerScript(tool("pick"), [half])
    with pytest.raises(ConfigError, match=r"argument x: .* is not UTF-8; nothing was called"):
        samples.parsed([f"x={half}"], "pick", {"properties": {"x": {"type": "object"}}})


async def test_a_list_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that always names one more page."""
    monkeypatch.setattr(target_module, "MAX_PAGES", 3)
    asked: list[str | None] = []

    async def page_of(cursor: str | None) -> Any:
        asked.append(cursor)
        return SimpleNamespace(tools=["one"], next_cursor="more")

    with pytest.raises(ConfigError, match="list of tools has no end after 3 pages; nothing was called"):
        async for _ in target_module.listed(page_of, "tools"):
            pass
    assert asked == [None, "more", "more"]

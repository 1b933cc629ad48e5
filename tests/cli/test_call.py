"""`framehold call`: a tool's questions at a terminal, or from a script; what the tool says, and an exit code for it."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Literal

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

import framehold as public
from framehold.config import Settings
from tests.cli.processes import RUN, environment
from tests.node.nodes import KEY, ROOT, served, until

pytestmark = pytest.mark.anyio


class Pick(BaseModel):
    fruit: list[Literal["apple", "pear"]] = Field(min_length=1)
    ripe: bool = True


class Word(BaseModel):
    word: str


server = MCPServer("desk")


@server.tool()
async def pick(count: int, label: str, ctx: Context) -> str:
    """Ask for fruit."""
    answer = await ctx.elicit(f"{count} of {label}?", Pick)
    return f"{label}/{count}: {answer.action} {answer.data.model_dump() if answer.action == 'accept' else ''}"


@server.tool()
async def both(ctx: Context) -> str:
    """Ask two things at once."""
    one, two = await asyncio.gather(ctx.elicit("First?", Word), ctx.elicit("Second?", Word))
    return f"{one.data.word if one.action == 'accept' else ''}, {two.data.word if two.action == 'accept' else ''}"


@server.tool()
async def sign(ctx: Context) -> str:
    """Send the user to an address."""
    return (await ctx.elicit_url("Please sign.", "https://example.com/sign", "s-1")).action


@server.tool()
async def fails(ctx: Context) -> str:
    """Fail."""
    raise ToolError("the kitchen is closed")


@server.tool()
async def counts() -> dict[str, int]:
    """Answer with structure."""
    return {"apples": 2}


@pytest.fixture
async def url() -> AsyncIterator[str]:
    settings = Settings(keys=(KEY,), node_id="n1", route_headers=True)
    async with served(public.asgi(server, settings)) as address:
        yield address


async def call(url: str, *arguments: str, answers: str = "") -> subprocess.CompletedProcess[str]:
    """A script's call."""
    return await asyncio.to_thread(
        subprocess.run,
        [*RUN, "call", "--url", url, *arguments],
        cwd=ROOT,
        env=environment(),
        input=answers,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


async def test_a_form_is_filled_in(url: str) -> None:
    """Arguments are of the types that the tool wants; so are answers; each question shows its node."""
    told = await call(url, "pick", "count=3", "label=007", answers="pear, apple\nn\n")
    assert (told.returncode, told.stderr) == (0, ""), told
    assert "[n1, " in told.stdout and "3 of 007?" in told.stdout
    assert "007/3: accept {'fruit': ['pear', 'apple'], 'ripe': False}" in told.stdout


async def test_questions_that_come_together_are_put_one_after_the_other(url: str) -> None:
    """No line of one between the lines of the other, and each answer goes to its own."""
    told = await call(url, "both", answers="x\ny\n")
    first, second = ("x", "y") if told.stdout.index("First?") < told.stdout.index("Second?") else ("y", "x")
    assert f"{first}, {second}" in told.stdout.splitlines()[-1], told


async def test_no_more_input_declines(url: str) -> None:
    """A script that has no answer left doesn't hang, and doesn't accept."""
    told = await call(url, "pick", "count=1", "label=x")
    assert told.returncode == 0 and "x/1: decline" in told.stdout
    told = await call(url, "pick", "count=1", "label=x", answers="pear\n")
    assert told.returncode == 0 and "x/1: decline" in told.stdout


async def test_an_address_is_shown(url: str) -> None:
    """And accepted or declined by whoever looked at it."""
    for answer, action in (("\n", "accept"), ("n\n", "decline"), ("", "decline")):
        told = await call(url, "sign", answers=answer)
        assert "https://example.com/sign" in told.stdout and told.stdout.rstrip().endswith(action), told


async def test_a_tools_error_is_exit_code_1(url: str) -> None:
    """Said on the other stream."""
    told = await call(url, "fails")
    assert told.returncode == 1 and "the kitchen is closed" in told.stderr and told.stdout == ""


async def test_a_structured_result(url: str) -> None:
    told = await call(url, "counts")
    assert told.returncode == 0 and '"apples": 2' in told.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "there is no tool 'nowhere' at {url}; there are: pick, both, sign, fails, counts"),
        (("pick", "count=many", "label=x"), "argument count: 'many' is not of type integer; nothing was called"),
        (("pick", "count=1"), "missing: label=...; pick takes count, label; nothing was called"),
    ],
)
async def test_a_mistake_is_one_line_and_exit_code_2(url: str, arguments: tuple[str, ...], says: str) -> None:
    told = await call(url, *arguments)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == f"framehold: {says.format(url=url)}\n"


async def test_nobody_there(url: str) -> None:
    """No server, one that speaks something else, no address."""
    for wrong in ("http://127.0.0.1:1/mcp", url.replace("/mcp", "/nowhere"), "127.0.0.1:8080", "http://[x"):
        told = await call(wrong, "pick")
        assert (told.returncode, told.stdout) == (2, ""), told
        assert wrong in told.stderr and "nothing was called" in told.stderr and told.stderr.count("\n") == 1


class Person:
    """Someone at a terminal."""

    def __init__(self, url: str, *arguments: str) -> None:
        # Not its controlling terminal: whatever is still unread would vanish with the process.
        self._master, self._slave = pty.openpty()
        self.child = subprocess.Popen(
            [*RUN, "call", "--url", url, *arguments],
            cwd=ROOT,
            env=environment(TERM="dumb"),
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
        )
        os.set_blocking(self._master, False)
        self.seen = ""

    async def sees(self, text: str, after: str = "") -> None:
        def there() -> bool:
            try:
                self.seen += os.read(self._master, 65536).decode()
            except OSError:
                pass
            return text in self.seen.rpartition(after)[2] if after else text in self.seen

        await until(there, f"{text!r} in {self.seen!r}")

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self._master)
        os.close(self._slave)

    async def leaves(self) -> int:
        await until(lambda: self.child.poll() is not None, "its end")
        assert self.child.returncode is not None
        return self.child.returncode


async def test_a_person_answers(url: str) -> None:
    with Person(url, "pick", "count=1", "label=x") as person:
        await person.sees("Fruit")
        person.types("plum\n")
        await person.sees("please answer apple or pear")
        person.types("apple\n")
        await person.sees("(y | n) [y] ")
        person.types("\n")
        await person.sees("accept {'fruit': ['apple'], 'ripe': True}")
        assert await person.leaves() == 0


async def test_ctrl_d_cancels(url: str) -> None:
    """The question, not the program: the tool says the last word."""
    with Person(url, "pick", "count=1", "label=x") as person:
        await person.sees("Fruit")
        person.types("\x04")
        await person.sees("x/1: cancel")
        assert await person.leaves() == 0


async def test_ctrl_c_stops(url: str) -> None:
    """At once, also in the middle of a line, in one line and without a traceback."""
    with Person(url, "pick", "count=1", "label=x") as person:
        await person.sees("Fruit")
        person.types("app")
        # A signal before readline waits for keys is noticed with the next key only.
        await person.sees("app", after="commas) ")
        person.child.send_signal(signal.SIGINT)
        await person.sees("framehold: stopped")
        assert await person.leaves() == 130
        assert "Traceback" not in person.seen and "never retrieved" not in person.seen


async def test_a_server_that_goes_away_in_between() -> None:
    """One line that says so, exit code 1."""
    settings = Settings(keys=(KEY,), node_id="n1")
    async with AsyncExitStack() as serving:
        url = await serving.enter_async_context(served(public.asgi(server, settings)))
        with Person(url, "pick", "count=1", "label=x") as person:
            await person.sees("Fruit")
            await serving.aclose()
            person.types("apple\n")
            await person.sees("(y | n) [y] ")
            person.types("\n")
            await person.sees("framehold: pick came to no result: ")
            assert await person.leaves() == 1
            assert "Traceback" not in person.seen

"""`framehold stdio`: one server for one client over two pipes, of whatever era, and nothing left when either ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, TextContent

from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, entries
from tests.kit.processes import DEADLINE, ROOT, RUN, environment, finished, until
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio

BOOKING = "framehold.examples.booking"
SERVER = """
import asyncio, os, pathlib, subprocess, sys
from contextlib import asynccontextmanager
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel
import framehold

print("imported")
subprocess.run(["echo", "a child of the import"])

def note(line):
    with open(os.environ["ENTRIES"], "a") as file:
        file.write(line + "\\n")

@asynccontextmanager
async def lifespan(server):
    note("began")
    yield
    note("ended")

mcp = MCPServer("noisy", lifespan=lifespan)

class Word(BaseModel):
    word: str

@mcp.tool()
@framehold.reentrant
async def ask(ctx: Context) -> str:
    "Ask once, loudly."
    print("asks")
    answer = await ctx.elicit("Which word?", Word)
    sys.stdout.write("was told, without a line's end")
    subprocess.run(["echo", "a child of the call"])
    return answer.data.word + " " + repr(sys.stdin.read())

@mcp.tool()
async def work(done: str, ctx: Context) -> str:
    "Work until a file is there."
    try:
        note("works")
        while not pathlib.Path(done).exists():
            await ctx.report_progress(1)
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        note("cancelled")
        raise
    return "worked"
"""


class Piped(Caller):
    """A client of 2026-07-28 on the two pipes of a child."""

    def __init__(self, child: asyncio.subprocess.Process, folder: Path) -> None:
        super().__init__("")
        self.child, self.noted = child, folder / "entries"
        assert child.stdin is not None and child.stdout is not None
        self.stdin, self.stdout = child.stdin, child.stdout

    async def send(self, method: str, params: dict[str, Any], **options: Any) -> Reply:
        return await self.heard(await self.begun(method, params, **options))

    async def begun(self, method: str, params: dict[str, Any], **options: Any) -> int:
        """Send a request without waiting for its response. Return its id."""
        body = self.envelope(method, params, **options).body
        self.say(body)
        return int(body["id"])

    async def heard(self, number: int) -> Reply:
        """The response to the request with this id. Each line before it is a message too."""
        events = []
        async with asyncio.timeout(DEADLINE):
            while (message := json.loads(await self.stdout.readline())).get("id") != number:
                events.append(message)
        return Reply(200, {}, message, events)

    async def working(self) -> int:
        """Start a call of `work`. Return its id."""
        number = await self.begun("tools/call", {"name": "work", "arguments": {"done": str(self.done)}})
        await until(lambda: "works" in entries(self.noted), "the handler to begin")
        return number

    @property
    def done(self) -> Path:
        """The file that `work` waits for."""
        return self.noted.parent / "done"

    def say(self, message: Any) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")

    async def ended(self) -> tuple[int, bytes, str]:
        """Close standard input. Return the exit code, the rest of the output, and the text on standard error."""
        self.stdin.close()
        async with asyncio.timeout(DEADLINE):
            left, result = await self.child.communicate()
        assert self.child.returncode is not None
        return self.child.returncode, left, result.decode()


@asynccontextmanager
async def piped(
    folder: Path, target: str | None = None, run: tuple[str, ...] = tuple(RUN), **settings: str
) -> AsyncIterator[Piped]:
    """A child that serves `target`, by default the server above. It is killed at the end if it still runs."""
    if target is None:
        (folder / "noisy.py").write_text(SERVER)
    child = await asyncio.create_subprocess_exec(
        *run,
        "stdio",
        target or str(folder / "noisy.py"),
        cwd=ROOT,
        env=environment(ENTRIES=str(folder / "entries"), **settings),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield Piped(child, folder)
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def booked(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """The answers of a guest."""
    assert isinstance(params, ElicitRequestFormParams)
    answers: dict[str, dict[str, str | int | float | bool | list[str] | None]] = {
        "guests": {"guests": 3, "evening": "friday"},
        "place": {"place": "bar", "candles": False},
        "name": {"name": "Ann"},
    }
    first = next(iter(params.requested_schema["properties"]))
    return ElicitResult(action="accept", content=answers[first])


@pytest.mark.parametrize("mode", ["auto", "2026-07-28", "legacy"])
async def test_the_official_client_is_asked_three_times_over_stdio(mode: str) -> None:
    """Clients of either era work, without a key, a store or a setting."""
    parameters = StdioServerParameters(command=sys.executable, args=[*RUN[1:], "stdio", BOOKING], env=environment())
    async with Client(stdio_client(parameters), mode=mode, elicitation_callback=booked) as client:
        result = await client.call_tool("book", {"restaurant": "Luna"})
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert block.text.startswith("Booked for Ann. Luna, friday evening: a table for 3 at the bar")


FASTMCP = """
from fastmcp import Context, FastMCP
from pydantic import BaseModel
mcp = FastMCP("fast")
class Word(BaseModel):
    word: str
@mcp.tool
async def ask(ctx: Context) -> str:
    "Ask twice."
    one = await ctx.elicit("First?", Word)
    two = await ctx.elicit(f"{one.data.word} and then?", Word)
    return two.data.word
"""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_fastmcp_server_is_served_over_stdio_too(mode: str, tmp_path: Path) -> None:
    """TARGET may be any server that the other commands accept."""

    async def echo(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"word": f"<{params.message}>"})

    (tmp_path / "fast.py").write_text(FASTMCP)
    arguments = [*RUN[1:], "stdio", str(tmp_path / "fast.py")]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
    async with Client(stdio_client(parameters), mode=mode, elicitation_callback=echo) as client:
        result = await client.call_tool("ask", {})
    (block,) = result.content
    assert isinstance(block, TextContent) and block.text == "<<First?> and then?>"


async def test_nothing_that_is_printed_reaches_the_client(tmp_path: Path) -> None:
    """Text that is printed at the import, in a handler or by a child of either goes to standard error. Standard input
    is at its end for all of them. Every line that the client reads is a message."""
    async with piped(tmp_path) as child:
        asked = await child.call("ask")
        assert (await child.retry("ask", asked.token, asked.accept(word="aye"))).text == "aye ''"
        code, left, result = await child.ended()
    assert (code, left) == (0, b"")
    for text in ("imported", "a child of the import", "asks", "was told, without a line's end", "a child of the call"):
        assert result.count(text) == 1, result
    assert "INFO" not in result


async def test_where_standard_error_is_closed_what_is_printed_goes_nowhere(tmp_path: Path) -> None:
    """Printed text doesn't get into the pipe that the client writes to."""
    async with piped(tmp_path, run=("sh", "-c", 'exec "$@" 2>&-', "sh", *RUN)) as child:
        asked = await child.call("ask")
        assert (await child.retry("ask", asked.token, asked.accept(word="aye"))).text == "aye ''"
        assert await child.ended() == (0, b"", "")


async def test_the_end_of_standard_input_ends_it(tmp_path: Path) -> None:
    """The exit code is 0, with and without earlier messages. The lifespan is left."""
    async with piped(tmp_path) as child:
        assert (await child.ended())[:2] == (0, b"")
    assert entries(child.noted) == ["began", "ended"]


async def test_a_client_that_goes_without_a_word_leaves_nothing(tmp_path: Path) -> None:
    """Both pipes break while a handler runs and reports progress. The handler is cancelled, and the process ends
    without an error."""
    async with piped(tmp_path) as child:
        await child.working()
        child.stdin.close()
        # Its transport has no public name.
        child.child._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # asyncio's own
        assert child.child.stderr is not None
        result = (await child.child.stderr.read()).decode()
        assert await asyncio.wait_for(child.child.wait(), DEADLINE) == 0, result
    assert "Traceback" not in result
    assert entries(child.noted) == ["began", "works", "cancelled", "ended"]


async def test_a_cancelled_request_cancels_its_round(tmp_path: Path) -> None:
    """Over stdio a client cancels by a notification. The next request is served."""
    async with piped(tmp_path) as child:
        number = await child.working()
        child.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        await until(lambda: "cancelled" in entries(child.noted), "the handler's cancellation")
        assert (await child.call("ask")).messages == ["Which word?"]


async def test_sigterm_lets_a_round_end(tmp_path: Path) -> None:
    """The running round is answered, a new call is refused, and the process ends with 0."""
    async with piped(tmp_path) as child:
        number = await child.working()
        child.child.terminate()

        async def refused() -> bool:
            return "node drains" in (await child.call("ask")).message.get("error", {}).get("message", "")

        async with asyncio.timeout(DEADLINE):
            while not await refused():
                pass
        child.done.touch()
        assert (await child.heard(number)).text == "worked"
        # Its end is not the client's: the pipe stays open.
        assert await asyncio.wait_for(child.child.wait(), DEADLINE) == 0
    assert entries(child.noted) == ["began", "works", "ended"]


async def test_sigterm_lets_a_call_of_2025_end_too(tmp_path: Path) -> None:
    """A call of 2025 has no frame. The process waits for it as for a round."""
    async with piped(tmp_path, FRAMEHOLD_LOG_LEVEL="info") as child:
        assert child.child.stderr is not None
        who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        child.say({"jsonrpc": "2.0", "id": 901, "method": "initialize", "params": who})
        assert (await child.heard(901)).message["result"]["protocolVersion"] == "2025-11-25"
        child.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        work = {"name": "work", "arguments": {"done": str(child.done)}}
        child.say({"jsonrpc": "2.0", "id": 902, "method": "tools/call", "params": work})
        await until(lambda: "works" in entries(child.noted), "the handler to begin")
        child.child.terminate()
        async with asyncio.timeout(DEADLINE):
            while b"node drains" not in (line := await child.child.stderr.readline()):
                assert line, "it ended at once"
        child.done.touch()
        assert (await child.heard(902)).text == "worked"
        assert await asyncio.wait_for(child.child.wait(), DEADLINE) == 0
    assert entries(child.noted) == ["began", "works", "ended"]


async def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    """Running rounds are cancelled, the lifespan is left, and there is no traceback."""
    async with piped(tmp_path) as child:
        await child.working()
        child.child.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(child.child.wait(), DEADLINE) == 130
        assert child.child.stderr is not None
        assert "Traceback" not in (await child.child.stderr.read()).decode()
    assert entries(child.noted) == ["began", "works", "cancelled", "ended"]


@pytest.mark.parametrize("end", ["left", "killed"])
async def test_with_a_store_the_next_process_carries_the_call_on(end: str, redis: RedisServer, tmp_path: Path) -> None:
    """A client that restarts its server answers the question of the last process, however that process ended. After a
    kill it must retry until the lease has run out. Each process has a name of its own, so the second process starts
    while the first still runs."""
    settings = {"STORE_URL": redis.url, "KEYS": KEY, "NAMESPACE": tmp_path.name}
    named: dict[str, Any] = {f"FRAMEHOLD_{name}": value for name, value in settings.items()}
    async with (
        piped(tmp_path, **named, FRAMEHOLD_LEASE_TTL="2") as first,
        piped(tmp_path, **named, FRAMEHOLD_LEASE_TTL="60") as second,
    ):
        asked = await first.call("ask")
        answers = asked.accept(word="aye")
        await second.send("tools/list", {})
        if end == "killed":
            first.child.kill()
            await first.child.wait()
        else:
            assert (await first.ended())[0] == 0
        async with asyncio.timeout(DEADLINE):
            while "send the same request again" in (result := await second.retry("ask", asked.token, answers)).text:
                assert end == "killed"
        assert result.text == "aye ''"


def told_by(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return finished([*RUN, "stdio", *arguments], **options)


@pytest.mark.parametrize(
    ("target", "settings", "says"),
    [
        ("nowhere.py", {}, "TARGET nowhere.py is not a file; nothing was started"),
        (f"{BOOKING}:bok", {}, "no 'bok' there (servers found: mcp); nothing was started"),
        (BOOKING, {"FRAMEHOLD_STORE_URL": "redis://127.0.0.1:1"}, "FRAMEHOLD_KEYS is missing"),
    ],
)
def test_a_mistake_is_one_line_beside_the_protocol(target: str, settings: dict[str, str], says: str) -> None:
    """The line is on standard error, and the exit code is 2. Standard output, which a client reads, stays empty."""
    result = told_by(target, **settings)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1 and says in result.stderr, result.stderr


@pytest.mark.parametrize("closed", ["0<&-", "1>&-"])
def test_without_its_two_pipes_it_does_not_start(closed: str) -> None:
    result = finished(["sh", "-c", f'exec "$@" {closed}', "sh", *RUN, "stdio", BOOKING])
    assert (result.returncode, result.stdout) == (2, "")
    assert "standard input or output is closed; nothing was started" in result.stderr

"""Handlers that return their questions, called by clients of 2025 (`legacy.Shim`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server, request_state
from mcp.server.mcpserver import Context
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    ListToolsResult,
    Root,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, FileUrl

import framehold
from framehold.config import Settings
from framehold_core.errors import ConfigError
from tests.kit.nodes import served
from tests.kit.questions import asking, form
from tests.kit.serving import server_of
from tests.node.wires.official import repeats
from tests.tutorials.person import said as text

pytestmark = pytest.mark.anyio


class Place(BaseModel):
    word: str


def word(ctx: Context, key: str) -> str | None:
    answer = (ctx.input_responses or {}).get(key)
    return str(answer.content["word"]) if isinstance(answer, ElicitResult) and answer.content else None


async def asks(ctx: Context) -> str | InputRequiredResult:
    return word(ctx, "place") or asking(place="Where?")


@asynccontextmanager
async def old_client(
    *tools: Callable[..., Any], client: dict[str, Any] | None = None, wire: str = "legacy", **settings: Any
) -> AsyncIterator[Client]:
    """A client of 2025, or of the revision `wire`, of a server with these tools, in this process."""
    server = server_of("old", *tools)
    framehold.attach(server, Settings(node_id="old", **settings))
    output = {"elicitation_callback": repeats} if client is None else client
    async with Client(server, mode=wire, **output) as connected:
        yield connected


async def test_questions_are_asked_over_the_session_and_the_handler_is_entered_again() -> None:
    """Two rounds: the answers of each alone, and the state byte for byte as the handler gave it."""
    entered: list[tuple[str | None, list[str]]] = []
    state = 'F[1,"x"] \u00e9\u2028 "quoted"'

    async def trip(ctx: Context) -> str | InputRequiredResult:
        entered.append((ctx.request_state, sorted(ctx.input_responses or {})))
        if ctx.request_state is None:
            return asking(state, place="Where to?")
        if (place := word(ctx, "place")) is not None:
            return asking(f"{state}{place}", nights="How many nights?")
        return f"{ctx.request_state[len(state) :]}, {word(ctx, 'nights')}"

    async with old_client(trip) as client:
        assert text(await client.call_tool("trip", {})) == "<Where to?>, <How many nights?>"
    assert entered == [(None, []), (state, ["place"]), (f"{state}<Where to?>", ["nights"])]


async def test_all_questions_of_a_round_are_asked_together() -> None:
    here = asyncio.Barrier(3)

    async def elicit(context: ClientRequestContext, params: Any) -> ElicitResult:
        await here.wait()
        return await repeats(context, params)

    async def sample(_: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
        await here.wait()
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="four"), model="m")

    async def folders(_: ClientRequestContext) -> ListRootsResult:
        await here.wait()
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///srv/poems"))])

    async def everything(ctx: Context) -> str | InputRequiredResult:
        if not ctx.input_responses:
            message = SamplingMessage(role="user", content=TextContent(type="text", text="2 + 2?"))
            return InputRequiredResult(
                input_requests={
                    "who": form("Who?"),
                    "sum": CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=9)),
                    "where": ListRootsRequest(),
                }
            )
        answers = ctx.input_responses
        return " ".join(type(answers[key]).__name__ for key in ("who", "sum", "where"))

    callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": folders}
    async with asyncio.timeout(10), old_client(everything, client=callbacks) as client:
        result = text(await client.call_tool("everything", {}))
    assert result == "ElicitResult CreateMessageResult ListRootsResult"


async def test_a_page_to_visit_has_an_id_on_the_older_wire() -> None:
    """The revision of 2025-11-25 wants one, the present one has none."""
    seen: list[str | None] = []

    async def visit(_: ClientRequestContext, params: Any) -> ElicitResult:
        seen.append(params.elicitation_id)
        return ElicitResult(action="accept")

    async def sign(ctx: Context) -> str | InputRequiredResult:
        if ctx.input_responses:
            return "signed"
        params = ElicitRequestURLParams(message="Sign here", url="https://example.org/sign")
        return InputRequiredResult(input_requests={"sign": ElicitRequest(params=params)})

    async with old_client(sign, client={"elicitation_callback": visit}) as client:
        assert text(await client.call_tool("sign", {})) == "signed"
    assert len(seen) == 1
    assert seen[0]


async def test_a_round_without_questions_is_paced() -> None:
    entered: list[float] = []

    async def polls(ctx: Context) -> str | InputRequiredResult:
        entered.append(time.monotonic())
        return "done" if len(entered) == 3 else asking(str(len(entered)))

    async with old_client(polls) as client:
        assert text(await client.call_tool("polls", {})) == "done"
    assert entered[2] - entered[0] >= 0.5


async def test_an_effect_under_once_runs_once_however_often_the_handler_is_entered() -> None:
    ran: list[str] = []

    async def audited(ctx: Context) -> str | InputRequiredResult:
        await framehold.once("audit", ran.append, "looked up")
        return asking(place="Where?") if word(ctx, "place") is None else "done"

    async with old_client(audited) as client:
        assert text(await client.call_tool("audited", {})) == "done"
    assert ran == ["looked up"]


DRAWS: dict[str, Callable[[], object]] = {
    "uuid4": framehold.uuid4,
    "now": framehold.now,
    "random": framehold.random,
    "of each kind": lambda: (framehold.uuid4(), framehold.now(), framehold.random()),
    "named": lambda: framehold.uuid4("x"),
}


@pytest.mark.parametrize("wire", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("draw", DRAWS)
async def test_values_are_the_same_in_each_entry(draw: str, wire: str) -> None:
    """By their number, where they have no name. What an effect draws is not counted: it is not entered again."""
    entered: list[list[object]] = []

    async def noted(values: list[object]) -> None:
        DRAWS[draw]()

    async def order(ctx: Context) -> str | InputRequiredResult:
        entered.append([DRAWS[draw]()])
        await framehold.once("note", noted, entered[-1])
        entered[-1].append(DRAWS[draw]())
        return asking(place="Where?") if word(ctx, "place") is None else "done"

    async with old_client(order, wire=wire) as client:
        assert text(await client.call_tool("order", {})) == "done"
    first, second = entered
    assert first == second and (first[0] != first[1] or draw == "named")


async def test_a_state_that_expired_meanwhile_is_refused_as_on_the_present_wire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered: list[str | None] = []
    late = 0.0
    monkeypatch.setattr(request_state, "time", SimpleNamespace(time=lambda: time.time() + late))

    async def thinks(context: ClientRequestContext, params: Any) -> ElicitResult:
        nonlocal late
        late = 61.0
        return await repeats(context, params)

    async def slow(ctx: Context) -> str | InputRequiredResult:
        entered.append(ctx.request_state)
        return asking("kept", place="Where?")

    async with old_client(slow, client={"elicitation_callback": thinks}, token_ttl=60.0) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("slow", {})
    assert (raised.value.error.code, raised.value.error.message) == (-32602, "Invalid or expired requestState")
    assert entered == [None]


async def refuses(_: ClientRequestContext, params: Any) -> ErrorData:
    return ErrorData(code=-1, message="the user slammed the lid")


async def never(_: ClientRequestContext, params: Any) -> ElicitResult:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


@pytest.mark.parametrize(
    ("client", "settings", "told"),
    [
        ({}, {}, "did not declare the capability that elicitation/create needs; it was not asked"),
        ({"elicitation_callback": refuses}, {}, "failed at the client: the user slammed the lid"),
        ({"elicitation_callback": never}, {"round_timeout": 0.05}, "came within 0.05 s (FRAMEHOLD_ROUND_TIMEOUT)"),
        (None, {"max_rounds": 2}, "still asks after 2 rounds (FRAMEHOLD_MAX_ROUNDS)"),
    ],
    ids=["no capability", "a failed leg", "no answer in time", "too many rounds"],
)
async def test_a_failure_is_a_tools_result_and_a_prompts_error(
    client: dict[str, Any] | None, settings: dict[str, Any], told: str
) -> None:
    entered = {"tool": 0, "prompt": 0, "resource": 0}
    server: MCPServer[Any] = MCPServer("fails")

    def asks(kind: str) -> InputRequiredResult:
        entered[kind] += 1
        return asking(place="Where?")

    @server.tool(description="Asks.")
    async def tool() -> str | InputRequiredResult:
        return asks("tool")

    @server.prompt(description="Asks.")
    async def prompt() -> str | InputRequiredResult:
        return asks("prompt")

    @server.resource("poems://{which}", description="Asks.")
    async def resource(which: str) -> str | InputRequiredResult:
        return asks("resource")

    framehold.attach(server, Settings(node_id="fails", **settings))
    output = {"elicitation_callback": repeats} if client is None else client
    ways: dict[str, Callable[[Client], Awaitable[Any]]] = {
        "prompt": lambda old: old.get_prompt("prompt"),
        "resource": lambda old: old.read_resource("poems://one"),
    }
    async with asyncio.timeout(20), Client(server, mode="legacy", **output) as old:
        failed = text(await old.call_tool("tool", {}))
        assert failed.startswith("error: ")
        assert told in failed
        for way in ways.values():
            with pytest.raises(MCPError) as raised:
                await way(old)
            assert told in raised.value.error.message
    again = settings.get("max_rounds", 0)
    assert entered == dict.fromkeys(entered, 1 + again)


async def test_progress_of_the_client_puts_the_limit_off() -> None:
    limit = 0.4

    async def busy(context: ClientRequestContext, params: Any) -> ElicitResult:
        meta = context.meta or {}
        for step in range(4):
            await asyncio.sleep(limit / 2)
            await context.session.send_progress_notification(meta["progress_token"], float(step))
        return await repeats(context, params)

    async with old_client(asks, client={"elicitation_callback": busy}, round_timeout=limit) as client:
        assert text(await client.call_tool("asks", {})) == "<Where?>"


async def test_without_the_shim_the_call_fails_loudly() -> None:
    """`legacy_shim=False`: an error that says what is off and what to do. The handler was entered once."""
    entered: list[int] = []
    server: MCPServer[Any] = MCPServer("bare")

    @server.tool(description="Asks.")
    async def asks() -> InputRequiredResult:
        entered.append(1)
        return asking(place="Where?")

    framehold.attach(server, legacy_shim=False)
    async with Client(server, mode="legacy", elicitation_callback=repeats) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("asks", {})
    assert raised.value.error.code == -32603
    says = raised.value.error.message
    for part in ("revision 2025-11-25", "legacy_shim is off", "nothing was asked", "FRAMEHOLD_LEGACY_SHIM", "era(ctx)"):
        assert part in says, part
    assert entered == [1]


async def test_a_malformed_question_is_the_servers_error() -> None:
    """A low-level handler may return anything: nothing is asked."""

    async def call(ctx: Any, params: Any) -> Any:
        return {"resultType": "input_required", "inputRequests": {"q": {"method": "no/such"}}}

    server: Server[Any] = Server("low", on_call_tool=call)
    framehold.attach(server)
    async with Client(server, mode="legacy", elicitation_callback=repeats) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("any", {})
    assert raised.value.error.code == -32603
    assert "malformed; nothing was asked" in raised.value.error.message


async def test_a_low_level_handler_that_answers_with_plain_json() -> None:
    async def call(ctx: Any, params: Any) -> Any:
        if params.request_state is None:
            asked = form("Where?").model_dump(by_alias=True, mode="json", exclude_none=True)
            return {"resultType": "input_required", "inputRequests": {"q": asked}, "requestState": "1"}
        answer = params.input_responses["q"]
        return CallToolResult(content=[TextContent(type="text", text=f"{params.request_state} {answer.action}")])

    async def tools(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[])

    server: Server[Any] = Server("low", on_call_tool=call, on_list_tools=tools)
    framehold.attach(server)
    async with Client(server, mode="legacy", elicitation_callback=repeats) as client:
        assert text(await client.call_tool("any", {})) == "1 accept"


async def test_a_connection_without_a_stream_is_refused_not_waited_for() -> None:
    """Stateless HTTP: no request could reach this client. It has said that it can be asked, to another process
    perhaps: nobody tells it that it did not."""
    server = server_of("stateless", asks)
    framehold.attach(server)
    async with (
        asyncio.timeout(20),
        served(server.streamable_http_app(stateless_http=True)) as url,
        Client(streamable_http_client(url), mode="legacy", elicitation_callback=repeats) as client,
    ):
        result = text(await client.call_tool("asks", {}))
        assert "so the client can't be asked; nothing was asked" in result and "declare" not in result


async def test_a_state_from_outside_is_refused() -> None:
    """States never leave the process on this wire: one that a client brings was not made for it."""

    async with old_client(asks) as client:
        with pytest.raises(MCPError) as raised:
            await client.session.call_tool("asks", {}, request_state="s1.anything", allow_input_required=True)
    assert raised.value.error.code == -32602


def test_a_limit_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an author says in code is checked like a setting, and named as it was given."""
    with pytest.raises(ConfigError, match=r"^max_rounds is wrong"):
        framehold.attach(MCPServer("wrong"), max_rounds=0)
    monkeypatch.setenv("FRAMEHOLD_MAX_ROUNDS", "0")
    with pytest.raises(ConfigError, match=r"^FRAMEHOLD_MAX_ROUNDS is wrong"):
        framehold.attach(MCPServer("wrong"), round_timeout=1.0)


async def test_what_an_author_decides_in_code_stays() -> None:
    """The command that serves a module attaches its server again, with settings of its own."""
    server: MCPServer[Any] = MCPServer("twice")
    settings = Settings(node_id="twice", token_ttl=60.0)
    attached = framehold.attach(server, settings, legacy_shim=False)
    assert framehold.attach(server, settings) is framehold.attach(server) is attached
    assert attached.settings.legacy_shim is False
    assert attached.settings.token_ttl == 60.0
    with pytest.raises(ConfigError, match="attached already"):
        framehold.attach(server, Settings(node_id="other"))
    with pytest.raises(ConfigError, match="attached already"):
        framehold.attach(server, legacy_shim=True)


async def test_as_many_calls_of_2025_run_as_there_may_be_frames() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def waits(context: ClientRequestContext, params: Any) -> ElicitResult:
        asked.set()
        await answer.wait()
        return await repeats(context, params)

    async def asks(ctx: Context) -> str:
        return (await ctx.elicit("Where?", Place)).action

    async with (
        asyncio.timeout(20),
        old_client(asks, client={"elicitation_callback": waits}, max_parked=1) as client,
        asyncio.TaskGroup() as group,
    ):
        first = group.create_task(client.call_tool("asks", {}))
        await asked.wait()
        with pytest.raises(MCPError, match=r"FRAMEHOLD_MAX_PARKED.*nothing was started"):
            await client.call_tool("asks", {})
        answer.set()
        assert text(await first) == "accept"
        assert text(await client.call_tool("asks", {})) == "accept"

"""Whatever clients and servers call their tools: metrics can be read, and there are never more than so many series."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from fastmcp import Context as FastContext
from fastmcp import FastMCP
from mcp.server.mcpserver import Context

import framehold
from framehold.admin import probes
from framehold.app import counted
from framehold.config import Settings
from framehold.frame.frame import Frame
from framehold.telemetry.prometheus import Exposition
from framehold.telemetry.tool_labels import ASK_INTERVAL, MAX_NAMES, OTHER, READING, ToolLabels
from framehold_fleet.models.fields import MAX_TEXT_CHARACTERS
from framehold_store import system_clock
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question
from tests.kit.metrics import Scrape, scraped
from tests.kit.nodes import served
from tests.kit.serving import Served, Word, said, server_of
from tests.node.sdk.test_servers import high, low

pytestmark = pytest.mark.anyio

HOSTILE = ('say "hi"', "two\nlines", "back\\slash", '"} 1\nframehold_rounds_total{x="', "ümläut ☃", "a\tb\r\x00c", "")


def counting(at: Engine, names: Iterable[str] | None) -> Exposition:
    exposition = counted(at.runtime, ToolLabels(lambda: names))
    assert exposition is not None
    return exposition


async def one(ctx: Context) -> str:
    return said(await ctx.elicit("Which?", Word))


async def called(at: Engine, name: str, asks: bool = False) -> None:
    """A call of a tool that is called so."""

    async def script(frame: Frame) -> str:
        return str(await frame.ask(question("which?"))) if asks else "done"

    handler_entry = ScriptHandler(script)
    handler_entry.tool = name
    await at.runtime.start(handler_entry, Carrier())


def read(exposition: Exposition, accept: str = "") -> Scrape:
    return Scrape(exposition.text(accept)[0].decode())


def tools(scrape: Scrape) -> dict[str, float]:
    """How many rounds have ended, by the name of the tool."""
    text = 'rounds_total{outcome="ended",tool="'
    found = {name.removeprefix(text)[:-2]: value for name, value in scrape.samples.items() if name.startswith(text)}
    return {name: value for name, value in found.items() if value}


async def test_a_name_may_hold_anything_that_can_be_written() -> None:
    async with engine() as at:
        exposition = counting(at, HOSTILE)
        for name in HOSTILE:
            await called(at, name)
        assert tools(read(exposition)) == dict.fromkeys(HOSTILE, 1)
        text, kind = exposition.text("application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text") and text.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    "name", ["half \ud83d of a pair", "x" * 10_000, "x" * (MAX_TEXT_CHARACTERS + 1)], ids=["half", "10k", "long"]
)
async def test_a_name_that_can_not_be_a_label_is_other(name: str) -> None:
    async with engine() as at:
        exposition = counting(at, [name, "plain"])
        await called(at, name)
        await called(at, "plain")
        assert tools(read(exposition)) == {OTHER: 1, "plain": 1}


async def test_names_that_nobody_advertises_are_other_however_many() -> None:
    async with engine() as at:
        exposition = counting(at, ["known"])
        await called(at, "known")
        await called(at, "unknown")
        before = len(read(exposition).samples)
        for number in range(300):
            await called(at, f"unknown {number}")
        after = read(exposition)
        assert tools(after) == {"known": 1, OTHER: 301}
        assert len(after.samples) == before


async def test_there_are_never_more_names_than_so_many() -> None:
    """Of a server that advertises thousands, and of one that can't say what it has."""
    for advertised in ([f"tool {number}" for number in range(3000)], None):
        async with engine() as at:
            exposition = counting(at, advertised)
            for number in range(MAX_NAMES + 50):
                await called(at, f"tool {number}", asks=True)
                await called(at, f"tool {number}")
            found = tools(read(exposition))
            assert len(found) == MAX_NAMES + 1 and found[OTHER] == 50
            assert sum(found.values()) == MAX_NAMES + 50


async def test_names_never_fill_what_a_node_says_of_itself() -> None:
    app = framehold.asgi(server_of("stage", one), Settings(node_id="full"))
    app.attached.names._advertised = lambda: [
        f"{number:03}" + "\x01" * (MAX_TEXT_CHARACTERS - 3) for number in range(MAX_NAMES)
    ]
    assert 10 < len(tuple(app.attached.names)) < MAX_NAMES
    assert len(probes.node_state(app.attached).model_dump_json().encode()) < 48 * 1024


def outcomes(scrape: Scrape) -> dict[str, float]:
    return {name: count for name, count in scrape.samples.items() if name.startswith("rounds_total{") and count}


def test_nodes_that_advertise_the_same_names_have_one_digest_whatever_they_advertised_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server may remove a tool while it runs: a node that was started later never had it."""
    now, names = 0.0, ["book", "report", "book"]
    monkeypatch.setattr(system_clock, "now", lambda: now)
    labels = ToolLabels(lambda: names)
    before = labels.digest
    assert before == ToolLabels(lambda: ("report", "book")).digest
    for names[:] in (["book"], ["book", *(f"tool {number}" for number in range(MAX_NAMES + 50))]):
        now += ASK_INTERVAL
        assert labels.digest == ToolLabels(lambda: names).digest != before
    assert {"report", "book"} < set(labels), "what was counted stays"


async def test_a_low_level_server_is_told_by_what_has_asked() -> None:
    """Only its one handler knows its names; one that answers everything would have as many as clients think of."""
    app = framehold.asgi(low(), Settings(node_id="low"))
    async with served(app) as url, Served(url) as client:
        reply = await client.call("ask")
        await client.retry("ask", reply.token, reply.accept(word="w"))
        await client.send("resources/read", {"uri": "poems://one"})
        found = await scraped(client)
    assert outcomes(found) == {
        'rounds_total{outcome="asked",tool="ask"}': 2,
        'rounds_total{outcome="asked",tool="resources/read"}': 1,
    }
    assert tuple(app.attached.names) == (READING, "ask")


async def test_prompts_are_told_by_name_and_resources_are_not() -> None:
    """Their addresses are anybody's. What is registered later is found."""
    server = high()
    app = framehold.asgi(server, Settings(node_id="high"))
    async with served(app) as url, Served(url) as client:
        assert tuple(app.attached.names) == (READING, "ask", "poem")
        await client.send("prompts/get", {"name": "poem"})
        await client.send("resources/read", {"uri": "poems://secret"})
        await client.call("missing")
        found = await scraped(client)
        assert outcomes(found) == {
            'rounds_total{outcome="asked",tool="poem"}': 1,
            'rounds_total{outcome="asked",tool="resources/read"}': 1,
            'rounds_total{outcome="failed",tool="other"}': 1,
        }
        server.tool(name="later", description="Of this test.")(one)
        await asyncio.sleep(ASK_INTERVAL)
        await client.call("later")
        assert 'rounds_total{outcome="asked",tool="later"}' in outcomes(await scraped(client))


async def asks(ctx: FastContext) -> str:
    return said(await ctx.elicit("Which?", Word))


async def test_a_fastmcp_server_with_a_mounted_one() -> None:
    outer, inner = FastMCP("outer"), FastMCP("inner")
    for server in (outer, inner):
        server.tool(asks, name="one")
    outer.mount(inner, namespace="inner")
    app = framehold.asgi(outer, Settings(node_id="fast"))
    async with served(app) as url, Served(url) as client:
        assert set(app.attached.names) == {READING, "one", "inner_one"}
        await client.call("inner_one")
        await client.call("missing")
        result = outcomes(await scraped(client))
    assert result.pop('rounds_total{outcome="asked",tool="inner_one"}') == 1
    assert all('tool="other"' in name for name in result)

"""The log of a whole fleet: all lines of one call are found by the beginning of its id, whichever process and whichever
logger wrote them, and none of them shows more of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framehold_core.ids import prefix
from tests.kit.client import Caller
from tests.kit.fleet import Fleet, fleet
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

TARGET = "tests/fleet/failing_server.py"
OF_CALLS = ("my.tool", "mcp.server.mcpserver.server", "framehold.engine.records", "framehold_router.routing.relay")
"""Loggers that write lines about calls only, in this test."""


def lines_of(made: Fleet, *gone: Path) -> list[dict[str, Any]]:
    """Every line of every process of the fleet."""
    logs = [child.log() for child in (*made.routers, *made.nodes.values())] + [path.read_text() for path in gone]
    return [json.loads(line) for log in logs for line in log.splitlines()]


async def test_all_lines_of_a_failing_call_are_found_by_its_prefix(redis: RedisServer, tmp_path: Path) -> None:
    """Its node dies while it waits; the next one carries it on, and its handler raises there."""
    names = ("node-1", "node-2")
    async with fleet(tmp_path, redis, *names, target=TARGET, log_format="json", log_level="info") as made:
        router = await made.add_router()
        async with Caller(router.url) as caller:
            arguments = {"order": "B1"}
            asked = await caller.call("refund", arguments=arguments)
            first = asked.headers["framehold-node"]
            second = next(name for name in names if name != first)
            made.nodes.pop(first).kill()
            answers = asked.accept(word="x")
            reply = await caller.retry("refund", asked.token, answers, arguments=arguments)
            assert reply.result["isError"] and reply.headers["framehold-node"] == second
        text = "".join(path.read_text() for path in tmp_path.glob("*.log"))
        lines = lines_of(made, tmp_path / f"{first}.log")
    call = asked.token.split(".")[1]
    found = [line for line in lines if line.get("call") == prefix(call)]
    assert {line["logger"] for line in found} >= {*OF_CALLS}
    assert [line for line in lines if line["logger"] in OF_CALLS and line not in found] == []

    on_nodes = [line for line in found if "router" not in line]
    assert {line["node"] for line in on_nodes} == {first, second}
    assert {line["tool"] for line in on_nodes if "tool" in line} == {"refund"}
    by_author = {(line["message"].split()[0], line["node"], line["round"], line["epoch"]) for line in found
                 if line["logger"] == "my.tool"}  # fmt: skip
    assert by_author == {("asks", first, 1, 1), ("asks", second, 1, 2), ("goes", second, 2, 2)}
    (failure,) = (line for line in found if line["logger"].startswith("mcp."))
    assert (failure["round"], failure["epoch"], failure["level"]) == (2, 2, "error")
    (rerouted,) = (line for line in found if line.get("router"))
    assert rerouted["node"] == first
    assert call not in text and asked.token not in text

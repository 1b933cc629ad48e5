"""A server's own log configuration works under `framehold node` and `framehold up` as under any other server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.processes import up
from tests.kit.client import Caller
from tests.kit.nodes import node

pytestmark = pytest.mark.anyio

TOOL = """
from mcp.server import MCPServer
mcp = MCPServer("logs")
@mcp.tool()
def hello() -> str:
    logging.getLogger("mine").info("in the tool")
    logging.getLogger("mine").debug("debug in the tool")
    logging.getLogger("app").debug("by its own logger")
    return "x"
"""
FILE = """
import logging
logging.basicConfig(filename="{log}", level=logging.DEBUG, format="AUTHOR %(name)s %(message)s")
logging.getLogger("mine").warning("at import")
"""
DICT = """
import json, logging, logging.config
class Own(logging.Formatter):
    def format(self, record):
        return json.dumps({{"said": record.getMessage(), "call": getattr(record, "call", None)}})
logging.config.dictConfig({{
    "version": 1, "disable_existing_loggers": False, "formatters": {{"own": {{"()": Own}}}},
    "handlers": {{"file": {{"class": "logging.FileHandler", "filename": "{log}", "formatter": "own"}}}},
    "root": {{"level": "INFO", "handlers": ["file"]}},
    "loggers": {{"app": {{"level": "DEBUG", "handlers": ["file"], "propagate": False}}}},
}})
"""
LATER = """
import logging, contextlib
@contextlib.asynccontextmanager
async def lifespan(server):
    handler = logging.FileHandler("{log}")
    handler.setFormatter(logging.Formatter("%(name)s %(call)s %(message)s", defaults={{"call": "no call"}}))
    logging.getLogger().addHandler(handler)
    yield
"""


def server(folder: Path, configuration: str, tool: str = TOOL) -> tuple[Path, Path]:
    """A server of this log configuration, and the file that it logs to."""
    log, target = folder / "author.log", folder / "logs.py"
    target.write_text(configuration.format(log=log) + tool)
    return target, log


async def called(url: str) -> None:
    async with Caller(url) as caller:
        assert (await caller.call("hello")).text == "x"


async def test_the_authors_file_gets_all_that_it_got_without_us(tmp_path: Path) -> None:
    """At the author's level; the terminal has the same lines at ours."""
    target, log = server(tmp_path, FILE)
    async with node(str(target), tmp_path) as child:
        await called(child.url)
        text = child.log()
    lines = log.read_text().splitlines()
    assert [line for line in lines if line.startswith("AUTHOR mine")] == [
        "AUTHOR mine at import",
        "AUTHOR mine in the tool",
        "AUTHOR mine debug in the tool",
    ]
    assert text.count("INFO    mine: in the tool [call ") == 1 and "debug in the tool" not in text


async def test_the_authors_json_has_the_call(tmp_path: Path) -> None:
    """On the root logger and on a logger of the author's own."""
    target, log = server(tmp_path, DICT)
    async with node(str(target), tmp_path) as child:
        await called(child.url)
    found = {line["said"]: line["call"] for line in map(json.loads, log.read_text().splitlines())}
    assert found["in the tool"] == found["by its own logger"] and len(found["in the tool"]) == 8


async def test_a_handler_that_the_lifespan_adds_has_the_call_too(tmp_path: Path) -> None:
    tool = TOOL.replace('MCPServer("logs")', 'MCPServer("logs", lifespan=lifespan)')
    target, log = server(tmp_path, LATER, tool)
    async with node(str(target), tmp_path) as child:
        await called(child.url)
    (line,) = (line for line in log.read_text().splitlines() if line.endswith("in the tool"))
    name, call, _ = line.split(" ", 2)
    assert name == "mine" and len(call) == 8


async def test_a_fleet_of_up_leaves_the_authors_file_alone(tmp_path: Path) -> None:
    """It logs warnings only on the terminal."""
    target, log = server(tmp_path, FILE)
    async with up(tmp_path, str(target), "--nodes", "1", "--port", "0") as running:
        await running.hears("node-1")
        await called(f"{running.url}/mcp")
        await running.end()
    assert "AUTHOR mine debug in the tool" in log.read_text().splitlines()
    assert "in the tool" not in running.said

"""What `docs/writing-tools.md` shows is run as it stands there."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold
import framehold.testing
from framehold.testing import RehearsalFailed, Rehearse
from tests.node.code.releases import release

rehearse = framehold.testing.rehearse
PAGE = Path(__file__).resolve().parents[3] / "docs" / "writing-tools.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
MARK = "@mcp.tool()\n@framehold.reentrant\n"


class Sure(BaseModel):
    sure: bool


def shop(code: str) -> tuple[dict[str, Any], list[str]]:
    """A server with the tool of a block, and what its effects did."""
    done: list[str] = []

    async def audit(line: str) -> None:
        done.append(line)

    async def charge(item: str, key: str = "") -> str:
        done.append(f"charged for {item}")
        return f"paid for {item}"

    mcp: MCPServer = MCPServer("shop")
    names: dict[str, Any] = {"mcp": mcp, "framehold": framehold, "Context": Context, "uuid": uuid, "Sure": Sure}
    names |= {"audit": audit, "charge": charge, "__name__": __name__}
    exec(compile(code, str(PAGE), "exec"), names)
    return names, done


def block(text: str) -> str:
    (found,) = (code for code in BLOCKS if text in code)
    return str(found)


def marked(code: str) -> str:
    assert MARK in BLOCKS[2]
    return code.replace("@mcp.tool()\n", MARK)


def test_the_tool_of_step_two_may_be_marked(rehearse: Rehearse) -> None:
    names, done = shop(marked(BLOCKS[1]))
    exec(compile(block("def test_order(").replace("pytest_plugins", "plugins"), str(PAGE), "exec"), names)
    names["test_order"](rehearse)
    assert names["plugins"] == ["framehold.testing"]
    assert len(done) == 2 and done[0].endswith(" of tea begun") and done[1] == "charged for tea", "once, in all ways"


def test_the_tool_of_step_one_may_not(rehearse: Rehearse) -> None:
    names, _ = shop(marked(BLOCKS[0]))
    with pytest.raises(RehearsalFailed, match="the call differs under replay"):
        rehearse(names["mcp"], "order", {"item": "tea"}, answers=[{"sure": True}])


SERVER = """\
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

mcp = MCPServer("shop")

class Sure(BaseModel):
    sure: bool

async def audit(line):
    return None

async def charge(item, key=""):
    return f"paid for {item}"

"""


def test_a_change_is_tested_against_calls_that_wait(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's tests pass where the code is kept; where it isn't, the text is that of the page."""
    monkeypatch.chdir(tmp_path)
    before = SERVER + marked(BLOCKS[1])
    not_kept = before.replace(MARK, f"{MARK}@framehold.options(keep_code=False)\n")
    for name, text in {"kept": before, "not-kept": not_kept}.items():
        with release(tmp_path / f"{name}-before", text) as module:
            played("test_record", module.mcp, rehearse)
        with release(tmp_path / f"{name}-after", text.replace('"Order {item}?"', '"Order {item} now?"')) as module:
            if name == "kept":
                played("test_waiting_calls", module.mcp, rehearse)
                continue
            with pytest.raises(RehearsalFailed) as failure:
                played("test_waiting_calls", module.mcp, rehearse)
    shown = re.findall(r"^```\n(calls of.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    found = re.sub(r"\S+\.py:\d+", "server.py:21", str(failure.value))
    assert found.split() == shown[0].split()


def played(name: str, mcp: Any, rehearse: Rehearse) -> None:
    names: dict[str, Any] = {"mcp": mcp}
    exec(compile(block("def test_waiting_calls("), str(PAGE), "exec"), names)
    names[name](rehearse)

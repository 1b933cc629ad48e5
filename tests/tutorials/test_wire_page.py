"""`docs/wire.md`: its commands, pasted into a shell one after the other, bring what the page says."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import up
from tests.kit.processes import DEADLINE, environment
from tests.tutorials.page import blocks

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

PAGE = "wire.md"
ADDRESS = "http://127.0.0.1:8080/mcp"
START = "framehold up\n"


def shell(commands: list[str], folder: Path) -> str:
    """Run commands in one shell, which ends at the first that fails; what the last of them printed."""
    script = "\n".join([*commands[:-1], "echo LAST", commands[-1]])
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=folder,
        # The shell's python3 may be another release than the one that runs the tests.
        env=environment(NO_PROXY="127.0.0.1", PYTHONPATH=""),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return done.stdout.rpartition("LAST\n")[2]


async def test_the_commands_bring_what_the_page_says(tmp_path: Path) -> None:
    """Three questions are answered, a repeated round gets the same question, and the headers name the route."""
    page = blocks(PAGE)
    commands = [block.text for block in page if block.language == "sh"]
    assert commands[0] == START
    async with up(tmp_path, "--port", "0", "--nodes", "2") as fleet:
        await fleet.hears("Ctrl-C stops everything.")
        pasted = [command.replace(ADDRESS, f"{fleet.url}/mcp") for command in commands[1:]]
        headers = shell(pasted, tmp_path)
        text = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("round1", "round2", "again")}
        last = json.loads((tmp_path / "round4.json").read_text())["result"]
        refused = shell([pasted[0].replace('{"form": {}}', "{}").replace('"elicitation": {}', ""), pasted[1]], tmp_path)
        stale = shell([*pasted[:2], pasted[2].replace("'\"$STATE\"'", "h1.not.ours")], tmp_path)
        assert await fleet.end() == 0
    [final, routed] = [block.text for block in page if block.language == "text"]
    assert last["resultType"] == "complete" and last["content"][0]["text"] == final.strip()
    assert text["round2"]["result"]["inputRequests"] == text["again"]["result"]["inputRequests"]
    assert text["round2"]["result"]["requestState"] != text["round1"]["result"]["requestState"]
    assert re.sub(r"node-\d", "node-2", headers.replace("\r", "")) == routed
    assert json.loads(refused)["error"]["code"] == -32021
    error = json.loads(stale)["error"]
    assert (error["code"], error["message"]) == (-32602, "Invalid or expired requestState")
    [sample] = [json.loads(block.text) for block in page if block.language == "json"]
    _alike(sample, text["round1"])


def _alike(sample: Any, text: Any) -> None:
    """The page's response is that of the server, but for what is cut and for the question's key."""
    assert set(sample) == set(text)
    assert set(sample["result"]) <= set(text["result"])
    [shown], [asked] = (list(one["result"]["inputRequests"].values()) for one in (sample, text))
    assert shown["method"] == asked["method"]
    assert set(shown["params"]) <= set(asked["params"])
    assert shown["params"]["message"] == asked["params"]["message"]
    assert set(shown["params"]["requestedSchema"]["properties"]) == set(
        asked["params"]["requestedSchema"]["properties"]
    )

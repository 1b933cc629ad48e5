"""`docs/troubleshooting.md`: `breakpoint()` opens the debugger in the terminal of a node, and the call goes on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from framehold_cli.local.ports import free as free_port
from tests.cli.desk import Person
from tests.cli.terminal import Terminal
from tests.tutorials.page import blocks

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

PAGE, SECTION = "troubleshooting.md", "One node in your terminal"
KEY = "00112233445566778899aabbccddeeff" * 2


def server(folder: Path) -> Path:
    [behind] = [block.text for block in blocks(PAGE, SECTION) if block.language == "python"]
    question, stop = behind.splitlines()
    *_, code = [block.text for block in blocks("tutorial.md") if block.title == "server.py"]
    assert code.count(question) == 1 and stop == "breakpoint()"
    path = folder / "server.py"
    path.write_text(code.replace(question, f"{question}\n    {stop}"))
    return path


async def test_a_breakpoint_in_a_node_of_the_foreground(tmp_path: Path) -> None:
    """The debugger shows what the page shows, and the client has its next question after `c`."""
    [shown] = [block.text for block in blocks(PAGE, SECTION) if block.language == "text"]
    if sys.version_info >= (3, 13):
        shown = "\n".join(["-> breakpoint()", *shown.splitlines()[1:]])
    port, path = free_port(), server(tmp_path)
    command = f"cd {tmp_path} && exec {sys.executable} -m framehold node {path.name} --port {port}"
    with Terminal(["sh", "-c", command], TERM="dumb", FRAMEHOLD_KEYS=KEY) as node:
        await node.sees("serves http://")
        with Person(f"http://127.0.0.1:{port}/mcp", "order", "item=tea") as person:
            await person.sees("(y | n): ")
            person.types("y\n")
            for line in shown.splitlines():
                prompt = re.fullmatch(r"(\(Pdb\) )(.+)", line)
                await node.sees(prompt[1] if prompt else line)
                if prompt:
                    node.types(f"{prompt[2]}\n")
            await person.sees("Which street? ")
            person.types("Elm\n")
            await person.sees("it comes to Elm.")
            assert await person.leaves() == 0
    assert (tmp_path / "charges.txt").read_text() == "tea\n"

"""The lines of docs/install.md for a first try without a clone, on the wheel that is built from this tree.

They ask an index for what the wheel depends on; the wheel itself is named by its path, where the page names the
repository."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import up
from tests.kit.processes import ROOT, finished

pytestmark = [pytest.mark.anyio, pytest.mark.release]

REPOSITORY = "git+https://github.com/framehold/framehold"
LINES = re.findall(
    rf"(?m)^(uvx|pipx) (.*){re.escape(REPOSITORY)} framehold up\b", (ROOT / "docs" / "install.md").read_text("utf-8")
)
INSTALLED = 300.0
"""Seconds in which some sixty packages are installed and compiled, on a machine with other work too."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = out.glob("framehold-*.whl")
    return path


def program(name: str) -> str:
    """The path of a program that was installed beside this Python, or is on PATH."""
    found = shutil.which(name, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    assert found, f"{name} is missing; run: make tools"
    return found


def test_the_page_has_both_lines_and_the_readme_the_first() -> None:
    assert [line[0] for line in LINES] == ["uvx", "pipx"]
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = [f"uvx --from {REPOSITORY} framehold {words}" for words in ("up server.py", "call order item=tea")]
    assert "\n".join(["```sh", *commands, "```"]) in readme


@pytest.mark.parametrize(("tool", "options"), LINES, ids=[line[0] for line in LINES])
async def test_a_call_is_answered(tool: str, options: str, wheel: Path, tmp_path: Path) -> None:
    """A fleet of what was installed is up, and the line that it prints works in any other shell."""
    run = [program(tool), *options.split(), str(wheel), "framehold"]
    # What it installs is imported, and nothing of this tree.
    own = {"PYTHONPATH": "", "PIPX_HOME": str(tmp_path / "pipx")}
    async with up(tmp_path, "--port", "0", "--nodes", "1", run=run, **own) as running:
        await running.until(lambda: "Ctrl-C stops everything." in running.said, "the table", INSTALLED)
        text = await running.hears("admin token")
        assert "1 node serves the booking example" in text and "missing" not in text
        line = running.pasted("framehold call").strip()
        assert Path(line.split()[0]).is_absolute() and not line.startswith(sys.prefix), line
        shell, answers = ["sh", "-c", line], "4\nsaturday\n\nn\nAda\n"
        result = await asyncio.to_thread(finished, shell, tmp_path, answers, PYTHONPATH="", PATH=os.defpath)
        assert (result.returncode, result.stderr) == (0, ""), result
        assert "Booked for Ada. Luna, saturday evening: a table for 4" in result.stdout
        # uv hands this signal on, and leaves Ctrl-C to the terminal.
        running.terminate()
        await running.ends()
        await running.nothing_left()

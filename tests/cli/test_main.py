"""Where a command begins: closed standard streams, bytes that are no text, and Ctrl-C. None of them is a traceback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.fake_router import FakeRouter
from tests.kit.processes import RUN, finished

pytestmark = pytest.mark.anyio


def in_shell(line: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What becomes of `framehold WORDS`, which is `"$@"` in this line of a shell."""
    return finished(["sh", "-c", line, "sh", *RUN, *words])


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
async def test_closed_standard_streams(router: FakeRouter, desk: str, closed: str) -> None:
    """A command without them does what it does, and ends with its own exit code."""
    for words, code in (
        (("nodes", "--url", router.url), 0),
        (("nodes", "--url", "http://127.0.0.1:1"), 2),
        (("call", "--url", desk, "counts"), 0),
        (("call", "--url", desk, "--json", "both"), 1),
    ):
        done = await asyncio.to_thread(in_shell, f'"$@" {closed}', *words)
        assert done.returncode == code and "Traceback" not in done.stderr, done


@pytest.mark.parametrize(
    "line", ['{ "$@"; echo "ended with $?" >&2; } | true', '"$@" >/dev/full; echo "ended with $?" >&2']
)
async def test_an_output_that_takes_nothing(router: FakeRouter, line: str) -> None:
    """The exit codes 0 to 2 of `status` speak of the fleet: it has another one where nobody could be told."""
    for command, code in (("nodes", 1), ("status", 3)):
        done = await asyncio.to_thread(in_shell, line, command, "--url", router.url)
        assert done.stderr.endswith(f"ended with {code}\n"), done


@pytest.mark.parametrize("words", [("call", "counts"), ("call", "--json", "both", "--answer"), ("pause",), ("up",)])
def test_an_argument_that_is_not_utf_8(words: tuple[str, ...]) -> None:
    """It is not shown: it may be a secret."""
    done = in_shell('"$@" "$(printf \'x=\\377\')"', *words)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr == f"framehold: argument {len(words) + 1} is not UTF-8; nothing was done; write it in UTF-8\n"


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
async def test_an_answer_that_is_not_utf_8(desk: str, errors: str) -> None:
    """It is not sent: who answers is asked again, and a program's call ends. Which errors Python passes by depends on
    the locale."""
    line = f"printf '%b' '{{}}\\n' | PYTHONIOENCODING=utf-8:{errors} \"$@\""
    words = ("call", "--url", desk, "both")
    done = await asyncio.to_thread(in_shell, line.format("\\0377\\nx\\ny"), *words)
    assert done.returncode == 0 and "  '\\udcff' is not UTF-8\n" in done.stdout, done
    done = await asyncio.to_thread(in_shell, line.format('{"word": "\\0377"}'), *words, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["outcome"]) == (1, "", "unanswered"), done
    assert "is not UTF-8; it was not sent" in found["error"] and found["rounds"] == 1


def test_ctrl_c_while_it_is_imported(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import framehold_cli"
    done = finished([sys.executable, "-c", program])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

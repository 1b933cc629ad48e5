"""What a start of the command line imports. Heavy packages would make each `framehold --help` slow, so commands import
them when they run."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {"mcp", "pydantic", "aiohttp", "redis", "uvicorn", "framehold.config"}
HELP = """
import sys
from framehold_cli import main
sys.argv = ["framehold", "--help"]
try:
    main()
except SystemExit as end:
    assert end.code in (None, 0), end.code
"""
REPORT = "\nimport json, sys; print('\\n' + json.dumps(sorted(sys.modules)))"


def imported(program: str) -> tuple[str, set[str]]:
    """Run a Python program in a new process. Return its output, and the names of the modules that it has imported."""
    command = [sys.executable, "-c", program + REPORT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    output, modules = done.stdout.rstrip("\n").rsplit("\n", 1)
    return output, set(json.loads(modules))


def test_the_help_imports_nothing_heavy() -> None:
    output, modules = imported(HELP)
    assert "Start a whole fleet on this machine" in output
    assert "framehold_cli.commands" in modules
    assert not modules & HEAVY


def test_import_framehold_imports_nothing_heavy() -> None:
    _, modules = imported("import framehold")
    assert "framehold" in modules
    assert not modules & HEAVY


def test_a_router_imports_no_sdk() -> None:
    """The SDK takes longer to import than all else that a router needs."""
    _, modules = imported("import framehold_cli.serve.router")
    assert "framehold_router.app" in modules
    assert "mcp" not in modules


def test_up_says_its_first_line_before_what_takes_long_is_imported() -> None:
    """`framehold up` says that it starts before it imports the SDK, which only its table needs."""
    _, modules = imported("import framehold_cli.local.up")
    assert "framehold_cli.local.up" in modules
    assert not modules & (HEAVY - {"pydantic", "framehold.config"})


def test_a_heavy_import_is_seen() -> None:
    """Each name in HEAVY is one that Python lists for an imported module, so the tests above can fail."""
    _, modules = imported(f"import framehold, {', '.join(HEAVY)}")
    assert modules >= HEAVY

"""A child process that serves one ASGI app, ended by its process id."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.node_cache import ROOT


class ServerFailed(Exception):
    """The child ended, or stayed silent, before it could be connected to."""


@contextmanager
def serving(target: str, log: Path, timeout: float) -> Iterator[str]:
    """Serve `target` ("module:name") in a child and yield its URL.

    Args:
        log: File for the child's standard error.
        timeout: Seconds in which it must be ready.

    Raises:
        ServerFailed: With the end of the log.
    """
    command = [sys.executable, "-m", "tests.conformance.serve", target]
    with log.open("w") as errors:
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, env=_environment())
    try:
        yield _address(child, log, timeout)
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        assert child.stdout is not None
        child.stdout.close()


def _address(child: subprocess.Popen[bytes], log: Path, timeout: float) -> str:
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], timeout)
    line = child.stdout.readline().decode().strip() if ready else ""
    if not line:
        tail = "\n".join(log.read_text().splitlines()[-15:])
        what = "ended before it served" if ready else f"was not ready within {timeout:.0f} s"
        raise ServerFailed(f"the example server {what}; the end of its log:\n{tail}")
    return line


def _environment() -> dict[str, str]:
    """The same modules as this process can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}

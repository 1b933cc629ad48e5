"""A child process that serves one ASGI app, ended by its process id."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import Child, python_path


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
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.conformance.serve", target]
    child = Child(command, log, env={**os.environ, **python_path()}, announces=True)
    child.launch()
    try:
        try:
            address = child.announced(timeout)
        except AssertionError as error:
            raise ServerFailed(f"the example server: {error}") from None
        yield address
    finally:
        child.stop()

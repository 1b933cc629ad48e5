"""The re-entrant server on a machine whose wall clock is wrong: by as many seconds as a file says at that moment."""

from __future__ import annotations

import os
import time
from pathlib import Path

_wrong, _right = Path(os.environ["WRONG_BY"]), time.time
time.time = lambda: _right() + float(_wrong.read_text())

from tests.node.reentrant_server import mcp  # noqa: E402  # what it imports reads the wrong clock

__all__ = ["mcp"]

"""The release of this process, and the time when it began."""

from __future__ import annotations

import time
from importlib import metadata

VERSION = metadata.version("framehold")
STARTED = time.time()
"""Seconds since 1970."""

"""The release of this process, and the time when it began."""

from __future__ import annotations

from importlib import metadata

from framehold_store.system_clock import now

VERSION = metadata.version("framehold")
STARTED = now()
"""Seconds on the machine's monotonic clock."""

"""The booking server with a last round that holds up its node's event loop instead of waiting."""

from __future__ import annotations

import time
from types import SimpleNamespace

from framehold_loadtest.served import booking


async def hold_up(seconds: float) -> None:
    """What an author does who takes `time.sleep` for `asyncio.sleep`."""
    time.sleep(seconds)


booking.__dict__["asyncio"] = SimpleNamespace(sleep=hold_up)
mcp = booking.mcp

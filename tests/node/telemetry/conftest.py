"""What these tests share: each kind of event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
import uvloop

_LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=_LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Awaitable[None]], None]]:
    """Awaits what it is given, on either kind of loop."""
    with asyncio.Runner(loop_factory=_LOOPS[request.param]) as runner:

        async def awaited(it: Awaitable[None]) -> None:
            await it

        yield lambda it: runner.run(awaited(it))

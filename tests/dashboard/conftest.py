"""What the dashboard's tests share: a browser, a real fleet, a crowd of calls; and a fresh screen for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest
from playwright.async_api import Browser

from tests.dashboard.crowd import Crowd, crowd
from tests.dashboard.line import Line, line
from tests.dashboard.screen import Look, Screen, chromium, screen
from tests.dashboard.stage import Stage, stage
from tests.router.cast import RECORDED
from tests.store.server import RedisServer

Screens = Callable[..., AbstractAsyncContextManager[Screen]]


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


@pytest.fixture(scope="package")
async def fleet(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> AsyncIterator[Stage]:
    """Three real nodes behind a real router."""
    async with stage(tmp_path_factory.mktemp("dashboard"), redis, RECORDED) as made:
        yield made


@pytest.fixture(scope="package")
async def many() -> AsyncIterator[Crowd]:
    """100,000 calls, and hostile names."""
    async with crowd() as made:
        yield made


@pytest.fixture
def screens(browser: Browser) -> Screens:
    """Opens screens: `async with screens(root, look) as screen`."""
    return partial(screen, browser)


@pytest.fixture
async def at_fleet(screens: Screens, fleet: Stage) -> AsyncIterator[Screen]:
    """A screen before the fleet."""
    async with screens(fleet.root) as opened:
        yield opened


@pytest.fixture
async def at_crowd(screens: Screens, many: Crowd) -> AsyncIterator[Screen]:
    """A screen before the crowd, which must show it promptly."""
    async with screens(many.root, Look()) as opened:
        yield opened


@pytest.fixture
async def way() -> AsyncIterator[Line]:
    """A router of this test alone, and what lies between it and the browser."""
    async with line() as made:
        yield made


@pytest.fixture
async def page(way: Line, screens: Screens) -> AsyncIterator[Screen]:
    """A screen before that router, with a clock that a test may put forward."""
    async with screens(way.root) as opened:
        opened.expects("/api/v1/")
        await opened.page.clock.install()
        yield opened

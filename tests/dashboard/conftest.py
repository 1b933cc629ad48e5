"""What the dashboard's tests share: a browser, a real fleet, a crowd of calls; and a fresh screen for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial

import pytest
from playwright.async_api import Browser

from tests.cli.processes import Up
from tests.dashboard.crowd import Crowd, crowd
from tests.dashboard.firefox import Firefox, firefox
from tests.dashboard.line import Line, line
from tests.dashboard.player import Player, playground
from tests.dashboard.stage import Stage, stage
from tests.dashboard.view import SCHEMES, View
from tests.kit.browser import Look, Screen, chromium, screen
from tests.kit.redis_server import RedisServer

Screens = Callable[..., AbstractAsyncContextManager[Screen]]
Views = Callable[[str, str, str], AbstractAsyncContextManager[View]]


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


@pytest.fixture(scope="package")
async def foxes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mapping[str, Firefox]]:
    """A running Firefox for each colour scheme: a process has one for all of its pages."""
    async with AsyncExitStack() as stack:
        profiles = {scheme: tmp_path_factory.mktemp(f"firefox-{scheme}") for scheme in SCHEMES}
        yield {name: await stack.enter_async_context(firefox(folder, name)) for name, folder in profiles.items()}


@pytest.fixture(scope="package")
async def fleet(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> AsyncIterator[Stage]:
    """Three real nodes behind a real router."""
    async with stage(tmp_path_factory.mktemp("dashboard"), redis) as made:
        yield made


@pytest.fixture(scope="package")
async def many() -> AsyncIterator[Crowd]:
    """100,000 calls, and hostile names."""
    async with crowd() as made:
        yield made


@pytest.fixture(scope="package")
async def played(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """A fleet of `framehold up` with its playground."""
    async with playground(tmp_path_factory.mktemp("playground")) as running:
        yield running


@pytest.fixture
async def player(screens: Screens, played: Up) -> AsyncIterator[Player]:
    """A person in front of that playground."""
    async with screens(played.url) as opened:
        yield Player(opened)


@pytest.fixture
def screens(browser: Browser) -> Screens:
    """Opens screens: `async with screens(root, look) as screen`."""
    return partial(screen, browser)


@pytest.fixture
def views(browser: Browser, request: pytest.FixtureRequest) -> Views:
    """Opens pages in either browser: `async with views("firefox", "dark", root) as view`. Firefox is started for tests
    that are marked with it."""
    wanted = request.node.get_closest_marker("firefox") is not None
    foxes: Mapping[str, Firefox] = request.getfixturevalue("foxes") if wanted else {}

    def opened(name: str, scheme: str, root: str) -> AbstractAsyncContextManager[View]:
        return screen(browser, root, Look(scheme)) if name == "chromium" else foxes[scheme].view(root)

    return opened


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

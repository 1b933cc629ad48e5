"""The async tests of this folder run on asyncio alone: the supervisor and its children are asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import framehold as public
from framehold.config import Settings
from tests.cli.desk import server
from tests.cli.fake_router import FakeRouter, Operator, fake_router
from tests.kit.nodes import KEY, served


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def desk() -> AsyncIterator[str]:
    """The address of a node that serves the desk's tools."""
    settings = Settings(keys=(KEY,), node_id="n1", route_headers=True)
    async with served(public.asgi(server(), settings)) as address:
        yield address


@pytest.fixture
def router() -> Iterator[FakeRouter]:
    """A fake router with replies that the test sets."""
    with fake_router() as running:
        yield running


@pytest.fixture
def operator(
    router: FakeRouter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Operator:
    """Runs commands at the fake router, without a token and with an empty runtime folder."""
    monkeypatch.delenv("FRAMEHOLD_ADMIN_TOKEN", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return Operator(router, monkeypatch, capsys)

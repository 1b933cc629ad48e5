"""The lifespan of an app, as its runner sees it: a start that fails, and a second one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from mcp.server import MCPServer
from starlette.testclient import TestClient
from uvicorn.lifespan.on import LifespanOn

import framehold
from framehold.config import Settings
from framehold.http.app import Application

pytestmark = pytest.mark.anyio


def broken() -> Application:
    """An app whose server can't start."""

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    return framehold.asgi(MCPServer("broken", lifespan=lifespan), Settings(node_id="n"))


def test_a_start_that_fails_is_raised_where_a_test_client_enters() -> None:
    with pytest.raises(RuntimeError, match="no database"), TestClient(broken()):
        raise AssertionError("it was entered")


async def test_uvicorn_reports_a_start_that_fails_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = LifespanOn(uvicorn.Config(broken(), log_config=None, log_level="error"))
    monkeypatch.setattr(running.logger, "handlers", [caplog.handler])
    monkeypatch.setattr(running.logger, "propagate", False)
    await running.startup()
    assert running.should_exit
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in errors] == ["no database", "Application startup failed. Exiting."]
    assert not any(record.exc_info for record in errors)

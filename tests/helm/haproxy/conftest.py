"""The async tests of this folder run on asyncio alone: their children are asyncio's."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"

"""The async tests of this folder run on asyncio alone: the router's transports are asyncio's."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

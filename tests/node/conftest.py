"""The async tests of this folder run on asyncio alone: framehold's frames are asyncio tasks."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

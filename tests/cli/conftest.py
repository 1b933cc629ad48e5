"""The async tests of this folder run on asyncio alone: the supervisor and its children are asyncio."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"

"""Fake nodes, for the tests of what a router's pages answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.router.cast import Cast, cast_of


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as made:
        yield made

"""What tests of several folders share: a garbage collector that runs only when the test calls it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Garbage is collected only when the test calls `gc.collect()`."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()

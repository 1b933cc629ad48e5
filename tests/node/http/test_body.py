"""The body of a request, in however many pieces it comes."""

from __future__ import annotations

import math
import tracemalloc

import pytest
from starlette.types import Message

from framehold.http.body import Body
from framehold.http.intake import Intake, TooLarge

pytestmark = pytest.mark.anyio

INTAKE = Intake(lambda: math.inf, lambda: None)
"""It has room for all."""


class Pieces:
    """A `receive` that gives so many bytes one by one, then the end of the connection."""

    def __init__(self, count: int) -> None:
        self.left = count

    async def __call__(self) -> Message:
        self.left -= 1
        if self.left < 0:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"x", "more_body": self.left > 0}


async def test_a_body_that_comes_byte_by_byte_takes_little_more_than_its_bytes() -> None:
    """It is replayed as one message; then what follows it."""
    count = 20_000
    with INTAKE.request() as held:
        body = Body(Pieces(count), count, held)
        tracemalloc.start()
        try:
            assert await body.whole() == b"x" * count
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 5 * count
    assert await body.replay() == {"type": "http.request", "body": b"x" * count, "more_body": False}
    assert (await body.replay())["type"] == "http.disconnect"


async def test_a_body_ends_at_the_limit_or_with_its_client() -> None:
    """A byte too many is the last that is read."""
    pieces = Pieces(10)
    with INTAKE.request() as held, pytest.raises(TooLarge):
        await Body(pieces, 4, held).whole()
    assert pieces.left == 5

    messages: list[Message] = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0)

    with INTAKE.request() as held:
        assert await Body(receive, 4, held).whole() is None

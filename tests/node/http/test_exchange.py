"""The writer of one response: its events come one after the other, and none behind its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framehold.http.exchange import Exchange
from tests.processes import until

pytestmark = pytest.mark.anyio


async def test_what_waits_behind_a_slow_client_is_not_sent_when_the_response_is_closed() -> None:
    """The response may have been passed on to another node, which writes the rest of it."""
    sent, client_reads = list[str](), asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message["type"])
        await client_reads.wait()

    async def receive() -> Any:
        raise AssertionError("nothing reads the body")

    exchange = Exchange({"type": "http", "headers": []}, receive, 1, None, send)
    first = asyncio.create_task(exchange.notify("notifications/message", {"data": "first"}))
    await until(lambda: sent == ["http.response.start"], "the head")
    second = asyncio.create_task(exchange.notify("notifications/message", {"data": "second"}))
    await asyncio.sleep(0)
    exchange.close()
    client_reads.set()
    await asyncio.gather(first, second)
    assert sent == ["http.response.start", "http.response.body"]

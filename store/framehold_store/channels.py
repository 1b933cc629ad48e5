"""Follows a Redis channel: subscribes, and connects again after each lost connection, until its task is cancelled.

A server that has sent nothing for a while gets a PING. Without it, a connection to a server that vanished (machine
lost, network partition) would be kept for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import NoPermissionError

_log = logging.getLogger(__name__)
_BACKOFF = (0.1, 0.5, 1.0, 2.0)
_SILENT_TIMEOUTS = 3
"""Operation time-outs without a message after which the server gets a PING."""


async def follow(
    pool: Callable[[], ConnectionPool],
    channel: str,
    on_message: Callable[[bytes | None], None],
    patience: float,
    on_disconnect: Callable[[], None] = lambda: None,
) -> None:
    """Call `on_message` with each message, and with None when a subscription begins: messages before it were missed.
    Call `on_disconnect` when a subscription is lost or can't be made.

    `pool` is called before each attempt and gives the server to subscribe at. `patience` is the operation time-out in
    seconds. A server that sent nothing for three time-outs gets a PING, and has three more to answer it.
    """
    failures = 0

    def heard(message: bytes | None) -> None:
        nonlocal failures
        failures = 0
        on_message(message)

    while True:
        try:
            if failures:
                await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF)) - 1])
            await _listen(pool(), channel, heard, _SILENT_TIMEOUTS * patience)
        except Exception as error:
            if not failures:
                _warn(channel, error)
            failures += 1
        finally:
            on_disconnect()


async def _listen(pool: ConnectionPool, channel: str, heard: Callable[[bytes | None], None], silence: float) -> None:
    """Subscribe once. Ends by an error when the subscription is lost."""
    pubsub = Redis(connection_pool=pool).pubsub()
    try:
        async with asyncio.timeout(silence):
            await pubsub.subscribe(channel)
        async for message in _messages(pubsub, silence):
            if message["type"] == "subscribe":
                heard(None)
            elif message["type"] == "message":
                heard(message["data"])
    finally:
        await _abandon(pubsub)


async def _messages(pubsub: Any, silence: float) -> AsyncIterator[dict[str, Any]]:
    # redis-py would connect to the same server again by itself; `pool` may name another one.
    while pubsub.connection.is_connected:
        message = await pubsub.get_message(timeout=silence)
        if message is None:
            await pubsub.ping()
            message = await pubsub.get_message(timeout=silence)
        if message is None:
            raise TimeoutError("it doesn't answer")
        yield message
    raise ConnectionError("its connection was closed")


def _warn(channel: str, error: Exception) -> None:
    if isinstance(error, NoPermissionError):
        _log.error("channel %s can't be heard (%s): give the store's user what docs/operating.md lists", channel, error)
    else:
        _log.warning("channel %s lost the store (%s); its messages meanwhile are missed", channel, error)


async def _abandon(pubsub: Any) -> None:
    try:
        if pubsub.connection is not None:
            # Without waiting for the server: closing the store may cancel this task.
            await pubsub.connection.disconnect(nowait=True)
        await pubsub.aclose()
    except Exception as error:
        _log.debug("closing a subscription failed (%r); it is abandoned", error)

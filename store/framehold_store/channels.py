"""Follows a Redis channel for as long as its task runs, over whatever connections that takes.

A server that was silent for a while is asked whether it is there: one that vanished without a word (its machine lost, a
partition) would otherwise be listened to for ever.
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
_SILENCE = 3


async def follow(
    pool: Callable[[], ConnectionPool],
    channel: str,
    hear: Callable[[bytes | None], None],
    patience: float,
    deaf: Callable[[], None] = lambda: None,
) -> None:
    """Call `hear` with each message, and with None for each subscription: what was said before it was missed. Call
    `deaf` when a subscription is lost, or can't be had.

    `pool` says where to listen, each time anew. `patience` is the operation time-out in seconds; a server that was
    silent for three of them is asked, and has as long to answer.
    """
    failures, silence = 0, _SILENCE * patience
    while True:
        pubsub = Redis(connection_pool=pool()).pubsub()
        try:
            async with asyncio.timeout(silence):
                await pubsub.subscribe(channel)
            async for message in _messages(pubsub, silence):
                failures = 0
                if message["type"] == "subscribe":
                    hear(None)
                elif message["type"] == "message":
                    hear(message["data"])
        except Exception as error:
            if not failures:
                _warn(channel, error)
        finally:
            deaf()
            await _abandon(pubsub)
        await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
        failures += 1


async def _messages(pubsub: Any, silence: float) -> AsyncIterator[dict[str, Any]]:
    # redis-py would connect again by itself, to the same server: `pool` may know a better one.
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
        _log.error("channel %s can't be heard (%s): give the store's user what docs/fleet.md lists", channel, error)
    else:
        _log.warning("channel %s lost the store (%s); what is said there meanwhile is missed", channel, error)


async def _abandon(pubsub: Any) -> None:
    try:
        if pubsub.connection is not None:
            # At once: whoever closes the store doesn't wait for a goodbye, and may cut this off.
            await pubsub.connection.disconnect(nowait=True)
        await pubsub.aclose()
    except Exception as error:
        _log.debug("closing a subscription failed (%r); it is abandoned", error)

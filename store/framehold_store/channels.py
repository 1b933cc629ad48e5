"""Follows a Redis channel for as long as its task runs, over whatever connections that takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from redis.asyncio import ConnectionPool, Redis

_log = logging.getLogger(__name__)
_BACKOFF = (0.1, 0.5, 1.0, 2.0)


async def follow(pool: ConnectionPool, channel: str, hear: Callable[[bytes | None], None]) -> None:
    """Call `hear` with each message, and with None for each subscription: what was said before it was missed."""
    failures = 0
    while True:
        pubsub = Redis(connection_pool=pool).pubsub()
        try:
            await pubsub.subscribe(channel)
            async for message in pubsub.listen():
                failures = 0
                if message["type"] == "subscribe":
                    hear(None)
                elif message["type"] == "message":
                    hear(message["data"])
        except Exception as error:
            if not failures:
                _log.warning("channel %s lost the store (%s); what is said there meanwhile is missed", channel, error)
        finally:
            await _abandon(pubsub)
        await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
        failures += 1


async def _abandon(pubsub: Any) -> None:
    try:
        await pubsub.aclose()
    except Exception as error:
        _log.debug("closing a subscription failed (%r); it is abandoned", error)

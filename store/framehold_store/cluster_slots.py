"""The slot map of a Redis Cluster: which server holds which slot, as this process last learned it.

The law: the map is a hint. A wrong entry costs a redirection, never a request, because the cluster itself says which
server holds a key. The map is read from the first server that answers: the primaries in the map are asked first, then
the servers of the URL. It is never read twice at the same time.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Any

from redis.asyncio import Connection

from framehold_core.errors import StoreUnavailable

from .address import Place
from .config import StoreConfig
from .connections import open_pool

_log = logging.getLogger(__name__)
_READ_PAUSE = 0.1
"""Seconds between two readings of the map."""


class SlotMap:
    """The slot map of the cluster that `config` names. `changed` is called after each successful reading."""

    def __init__(self, config: StoreConfig, changed: Callable[[], None]) -> None:
        assert config.address is not None
        self._seeds = config.address.places
        self._config = config
        self._changed = changed
        self._slots: dict[int, Place] = {}
        self._wanted = False
        self._readings = 0
        self._reading: asyncio.Task[None] | None = None
        self._read_once = asyncio.Event()
        self._failing = False
        self.places: frozenset[Place] = frozenset(self._seeds)
        """The servers that hold slots; before the first reading, the servers of the URL."""

    def place(self, slot: int) -> Place:
        """The server that holds a slot; any server of the URL while the map doesn't say."""
        found = self._slots.get(slot)
        if found is None:
            self.refresh()
            return self._seeds[slot % len(self._seeds)]
        return found

    def move(self, slot: int, place: Place) -> None:
        """Record that a server has redirected a request for `slot` to `place`, and read the map again soon: other slots
        may have moved too."""
        self._slots[slot] = place
        self.places |= {place}
        self.refresh()

    def refresh(self) -> None:
        """Start to read the map; a reading under way is followed by another."""
        self._wanted = True
        if self._reading is None or self._reading.done():
            # In an empty context: the map is read for all requests.
            loop, empty = asyncio.get_running_loop(), contextvars.Context()
            self._reading = loop.create_task(self._read(), name="framehold slot map", context=empty)

    async def known(self) -> frozenset[Place]:
        """Wait until the map was read once, and return the servers that hold slots.

        Raises:
            StoreUnavailable: no server gave the map within the operation time-out.
        """
        if not self._read_once.is_set():
            self.refresh()
            try:
                await asyncio.wait_for(self._read_once.wait(), self._config.op_timeout)
            except TimeoutError:
                raise StoreUnavailable(
                    "no server of the cluster says who holds its slots; look for the cluster, and try again"
                ) from None
        return self.places

    async def close(self) -> None:
        task, self._reading = self._reading, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _read(self) -> None:
        while self._wanted:
            self._wanted = False
            for place in self._order():
                try:
                    self._slots = await self._ask(place)
                except Exception as error:
                    self._failed(error)
                    continue
                self.places = frozenset(self._slots.values())
                self._failing = False
                self._read_once.set()
                self._changed()
                break
            await asyncio.sleep(_READ_PAUSE)

    def _order(self) -> list[Place]:
        """All servers, in the order in which they are asked. Each reading begins with the next one: a server may know
        an old map only, and its next reply would be that again."""
        places = sorted(self.places)
        first = self._readings % len(places)
        self._readings += 1
        return [*places[first:], *places[:first], *self._seeds]

    def _failed(self, error: Exception) -> None:
        if not self._failing:
            _log.warning(
                "store %s: a server doesn't say who holds the slots (%s: %s); others are asked, the old map is used",
                self._config.target,
                type(error).__name__,
                error,
            )
        self._failing = True

    async def _ask(self, place: Place) -> dict[int, Place]:
        """The map as the server at `place` knows it. A server that leaves out its own host is reached at the host of
        `place`."""
        # redis-py decorates it without types
        connection: Connection = open_pool(self._config, place).make_connection()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(self._config.op_timeout):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("CLUSTER", "SLOTS", check_health=False)
                ranges: list[Any] = await connection.read_response()
        finally:
            # Not by the pool: it closes connections in tasks, and a cancellation can end a task before it has begun.
            await connection.disconnect(nowait=True)
        slots: dict[int, Place] = {}
        for first, last, (host, port, *_), *_ in ranges:
            at = ((host or b"").decode() or place[0], int(port))
            slots.update(dict.fromkeys(range(int(first), int(last) + 1), at))
        if not slots:
            raise ValueError("it knows of no slots")
        return slots

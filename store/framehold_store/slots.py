"""Who holds which slot of a Redis Cluster, as far as anyone has told us.

The law: the map is a hint that is always there. A wrong one costs a redirection, never a request: the cluster itself
says who holds a key. It is read from any server that answers - the primaries that it names, then those of the URL -
and never twice at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from redis.asyncio import Connection

from framehold_core.errors import StoreUnavailable

from .address import Place
from .config import StoreConfig
from .connections import open_pool

_log = logging.getLogger(__name__)
_REST = 0.1
"""Seconds between two readings of the map."""


class SlotMap:
    """`config` names a cluster. `changed` is called after each reading."""

    def __init__(self, config: StoreConfig, changed: Callable[[], None]) -> None:
        assert config.address is not None
        self._seeds = config.address.places
        self._config = config
        self._changed = changed
        self._slots: dict[int, Place] = {}
        self._wanted = False
        self._reading: asyncio.Task[None] | None = None
        self._read_once = asyncio.Event()
        self._failing = False
        self.places: frozenset[Place] = frozenset(self._seeds)
        """The servers that hold slots; before the first reading, those of the URL."""

    def place(self, slot: int) -> Place:
        """Where a slot is."""
        found = self._slots.get(slot)
        if found is None:
            self.refresh()
            return self._seeds[slot % len(self._seeds)]
        return found

    def move(self, slot: int, place: Place) -> None:
        """A server says that the slot is at `place`: others may have moved with it."""
        self._slots[slot] = place
        self.places |= {place}
        self.refresh()

    def refresh(self) -> None:
        """Read the map soon."""
        self._wanted = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="framehold slot map")

    async def known(self) -> frozenset[Place]:
        """The servers that hold slots, after the first reading.

        Raises:
            StoreUnavailable: nobody said within the operation time-out.
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
            for place in [*sorted(self.places), *self._seeds]:
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
            await asyncio.sleep(_REST)

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
        """The map as one server knows it; a server that doesn't know its own address leaves it out."""
        # redis-py decorates it without types
        connection: Connection = open_pool(self._config, place).make_connection()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(self._config.op_timeout):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("CLUSTER", "SLOTS", check_health=False)
                told: list[Any] = await connection.read_response()
        finally:
            # At once: a pool closes what it has in tasks, which a cancellation can end before they have begun.
            await connection.disconnect(nowait=True)
        slots: dict[int, Place] = {}
        for first, last, (host, port, *_), *_ in told:
            at = ((host or b"").decode() or place[0], int(port))
            slots.update(dict.fromkeys(range(int(first), int(last) + 1), at))
        if not slots:
            raise ValueError("it knows of no slots")
        return slots

"""The servers of a Redis Cluster: a lane for each primary, and the map that says who holds a slot.

The law: at most one item of a key is in flight; a later item of the key waits until the first is settled. So when an
item is sent again to another server, no other item of its key can overtake it:

    1  submit finds no item of the key in flight, and sends the item to the primary that the map names (before there is
       a map, to a server of the URL, which redirects it)
    2  a second item of the key is held back, however many lanes are idle
    3  the reply is a redirection: the first item was not applied.
       MOVED: the new place of the slot is noted, the item is sent there, and the whole map is read again meanwhile.
       ASK: the slot is moving, and this key has moved already: ASKING and the item are sent to the new server.
       TRYAGAIN (one key of the call has moved, the other has not) and CLUSTERDOWN: the item is sent again a moment
       later
    4  the reply to the first item, or its deadline, settles it; then the second is sent, by the map as it is then

When a primary can't be reached, the map is read again too. If a replica has taken over its slots, the items that wait
for the primary are sent to that replica.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

from redis.asyncio import ConnectionPool
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, ResponseError, TryAgainError

from framehold_core.errors import StoreUnavailable

from .address import Place, named
from .batch import BatchLane, Item, pack
from .cluster_slots import SlotMap
from .config import StoreConfig
from .connections import open_pool
from .link import StoreLink

_log = logging.getLogger(__name__)
_ASKING = pack(("ASKING",))
_PAUSES = (0.0, 0.01, 0.02, 0.05)
_SETTLING = (AskError, TryAgainError, ClusterDownError)


class _Recalled(ClusterDownError):
    """Settles an item that is taken out of a lane because the server of the lane has left the cluster."""


class Cluster:
    """The servers of a Redis Cluster.

    Raises:
        ConfigError: redis-py can't use the URL.
    """

    accepts_multi_key_commands = False

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._held: dict[str, deque[Item] | None] = {}
        self._holding = 0
        self._pausing: dict[Item, asyncio.TimerHandle] = {}
        self._lanes: dict[Place, tuple[BatchLane, ConnectionPool]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._closed = False
        self._map = SlotMap(config, self._remapped)
        open_pool(config)

    def submit(self, item: Item) -> None:
        if self._closed:
            item.settle(StoreUnavailable(f"the store is closed; {item.what} was not sent"))
            return
        if not item.deadline:
            item.deadline = asyncio.get_running_loop().time() + self._config.op_timeout
        if item.key not in self._held:
            self._held[item.key] = None
            self._send(item, 0)
        elif self._holding < self._config.max_queue:
            waiting = self._held[item.key]
            if waiting is None:
                waiting = self._held[item.key] = deque()
            waiting.append(item)
            self._holding += 1
        else:
            item.settle(
                StoreUnavailable(
                    f"{self._holding} requests wait for others of their calls already (max_queue); {item.what} was not "
                    "sent; try again later, or look why the store is slow"
                )
            )

    def _send(self, item: Item, tries: int, ask: Place | None = None) -> None:
        """Send an item of which no other of its key is in flight. `tries` counts the redirections before; `ask` is the
        server that an ASK named."""
        self._pausing.pop(item, None)
        if self._closed:
            self._settle(item, StoreUnavailable(f"the store was closed; {item.what} was not sent"))
            return
        place = ask or self._map.place(key_slot(item.key.encode()))
        lane = self._lane(place)

        def on_reply(raw: Any) -> None:
            # A recalled item may have been sent and applied; a redirected item was not applied.
            item.tries = again.tries if isinstance(raw, _Recalled) else 0
            if isinstance(raw, _SETTLING) and not self._closed:
                self._redirect(item, tries, place, raw)
            else:
                self._settle(item, raw)

        again = Item(item.packed, item.key, item.what, on_reply)
        again.deadline, again.tries = item.deadline, item.tries
        if ask is not None:
            asking = Item(_ASKING, item.key, "asking", lambda _: None)
            asking.deadline = item.deadline
            lane.submit(asking)
        lane.submit(again)

    def _redirect(self, item: Item, tries: int, place: Place, raw: ResponseError) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= item.deadline:
            applied = "may or may not have been applied" if item.tries else "was not applied"
            why = f"the cluster did not settle where a key is within {self._config.op_timeout:g} s ({raw})"
            self._settle(item, StoreUnavailable(f"{why}; {item.what} {applied}; it is safe to try again"))
            return
        ask = None
        pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
        if isinstance(raw, MovedError):
            self._map.move(raw.slot_id, (raw.host or place[0], raw.port))
        elif isinstance(raw, AskError):
            ask = (raw.host or place[0], raw.port)
        else:
            self._map.refresh()
            pause = max(pause, _PAUSES[1])
        if pause:
            self._pausing[item] = loop.call_later(pause, self._send, item, tries + 1, ask)
        else:
            self._send(item, tries + 1, ask)

    def _settle(self, item: Item, raw: Any) -> None:
        waiting = self._held[item.key]
        if waiting:
            self._holding -= 1
            # On the next turn of the loop: many waiting items that all fail at once would recurse too deeply.
            asyncio.get_running_loop().call_soon(self._send, waiting.popleft(), 0)
        else:
            del self._held[item.key]
        item.settle(raw)

    def _lane(self, place: Place) -> BatchLane:
        return self._lane_and_pool(place)[0]

    def _lane_and_pool(self, place: Place) -> tuple[BatchLane, ConnectionPool]:
        found = self._lanes.get(place)
        if found is None:
            config = self._config
            pool = open_pool(config, place)
            link = StoreLink(pool, f"{config.scheme}://{named(place)}", config, self._map.refresh)
            found = self._lanes[place] = BatchLane(link, config.op_timeout, config.max_queue), pool
        return found

    def _remapped(self) -> None:
        """The map was read: close the lanes of servers that hold no slot any more, and send their waiting items to the
        servers that the map names."""
        gone = [] if self._closed else [place for place in self._lanes if place not in self._map.places]
        for place in gone:
            lane, pool = self._lanes[place]
            for item in lane.recall():
                item.settle(_Recalled("its server holds no slots any more"))
            if lane.idle:
                del self._lanes[place]
                task = asyncio.get_running_loop().create_task(_leave(lane, pool), name="framehold leaves a server")
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    def pool(self) -> ConnectionPool:
        """The connections of one primary, of another one at each call: a message that is published at any server of a
        cluster reaches the subscribers at all of them."""
        places = sorted(self._map.places)
        self._turn += 1
        return self._lane_and_pool(places[self._turn % len(places)])[1]

    async def primaries(self) -> Sequence[str]:
        return [named(place) for place in sorted(await self._map.known())]

    def submit_to(self, primary: str, item: Item) -> None:
        for place in self._map.places:
            if named(place) == primary:
                self._lane(place).submit(item)
                return
        item.settle(StoreUnavailable(f"{primary} holds no slots any more; {item.what} was not sent; try again"))

    async def close(self) -> None:
        self._closed = True
        left = [*self._pausing, *(item for waiting in self._held.values() if waiting for item in waiting)]
        for handle in self._pausing.values():
            handle.cancel()
        self._held = dict.fromkeys(self._held)
        self._pausing.clear()
        self._holding = 0
        try:
            leaving = (_leave(lane, pool) for lane, pool in self._lanes.values())
            await asyncio.gather(*leaving, *self._leaving, self._map.close())
        finally:
            for item in left:
                item.settle(StoreUnavailable(f"the store was closed; {item.what} may or may not have been applied"))


async def _leave(lane: BatchLane, pool: ConnectionPool) -> None:
    try:
        try:
            await lane.close()
        finally:
            await pool.aclose()
    except Exception as error:
        _log.debug("leaving a server failed (%r); its connections are abandoned", error)

"""The routers of a fleet: each makes itself known in a stream of the store, and reads there of the others.

The law: it informs, and no request depends on it. An entry counts if a process with a key of the fleet has sealed it
for this namespace, and if it is later than the last one of that router: so nobody without a key adds a router, or
brings one back. A goodbye is the last entry of its process, whatever their times are. An entry that is ahead of time,
as the first one of a router may be that has not measured the store's clock yet, gives way to the next in the stream.

    1. each router writes an entry every BEAT seconds, and one that says so when it ends
    2. a router is lost when another one has written MISSED entries since its last one, which was no goodbye
    3. the store takes no entries: nobody counts any, and so nobody is lost by that
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Callable

from framehold_core.errors import StoreUnavailable
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.event_writer import LAST
from framehold_fleet.models.routers import RouterEntry, RouterView
from framehold_store.base import Store

from .event_reader import EventReader

_log = logging.getLogger(__name__)

BEAT = 5.0
"""Seconds between two entries of a router."""
MISSED = 4
"""Entries that this router has written since the last one of another, which is lost then."""
SHOWN = 3600.0
"""Seconds for which a lost router is shown."""
MAX_ROUTERS = 200


class Routers:
    """The routers of one namespace, as the router `name` of this `version` and `boot` sees them. `wall` gives seconds
    since 1970 on the store's clock, `descriptors` how many this process has open, and may have. Belongs to one event
    loop."""

    def __init__(
        self,
        store: Store,
        trust: Trust,
        namespace: str,
        me: tuple[str, str, str],
        wall: Callable[[], float],
        descriptors: Callable[[], tuple[int | None, int | None]] = lambda: (None, None),
    ) -> None:
        self._store, self._keys, self._namespace = store, trust.lease_keys, namespace
        self._wall, self._descriptors = wall, descriptors
        self._me = dict(zip(("name", "boot", "version"), me, strict=True))
        self._own = deque[float](maxlen=MISSED)
        self._known = OrderedDict[str, RouterEntry]()
        self._reader = EventReader(store, RouterEntry, "routers")

    async def run(self) -> None:
        """Write and read until cancelled; then say goodbye, if the store takes it at once."""
        try:
            while True:
                try:
                    await self.beat()
                except StoreUnavailable:
                    # What the store's silence means is told by all that read it.
                    pass
                except Exception:
                    # Without this the task would end, and the other routers would call this one lost.
                    _log.exception("a bug in telling of this router; it is told of again with the next entry")
                await asyncio.sleep(BEAT)
        finally:
            with contextlib.suppress(TimeoutError, StoreUnavailable):
                async with asyncio.timeout(LAST):
                    await self._write(left=True)

    async def beat(self) -> None:
        """Write an entry, and read what is new.

        Raises:
            StoreUnavailable: the store did not take it, or did not answer.
        """
        await self._write()
        async for entry in self._reader.fresh():
            self._take(entry)

    def seen(self) -> list[RouterView]:
        """The routers that live, and those that were lost within the last hour, in order of their names."""
        since = self._wall() - SHOWN
        lost_before = self._own[0] if len(self._own) == MISSED else 0.0
        return [
            RouterView(
                name=name,
                boot=one.boot,
                version=one.version,
                state="lost" if one.at < lost_before else "live",
                heard=one.at,
                answers=(one.name, one.boot) == (self._me["name"], self._me["boot"]),
                descriptors=one.descriptors,
                descriptors_limit=one.descriptors_limit,
            )
            for name, one in sorted(self._known.items())
            if not one.left and one.at > since
        ]

    async def _write(self, left: bool = False) -> None:
        open_now = dict(zip(("descriptors", "descriptors_limit"), self._descriptors(), strict=True))
        entry = RouterEntry.model_validate({**self._me, **open_now, "at": self._wall(), "left": left})
        sealed = entry.model_copy(update={"seal": self._seal(self._keys[0], entry)})
        await self._store.append_events([sealed.model_dump_json().encode()], "routers")
        self._own.append(entry.at)

    def _take(self, entry: RouterEntry) -> None:
        known, shown = self._known.get(entry.name), entry.seal.encode()
        if known is not None and not self._follows(entry, known):
            return
        if any(hmac.compare_digest(shown, self._seal(key, entry).encode()) for key in self._keys):
            self._known[entry.name] = entry
            self._known.move_to_end(entry.name)
            if len(self._known) > MAX_ROUTERS:
                self._known.popitem(last=False)

    def _follows(self, entry: RouterEntry, known: RouterEntry) -> bool:
        """Whether an entry takes the place of the one that is known of its router."""
        if entry.boot == known.boot and (entry.left or known.left):
            return entry.left
        return entry.at > known.at or known.at > self._wall()

    def _seal(self, key: bytes, entry: RouterEntry) -> str:
        said = ["router 1", self._namespace, *entry.model_dump(exclude={"seal"}).values()]
        return hmac.new(key, json.dumps(said).encode(), "sha256").hexdigest()[:32]

"""Keeps the code of handlers in the store, and loads the code of calls that began with other code (docs/protocol.md,
rule 28).

The store is written once per code and process, again before the code's time there is half over, and again after the
store has lost what it had: no call costs a write. A store that is away or full stops no call: then its code may be
missing when it is needed, and the present code is tried in its place.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from framehold_core.errors import SealError, StoreUnavailable
from framehold_store.base import Store
from framehold_store.seal import Sealer

from .codes import LoadedCode, NotKept, NotLoaded, Registered, read, rebound, too_large

logger = logging.getLogger(__name__)

MAX_REBOUND = 3
"""Names that are named for one handler."""
MAX_LOADED = 32
"""Codes of other releases that a process keeps loaded. A frame keeps its own code anyway."""
RETRY_SECONDS = 5.0
"""Seconds after a failed write in which parking calls do not wait for another one."""
_NOT_KEPT = (
    "the code of %r is not kept: %s; a call of it that loses its node is carried on by the code that the next node has"
)
_REBOUND = (
    "the code of %r keeps state in names: %s; after a deploy that changes this code, its waiting calls have a state of "
    "their own; keep it in an object, or in a store"
)
_UNSTORED = "the code of %r could not be stored now, and is again with a later call: %s"
_NOT_LOADED = (
    "a call of %r began with the code %s, which can't be used here: %s; the present code is tried, and stops if it "
    "does something else than was recorded"
)


class Handler(Protocol):
    """What the keeper needs of a handler: its name for log lines, the digest of its code, and the code itself."""

    @property
    def tool(self) -> str: ...
    @property
    def code(self) -> str: ...

    def written(self) -> bytes:
        """Its code as bytes. Raises NotKept; OSError: its source can't be read now."""

    def enter_kept(self, digest: str, kept: LoadedCode, data: bytes) -> None:
        """Have kept code entered in place of the present code. Raises NotLoaded."""


class CodeKeeper:
    """Where the code of handlers is kept (docs/protocol.md, rule 28). This one keeps nothing: the store is that of the
    process alone, or the settings say so."""

    def is_due(self, code: str, lifetime: float) -> bool:
        """Whether the store must be written before a call of this code may park, whose record lives for `lifetime`
        seconds."""
        return False

    async def keep(self, handler: Handler, lifetime: float) -> None:
        """Have the store keep a handler's code for at least `lifetime` seconds. Returns when it does, or can't."""

    def lost(self) -> None:
        """The store has lost what it had: what was kept must be kept again."""

    async def load(self, handler: Handler, code: str) -> bool:
        """Have `handler` enter the kept code of this digest. Returns whether it will; if not, it enters the present
        code.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        return False

    async def find(self, code: str) -> Registered | None:
        """The kept code of this digest; None if it can't be had or loaded here.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        return None


class Loaded(NamedTuple):
    """Kept code in this process, and the bytes that it was loaded from."""

    kept: LoadedCode
    data: bytes


class Keeper(CodeKeeper):
    """The kept code of one node. `limit` is how many bytes one code may have, `clock` gives seconds."""

    def __init__(self, store: Store, sealer: Sealer, limit: int, clock: Callable[[], float]) -> None:
        self._store, self._sealer, self._limit, self._clock = store, sealer, limit, clock
        self._until: dict[str, float] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._fetching: dict[str, asyncio.Task[Loaded]] = {}
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()

    def is_due(self, code: str, lifetime: float) -> bool:
        """See `CodeKeeper.is_due`."""
        return bool(code) and self._until.get(code, 0.0) < self._clock() + lifetime

    async def keep(self, handler: Handler, lifetime: float) -> None:
        """See `CodeKeeper.keep`. Calls of one code that park at once wait for one write."""
        code = handler.code
        writing = self._writing.get(code)
        if writing is None:
            writing = self._writing[code] = asyncio.ensure_future(self._keep(handler, code, lifetime))
            writing.add_done_callback(lambda _: self._writing.pop(code, None))
        await asyncio.shield(writing)

    def lost(self) -> None:
        """See `CodeKeeper.lost`. What can't be kept is not tried again."""
        self._until = {code: until if until == math.inf else 0.0 for code, until in self._until.items()}

    async def _keep(self, handler: Handler, code: str, lifetime: float) -> None:
        try:
            data = handler.written()
            if excess := too_large(len(data), self._limit):
                raise NotKept(excess)
        except NotKept as error:
            self._until[code] = math.inf
            logger.warning(_NOT_KEPT, handler.tool, error)
            return
        except OSError as error:
            # Its source can't be read: the process is out of descriptors, say. Later it may be.
            self._until[code] = self._clock() + lifetime + RETRY_SECONDS
            logger.warning(_NOT_KEPT, handler.tool, error)
            return
        sealed = self._sealer.seal("code", data, call=code, n=0, kind="code", key="")
        try:
            await self._store.keep_code(code, sealed, 2 * lifetime)
        except StoreUnavailable as error:
            self._until[code] = self._clock() + lifetime + RETRY_SECONDS
            logger.warning(_UNSTORED, handler.tool, error)
            return
        is_first = code not in self._until
        self._until[code] = self._clock() + 2 * lifetime
        if is_first and (found := rebound(data)):
            logger.warning(_REBOUND, handler.tool, "; ".join(found[:MAX_REBOUND]))

    async def load(self, handler: Handler, code: str) -> bool:
        """See `CodeKeeper.load`."""
        try:
            handler.enter_kept(code, *await self._fetched(code))
        except (NotLoaded, SealError) as error:
            logger.warning(_NOT_LOADED, handler.tool, code[:8], error)
            return False
        return True

    async def find(self, code: str) -> Registered | None:
        """See `CodeKeeper.find`."""
        try:
            return (await self._fetched(code)).kept.handler
        except (NotLoaded, SealError):
            return None

    async def _fetched(self, code: str) -> Loaded:
        if (known := self._loaded.get(code)) is not None:
            self._loaded.move_to_end(code)
            return known
        fetching = self._fetching.get(code)
        if fetching is None:
            # All calls of a code are retried at once after a deploy; it is loaded once.
            fetching = self._fetching[code] = asyncio.ensure_future(self._fetch(code))
            fetching.add_done_callback(lambda _: self._fetching.pop(code, None))
        return await asyncio.shield(fetching)

    async def _fetch(self, code: str) -> Loaded:
        try:
            sealed = await self._store.code(code)
        except ValueError:
            raise NotLoaded("its name is no digest of this release") from None
        if sealed is None:
            raise NotLoaded("the store does not have it")
        data = self._sealer.open("code", sealed, call=code, n=0, kind="code", key="")
        loaded = self._loaded[code] = Loaded(read(data), data)
        if len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)
        return loaded

"""How long the runtime of an attached server is open in this process.

A user of the runtime is a service (an app, or `framehold stdio`), or one connection over another transport: the SDK
enters the server's lifespan for each.

    1. the first user takes a node id and opens the runtime; later users share it
    2. the last user leaves: the runtime is closed, inside the author's lifespan, so that handlers that are cancelled
       still find what it opened
    3. the last user is a connection, the author gave no lifespan, and calls are held: the runtime stays open. It is
       closed when no call is left, or when the event loop ends
    4. the next user after a close opens the runtime again, in this or another event loop
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import anyio

from framehold_core.ids import NodeId

from ..engine.runtime import Runtime
from ..frame.contained import contain, release
from ..sdk.unawaited import unawaited
from ..telemetry import tracing
from . import node_names

LOOK = 1.0
"""Seconds between two looks at a runtime without users, whether a call is left."""


class Lifetime:
    """Opens and closes `runtime`. `begin` is called each time when it has been opened."""

    def __init__(self, runtime: Runtime, begin: Callable[[], None]) -> None:
        self._runtime, self._begin = runtime, begin
        self.is_open = False
        self.node: NodeId | None = None
        """The node id while there is a user."""
        self._names = self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self._reports = contextlib.ExitStack()

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Have a node id. It is taken before the author's lifespan begins: that may start further servers.

        Raises:
            ConfigError: this process has a server of the same id, and another id can't be made from it.
        """
        if self.node is None:
            self.node = node_names.take(self._runtime.settings)
            self._runtime.rename(self.node)
        self._names += 1
        try:
            yield
        finally:
            self._names -= 1
            self._give_name_back()

    @contextlib.asynccontextmanager
    async def use(self, stays: bool) -> AsyncIterator[None]:
        """Have the runtime open. `stays`: whether it may stay open after this user, for the calls that it holds then.

        Raises:
            NodeNameTaken: another process has this node's id; nothing was started.
            RuntimeError: the runtime was left open in an event loop that was closed without cancelling its tasks.
        """
        if self._is_elsewhere():
            yield
            return
        self._users += 1
        try:
            async with self._turn:
                await self._open()
                if stays and self._keeper is None:
                    self._keeper = asyncio.create_task(self._keep(), name="framehold-keeper")
            yield
        finally:
            self._users -= 1
            if not (self._users or (stays and self._is_kept())):
                # A connection may end by the cancellation of its scope, which would cancel each await in here.
                with anyio.CancelScope(shield=True):
                    await self._close()

    def _is_elsewhere(self) -> bool:
        """Whether the runtime is open in another event loop, which still exists. This loop shares it, and does not
        close it."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and self.is_open:
                if self._loop.is_closed():
                    raise RuntimeError(
                        "this server still holds calls of an event loop that was closed, and whose tasks were not "
                        "cancelled; nothing was started; run each event loop by asyncio.run or asyncio.Runner"
                    )
                return True
            self._loop, self._turn, self._keeper = loop, asyncio.Lock(), None
        return False

    async def _open(self) -> None:
        if self.is_open:
            return
        try:
            await self._runtime.open()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._runtime.close()
            raise
        self.is_open = True
        contain(asyncio.get_running_loop())
        self._reports.enter_context(unawaited.reported())
        self._begin()

    async def _close(self) -> None:
        async with self._turn:
            if self._users or not self.is_open:
                return
            keeper, self._keeper = self._keeper, None
            if keeper is not None and keeper is not asyncio.current_task():
                keeper.cancel()
                await asyncio.wait((keeper,))
            try:
                await self._runtime.close()
                await tracing.flush()
            finally:
                self._reports.close()
            release(asyncio.get_running_loop())
            self.is_open = False
        self._give_name_back()

    def _is_kept(self) -> bool:
        """Whether the runtime, without a user, is left to its keeper."""
        return self._keeper is not None and not self._keeper.done() and len(self._runtime.table) > 0

    async def _keep(self) -> None:
        """Close the runtime when it has no user and holds no call, or when the end of the event loop cancels this
        task."""
        try:
            while True:
                await asyncio.sleep(LOOK)
                if not (self._users or len(self._runtime.table)):
                    break
        except asyncio.CancelledError:
            if self._keeper is None:
                # `_close` waits for this task, and closes the runtime itself.
                raise
        if not self._users:
            await self._close()

    def _give_name_back(self) -> None:
        if self.node is not None and not self._names and not self.is_open:
            node_names.give_back(self._runtime.settings, self.node)
            self.node = None

"""Shares the places of a node's `subscriptions/listen` streams among its users.

The SDK refuses a stream when all places are taken, whoever has them. Here the oldest stream of the user with the most
streams ends for the new one, as the SDK ends streams: its client listens again. Where nobody is authenticated, all are
one user.

Private parts of the SDK are touched here; a test names the release: `ListenHandler._max_subscriptions`, and `_bus`,
whose events are published to the other nodes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.request_state import authenticated_principal
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ListenHandler
from mcp_types import SubscriptionsListenResult

from ..sdk.session import Ctx

LISTEN = "subscriptions/listen"
_SPARE = 16
"""One part in so many of the SDK's places stays free for streams that are about to end."""


class Listeners:
    """Serves `subscriptions/listen` by the SDK's handler, up to nearly as many streams as that takes."""

    def __init__(self, handler: ListenHandler) -> None:
        self.handler = handler
        self._most = handler._max_subscriptions - handler._max_subscriptions // _SPARE
        self._open: defaultdict[str, dict[anyio.CancelScope, None]] = defaultdict(dict)

    async def __call__(self, ctx: Ctx, params: Any) -> SubscriptionsListenResult:
        """Serve one stream until its client, the server or a new stream ends it."""
        user = authenticated_principal(ctx) or ""
        if sum(map(len, self._open.values())) >= self._most:
            self._end_oldest()
        with anyio.CancelScope() as scope:
            self._open[user][scope] = None
            try:
                return await self.handler(ctx, params)
            finally:
                self._forget(user, scope)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        return SubscriptionsListenResult(_meta=meta)

    def close(self) -> None:
        """End every stream."""
        self.handler.close()

    def _end_oldest(self) -> None:
        user = max(self._open, key=lambda name: len(self._open[name]))
        scope = next(iter(self._open[user]))
        self._forget(user, scope)
        scope.cancel()

    def _forget(self, user: str, scope: anyio.CancelScope) -> None:
        if user in self._open:
            self._open[user].pop(scope, None)
            if not self._open[user]:
                del self._open[user]


def share_listeners(server: Server[Any]) -> None:
    """Have `server` share the places of its streams. A handler of the author's stays as it is."""
    entry = server.get_request_handler(LISTEN)
    if entry is not None and type(entry.handler) is ListenHandler:
        server.add_request_handler(LISTEN, entry.params_type, Listeners(entry.handler))


def end_streams(server: Server[Any]) -> None:
    """End every `subscriptions/listen` stream of this process. Each stream sends the events that it still has, and then
    its end, so that its client listens again on another node."""
    entry = server.get_request_handler(LISTEN)
    if entry is not None and isinstance(entry.handler, Listeners | ListenHandler):
        entry.handler.close()


def bus_of(server: Server[Any]) -> Any:
    """The bus whose events the server's streams send; None if the author's handler has none that is known."""
    entry = server.get_request_handler(LISTEN)
    handler = None if entry is None else entry.handler
    return getattr(handler.handler if isinstance(handler, Listeners) else handler, "_bus", None)

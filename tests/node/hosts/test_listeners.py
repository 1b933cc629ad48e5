"""The places of a node's streams of events: no user keeps others out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import SubscriptionFilter, SubscriptionsListenRequestParams, SubscriptionsListenResult

from framehold.hosts import listeners
from framehold.hosts.listeners import Listeners
from framehold.sdk.session import Ctx

pytestmark = pytest.mark.anyio
PARAMS = SubscriptionsListenRequestParams(notifications=SubscriptionFilter(tools_list_changed=True))


class Crowd:
    """Streams of users at a handler with 16 places, one of which stays free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handler = ListenHandler(InMemorySubscriptionBus(), max_subscriptions=16)
        self.listeners = Listeners(self.handler)
        monkeypatch.setattr(listeners, "authenticated_principal", lambda ctx: ctx.principal)
        self.open: list[tuple[str, asyncio.Task[SubscriptionsListenResult]]] = []

    async def listen(self, user: str | None) -> asyncio.Task[SubscriptionsListenResult]:
        begun = asyncio.Event()

        async def sent(*_: Any, **__: Any) -> None:
            begun.set()

        session = SimpleNamespace(send_notification=sent)
        ctx = SimpleNamespace(principal=user, request_id=f"{user}-{len(self.open)}", session=session)
        task = asyncio.create_task(self.listeners(cast(Ctx, ctx), PARAMS))
        self.open.append((user or "", task))
        await begun.wait()
        return task

    def alive(self) -> list[str]:
        return [user for user, task in self.open if not task.done()]


async def test_the_user_with_the_most_streams_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an end as the SDK sends it, so that its client listens again."""
    crowd = Crowd(monkeypatch)
    first = await crowd.listen("ann")
    for _ in range(13):
        await crowd.listen("ann")
    await crowd.listen("ben")
    assert len(crowd.alive()) == 15
    await crowd.listen("cy")
    ended = await asyncio.wait_for(first, 5)
    assert (ended.meta or {})["io.modelcontextprotocol/subscriptionId"] == "ann-0"
    for _ in range(20):
        await crowd.listen("ann")
    alive = crowd.alive()
    assert (alive.count("ann"), alive.count("ben"), alive.count("cy")) == (13, 1, 1)
    crowd.listeners.close()
    assert len(await asyncio.gather(*(task for _, task in crowd.open))) == 36
    assert not crowd.listeners._open


async def test_where_nobody_is_authenticated_the_oldest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(monkeypatch)
    for _ in range(40):
        await crowd.listen(None)
    assert crowd.alive() == [""] * 15 and not crowd.open[-1][1].done()
    crowd.listeners.close()
    await asyncio.gather(*(task for _, task in crowd.open))


async def test_a_stream_whose_client_leaves_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(monkeypatch)
    task = await crowd.listen("ann")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() and not crowd.listeners._open

"""Fake nodes over HTTP, the fleet of them, and the pages of a router that asks them."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from framehold_core.ending import FAILED
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_fleet.guard.guesses import Guesses
from framehold_fleet.identity.plane import PROOF
from framehold_fleet.identity.statements import HELLO, Role
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import address_of
from framehold_fleet.members.membership import Fleet, Member
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.members.store_health import StoreHealth
from framehold_fleet.models.calls import EndedCallView
from framehold_router.api.access import Access
from framehold_router.api.sources import Sources
from framehold_router.collect.ended_calls import EndedCalls
from framehold_router.collect.fleet_log import FleetLog
from framehold_router.collect.history import History
from framehold_router.collect.identities import Identities
from framehold_router.collect.node_client import ANSWER_TIMEOUT, NodeClient
from framehold_router.collect.survey import Survey
from framehold_router.collect.tool_survey import ToolSurvey
from framehold_router.pages import Guard, pages
from framehold_store.memory import MemoryStore
from tests.kit.proofs import BOOT

TRUST = Trust([b"k" * 32])
STATS = Stats(pid=1, parked=2, in_flight=3, version="0.1", started=1000.5, clock_offset=-1.5)
SOON = 10.0
NOW = 1_700_000_000.0

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Client = TestClient[web.Request, web.Application]


@web.middleware
async def _introducing(request: web.Request, handler: Answer) -> web.StreamResponse:
    """Prove to who asks who listens that this is a node of the fleet."""
    hello = request.headers.get(HELLO.decode())
    if hello is None or request.transport is None:
        return await handler(request)
    host, port = request.transport.get_extra_info("peername")[:2]
    boots = (hello.partition(".")[2] or BOOT,)
    proof = TRUST.statements.answer(hello.encode(), boots, f"{host}:{port}") or b""
    return web.Response(status=204, headers={PROOF.decode(): proof.decode()})


def is_inside(request: web.Request) -> bool:
    """Whether a node would take a request for one of a part of the fleet."""
    assert request.transport is not None
    host, port = request.transport.get_extra_info("peername")[:2]
    shown = request.headers[PROOF.decode()].encode()
    return TRUST.statements.role(shown, ("b-lease",), f"{host}:{port}", time.time()) is Role.ADMIN


def member(name: str, url: str, state: str = "live", stats: Stats = STATS, boot: str = "b-lease") -> Member:
    return Member(NodeId(name), Incarnation("i-lease"), Boot(boot), state, url, address_of(url), stats)


def said(name: str, **other: Any) -> dict[str, Any]:
    fields = {"incarnation": "i", "boot": "b", "state": "live", "pid": 11, "parked": 12, "in_flight": 13}
    return {"node_id": name, "version": "0.2", **fields, **other}


def saying(answer: Any, status: int = 200) -> Answer:
    async def handler(_: web.Request) -> web.StreamResponse:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return web.Response(status=status, text=text, content_type="application/json")

    return handler


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


async def cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def at_once(_: float) -> None:
    """Wrong tokens are answered without a pause."""


def guarded(
    sources: Sources,
    token: str | None = None,
    metrics: Answer | None = None,
    *,
    read: str | None = None,
    exposed: bool = False,
    hosts: Collection[str] = (),
    guesses: Guesses | None = None,
) -> web.Application:
    access = Access(token, read, is_exposed=exposed, credential=sources.credential, playground=sources.playground)
    slowly = guesses or Guesses(logging.getLogger("tests"), Counter(), pause=at_once)
    return pages(sources, Guard(access, hosts, slowly), metrics)


class Cast:
    """Fake nodes, each a server of its own, and the fleet of them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.members: list[Member] = []
        self.asked: list[web.Request] = []
        self.store = MemoryStore(lambda: NOW)
        self.now = NOW
        """The time on the store's clock, as the event log reads it."""
        self.trouble: StoreUnavailable | None = None
        """Why the store answers no reads; None if it does."""
        self.token: str | None = None
        self.guard: dict[str, Any] = {}
        """Further arguments of `guarded`."""
        self.asker: NodeClient | None = None
        self.more: dict[str, Any] = {}
        """Further sources of the pages."""

    @property
    def fleet(self) -> Fleet:
        return Fleet.of(self.members)

    async def node(self, name: str, answer: Answer, more: Mapping[str, Answer] | None = None, **other: Any) -> None:

        def noted(answer: Answer) -> Answer:
            async def note(request: web.Request) -> web.StreamResponse:
                self.asked.append(request)
                return await answer(request)

            return note

        app = web.Application(middlewares=[_introducing])
        for place, handler in {"GET /admin/node": answer, **(more or {})}.items():
            method, path = place.split(" ")
            app.router.add_route(method, path, noted(handler))
        server = await self._stack.enter_async_context(TestServer(app, host="127.0.0.1"))
        self.members.append(member(name, f"http://127.0.0.1:{server.port}", **other))

    async def logs(self, **entry: Any) -> None:
        """An entry of the fleet's event log: `event`, `takeover` or `end`, as JSON."""
        await self.store.append_events([json.dumps(entry).encode()])

    async def ended(self, *calls: EndedCallView) -> None:
        for call in calls:
            entry = call.model_dump_json().encode()
            await self.store.append_events([entry], "failed" if call.outcome in FAILED else "ended")

    async def sources(self, limit: float = ANSWER_TIMEOUT) -> Sources:
        asker = self.asker = NodeClient(TRUST, limit)
        survey = Survey(lambda: self.fleet, asker)
        self._stack.push_async_callback(asker.close)
        self._stack.push_async_callback(survey.close)
        tools = ToolSurvey(lambda: self.fleet, asker)
        self._stack.push_async_callback(tools.close)
        log = FleetLog(self.store, lambda: self.fleet, lambda: self.now)
        ended = EndedCalls(self.store, lambda: self.fleet, lambda: NOW)
        self._stack.push_async_callback(log.close)
        self._stack.push_async_callback(ended.close)
        return Sources(
            fleet=lambda: self.fleet,
            store=self.store,
            node_client=asker,
            survey=survey,
            tools=tools,
            log=log,
            ended=ended,
            store_health=StoreHealth(self.store, lambda: self.trouble, lambda: None),
            identities=Identities(lambda: NOW),
            clock=lambda: NOW,
            **{"history": History(self.store, survey.nodes, tools.seen, lambda: NOW), **self.more},
        )

    async def client(self, limit: float = ANSWER_TIMEOUT) -> Client:
        app = guarded(await self.sources(limit), self.token, saying("metrics"), **self.guard)
        return await self._stack.enter_async_context(TestClient(TestServer(app)))

    @asynccontextmanager
    async def survey(self, limit: float, ages: Callable[[], dict[NodeId, float]] = dict) -> AsyncIterator[Survey]:
        asker = NodeClient(TRUST, limit)
        asking = Survey(lambda: self.fleet, asker, ages)
        try:
            yield asking
        finally:
            await asking.close()
            await asker.close()


@asynccontextmanager
async def cast_of() -> AsyncIterator[Cast]:
    async with AsyncExitStack() as stack:
        yield Cast(stack)


async def get(client: Client, path: str, status: int = 200, **headers: str) -> Any:
    async with client.get(path, headers=headers) as response:
        assert response.status == status, await response.text()
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        return await (response.json() if response.content_type == "application/json" else response.text())

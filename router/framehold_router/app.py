"""Builds a router from its parts, and runs it.

1. the store is opened, and the membership is read once
2. the pages are served on a Unix socket in a temporary folder of this process
3. the public port is served: requests for nodes go to nodes, other requests to the pages. If there is an admin port,
   it serves the pages, and the public port serves only the probes among them
4. at the end: event streams end; no connection is accepted any more; requests under way may end within DRAIN seconds;
   then the pages, the membership and the store are closed
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from framehold_core.clock import Clock
from framehold_core.errors import ConfigError
from framehold_core.ids import NodeId
from framehold_core.lease import NodeRecord, boot_of
from framehold_fleet.guard.guesses import Guesses
from framehold_fleet.http_client.upstream import Upstream
from framehold_fleet.http_server.server import HttpServer, serve
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.statements import Role
from framehold_fleet.identity.trust import Trust
from framehold_fleet.limits import Limits
from framehold_fleet.members.event_writer import EventWriter
from framehold_fleet.members.losses import Losses
from framehold_fleet.members.membership import Fleet, Member, Membership
from framehold_fleet.members.store_health import StoreHealth
from framehold_fleet.members.wrong_clock import WrongClock
from framehold_fleet.models.events import LogEntry
from framehold_fleet.models.nodes import LossView
from framehold_fleet.models.routers import RouterView
from framehold_fleet.telemetry import descriptors
from framehold_fleet.telemetry.descriptors import SpentDescriptors
from framehold_store import Store, open_store
from framehold_store.system_clock import system_clock

from .api.access import CLOSED, Access
from .api.sources import VERSION, Sources
from .collect.departures import Departures
from .collect.ended_calls import EndedCalls
from .collect.fleet_log import FleetLog
from .collect.history import History
from .collect.identities import Identities
from .collect.node_client import NodeClient
from .collect.routers import Routers
from .collect.survey import Survey, asking
from .collect.tool_survey import ToolSurvey
from .collect.unheard import UnheardNodes
from .config import RouterSettings
from .metrics import RouterMetrics, counting, page
from .own_folder import own_folder
from .pages import Guard, end_streams, pages, serve_pages
from .routing import request_facts
from .routing.counted_relay import CountedRelay
from .routing.placement import Placer
from .routing.relay import RequestRelay
from .routing.request_facts import WITH_SAGAS
from .telemetry.counters import Meter

_log = logging.getLogger(__name__)

DRAIN = 10.0
"""Seconds for which requests under way may go on when a router ends."""
ADMIN_DRAIN = 1.0
"""Seconds for which requests on the admin port may go on after that."""


def ready(settings: RouterSettings) -> RouterSettings:
    """Return `settings` if a router can be built from them.

    Raises:
        ConfigError: there are no keys, or there is no store that processes can share.
    """
    if not settings.known_keys():
        raise ConfigError(
            "FRAMEHOLD_ROUTER_KEYS is missing: nodes believe only a router that has keys derived from the fleet's; "
            "nothing was started; where FRAMEHOLD_KEYS is, print them with: framehold keys router"
        )
    if settings.store().scheme in ("memory", "embedded"):
        raise ConfigError(
            "FRAMEHOLD_STORE_URL names no store that processes can share: a router finds its nodes there; nothing was "
            "started; give --store redis://HOST:PORT, or try a whole fleet with: framehold up"
        )
    return settings


@asynccontextmanager
async def running(
    settings: RouterSettings, listening: socket.socket, admin: socket.socket | None = None
) -> AsyncIterator[HttpServer]:
    """Run a router on the bound socket `listening` for as long as the context is open. With a bound socket `admin` the
    dashboard, the API and the metrics are served there alone.

    Raises:
        ConfigError: it can't be built from these settings.
    """
    trust, clock = Trust(ready(settings).known_keys(), settings.fleet_ca), system_clock()
    async with AsyncExitStack() as stack:
        departures, identities = looks = Departures(clock.time), Identities(clock.now)
        store, membership, node_client = await _open_membership(stack, settings, trust, looks, clock)

        def fleet() -> Fleet:
            return membership.fleet

        survey, tools = _surveys(stack, fleet, node_client, departures)
        log, writer = _event_log(stack, store, fleet, departures, clock)
        placer = Placer(fleet, clock.now)
        counted = counting(membership, departures, survey.nodes, counts := Counter[str](), clock)
        metrics = await stack.enter_async_context(counted) if settings.metrics else None
        sources = Sources(
            *(fleet, store, node_client, survey, tools, log, _ended_calls(stack, store, fleet, clock)),
            *(StoreHealth(store, lambda: membership.trouble, lambda: writer.trouble), identities),
            routers=_routers(stack, store, trust, settings, listening, clock),
            loss=_losses(stack, store, departures),
            descriptors=(spent := SpentDescriptors()),
            retries=metrics.meter if metrics is not None else None,
            change=lambda: membership.change,
            history=_history(stack, store, survey, tools, clock) if settings.history else None,
            **_chosen(settings, trust, clock, placer),
        )
        scraped = page(metrics, sources.store_health, log)
        shown = pages(sources, _guard(settings, sources, admin or listening, counts), scraped)
        place = await _serve_on_socket(stack, shown, settings.limits)
        relay = _relay(metrics, placer, _upstream(stack, settings, trust, clock), trust, settings, place)
        front = await _serve_ports(stack, relay, settings, listening, admin)
        front.swept = spent.look
        try:
            yield front
        finally:
            end_streams(shown)
            await front.close(DRAIN)


def _chosen(settings: RouterSettings, trust: Trust, clock: Clock, placer: Placer) -> dict[str, Any]:
    """The fields of `Sources` that are settings, the clock, and what the placer tells."""
    return {
        "place": placer.where,
        "refused_hosts": placer.refused_hosts.now,
        "clock": clock.time,
        "credential": trust.credential(settings.admin_token),
        "trace_url": settings.trace_url,
        "playground": settings.playground,
        "max_attempts": settings.max_attempts,
    }


def _guard(settings: RouterSettings, sources: Sources, listening: socket.socket, counts: Counter[str]) -> Guard:
    """What lets requests in to the pages, which `listening` serves. Wrong tokens are counted in `counts`."""
    access = Access(
        _text(settings.admin_token),
        _text(settings.read_token),
        is_exposed=is_exposed(listening),
        credential=sources.credential,
        playground=sources.playground,
    )
    if access.is_closed:
        _log.warning(CLOSED)
    return Guard(access, settings.allowed_hosts, Guesses(_log, counts), sources.clock)


def _text(token: SecretStr | None) -> str | None:
    return None if token is None else token.get_secret_value()


def is_exposed(listening: socket.socket) -> bool:
    """Whether other machines may be able to connect to a listening socket."""
    if listening.family == socket.AF_UNIX:
        return False
    address = ip_address(listening.getsockname()[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return not address.is_loopback


async def _open_membership(
    stack: AsyncExitStack, settings: RouterSettings, trust: Trust, looks: tuple[Departures, Identities], clock: Clock
) -> tuple[Store, Membership, NodeClient]:
    """Open the store, follow its membership, and make what asks nodes; `stack` closes all three. `looks` are shown each
    look."""
    departures, identities = looks
    store = open_store(settings.store(), clock.time)
    stack.push_async_callback(store.close)
    await store.open()
    node_client = NodeClient(trust, clock=clock)
    stack.push_async_callback(node_client.close)
    seals = LeaseSeal(trust, settings.namespace)
    membership = Membership(store, seals, kept=UnheardNodes(asking(node_client)).kept, clock=clock)
    stack.push_async_callback(membership.close)
    wrong = WrongClock(clock)

    def looked(members: Mapping[NodeId, Member], leases: Iterable[NodeRecord]) -> None:
        departures.look(members, leases)
        identities.look(members.values())
        wrong.look()

    membership.on_looked = looked
    await membership.open()
    return store, membership, node_client


def _upstream(stack: AsyncExitStack, settings: RouterSettings, trust: Trust, clock: Clock) -> Upstream:
    """What sends requests to nodes; `stack` closes it."""
    limits = {"connect_timeout": settings.connect_timeout, "timeout": settings.upstream_timeout}
    upstream = Upstream(trust, Role.ROUTER, clock, **limits)
    stack.push_async_callback(upstream.close)
    return upstream


def _surveys(
    stack: AsyncExitStack, fleet: Callable[[], Fleet], node_client: NodeClient, departures: Departures
) -> tuple[Survey, ToolSurvey]:
    """What asks all nodes at once for their status, and for their tools; `stack` closes both."""
    survey, tools = Survey(fleet, node_client, departures.ages), ToolSurvey(fleet, node_client)
    stack.push_async_callback(survey.close)
    stack.push_async_callback(tools.close)
    return survey, tools


def _event_log(
    stack: AsyncExitStack, store: Store, fleet: Callable[[], Fleet], departures: Departures, clock: Clock
) -> tuple[FleetLog, EventWriter[LogEntry]]:
    """The event log of the fleet, and what writes to it what this router sees; `stack` ends both."""
    log, writer = FleetLog(store, fleet, clock.time), EventWriter(store, LogEntry.encoded)
    stack.push_async_callback(log.close)
    task = asyncio.create_task(writer.run(), name="framehold event writer")
    stack.push_async_callback(_end, task)

    def seen(entry: LogEntry) -> None:
        log.add(entry)
        if entry.event is not None:
            writer.write(entry.event.id, entry)

    departures.on_entry = seen
    return log, writer


def _losses(stack: AsyncExitStack, store: Store, departures: Departures) -> Callable[[], LossView | None]:
    """What gives the last loss of the store; `stack` ends the task that looks for losses."""
    losses = Losses(store, departures.on_entry)
    stack.push_async_callback(_end, asyncio.create_task(losses.run(), name="framehold losses of the store"))
    return lambda: losses.last


def _ended_calls(stack: AsyncExitStack, store: Store, fleet: Callable[[], Fleet], clock: Clock) -> EndedCalls:
    """What reads the calls that ended; `stack` closes it."""
    ended = EndedCalls(store, fleet, clock.time)
    stack.push_async_callback(ended.close)
    return ended


def _history(stack: AsyncExitStack, store: Store, survey: Survey, tools: ToolSurvey, clock: Clock) -> History:
    """What keeps the history of the fleet; `stack` ends it."""
    history = History(store, survey.nodes, tools.seen, clock.time)
    stack.push_async_callback(_end, asyncio.create_task(history.run(), name="framehold history"))
    return history


def _routers(
    stack: AsyncExitStack, store: Store, trust: Trust, settings: RouterSettings, listening: socket.socket, clock: Clock
) -> Callable[[], list[RouterView]]:
    """What makes this router known to the others, and gives those that it knows; `stack` ends it with a goodbye."""
    where = "" if listening.family == socket.AF_UNIX else f":{listening.getsockname()[1]}"
    me = f"{socket.gethostname()}{where}", boot_of(clock.time(), os.urandom(8)), VERSION
    routers = Routers(store, trust, settings.namespace, me, clock.time, descriptors.read)
    stack.push_async_callback(_end, asyncio.create_task(routers.run(), name="framehold routers"))
    return routers.seen


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


async def _serve_on_socket(stack: AsyncExitStack, shown: web.Application, limits: Limits) -> str:
    """Serve the pages on a Unix socket in a temporary folder, and return its path; `stack` ends both.

    Raises:
        ConfigError: no socket can be made there.
    """
    folder = stack.enter_context(own_folder())
    path = str(folder / "pages")
    try:
        await stack.enter_async_context(serve_pages(shown, path, limits))
    except OSError as error:
        raise ConfigError(
            f"no socket can be made in {folder.parent} ({error.strerror or error}); nothing was started; set TMPDIR to "
            "a folder with a short path, such as /tmp"
        ) from None
    return path


async def _serve_ports(
    stack: AsyncExitStack,
    relay: RequestRelay,
    settings: RouterSettings,
    listening: socket.socket,
    admin: socket.socket | None,
) -> HttpServer:
    """Serve the admin port, if there is one, and the port of clients; `stack` ends the first one after the second, so
    that Prometheus sees the end of the last requests."""
    if admin is not None:
        relay.close_pages()
        stack.push_async_callback((await serve(relay.administer, settings.limits, admin)).close, ADMIN_DRAIN)
    front = await serve(relay, settings.limits, listening)
    front.connections.refused = relay.refused
    return front


def _relay(
    metrics: RouterMetrics | None,
    placer: Placer,
    upstream: Upstream,
    trust: Trust,
    settings: RouterSettings,
    pages: str,
) -> RequestRelay:
    """The handler of requests; it counts them if there are metrics, and makes spans of them if a provider collects
    spans. `pages` is the socket of the router's pages."""
    read = partial(request_facts.read, methods=WITH_SAGAS) if settings.sagas else request_facts.read
    parts = (placer, read, upstream, trust, settings, pages)
    if (traced := _traced_relay()) is not None:
        return traced(Meter() if metrics is None else metrics.meter, *parts)
    return RequestRelay(*parts) if metrics is None else CountedRelay(metrics.meter, *parts)


def _traced_relay() -> type[CountedRelay] | None:
    """The relay that makes spans, if OpenTelemetry is installed and has a provider."""
    try:
        from .routing import traced_relay
    except ImportError:
        return None
    return traced_relay.TracedRelay if traced_relay.provided() else None

"""Section `router`: CPU per request of `framehold router`, and of HAProxy with the same hash.

Both run at once in front of the same stub nodes, which are so cheap that the relay is what is measured. They take short
turns of the same number of requests on 32 kept connections, so that a slow moment of the machine affects both; a ratio
compares two turns that follow each other. Turns straight to a stub node show how much the core of the load can do.
Half of the requests start a call, half are retries with a token. All are made ahead of time, so that a fast relay can
be kept busy.

Law: a figure stands for requests that were all answered with 200 and a node's whole body, all retries of a call by one
node. The first other response ends the turns of its site, and the reason takes the place of the figure.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, cast

from framehold_loadtest.bench import child, weather
from framehold_loadtest.bench.calls import CONNECTIONS
from framehold_loadtest.bench.servers import framehold_router, secret, settings
from framehold_loadtest.client.connection import CallError
from framehold_loadtest.client.rounds import Asked
from framehold_loadtest.local.listeners import (
    ROOT,
    Cores,
    Listener,
    announced,
    free_ports,
    haproxy_server,
    redis_server,
)
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.local.usage import cpu_seconds
from framehold_loadtest.served.stub_nodes import BODY_BYTES, NODES, node_of
from framehold_loadtest.stats import Spread

ROUTER, HAPROXY, STRAIGHT = "framehold router", "haproxy", "(straight)"
_SPARE_SECONDS = 60.0
_SECONDS_PER_REQUEST = 0.003  # of all relays together, on a slow machine
_EXAMPLE = ROOT / "examples" / "haproxy.cfg"
_BEYOND = ("retry", "retries", "check")
_CALLS = 512
_SEALED_CHARACTERS = 389  # of a real token of the bench's tool
_KEY = "elicit-21b23392-1"
_WARM_REQUESTS = 3000
_LEAD_REQUESTS = 200  # before each turn: the one before has left the caches to another relay
_TURN_SECONDS = 30.0
_Relay = Callable[[int, Mapping[str, str], Sequence[int]], AbstractContextManager[Listener]]
"""From a core, settings and the ports of nodes to what stands in front of them."""


def measure(turns: int, requests: int, cores: Cores) -> dict[str, Any]:
    """So many requests to each relay in each of so many turns; a row for each, and what was not available.

    Raises:
        NotAvailable: the stub nodes can't be served, or the load failed.
    """
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        common = settings(stack.enter_context(redis_server(cores.load)))
        ports = free_ports(len(NODES))
        stub = ["framehold_loadtest.served.stub_nodes", *(word for port in ports for word in ("--port", str(port)))]
        upstream = stack.enter_context(announced(stub, cores.load, common))
        sites = {STRAIGHT: upstream}
        relays: dict[str, _Relay] = {ROUTER: _router, HAPROXY: haproxy}
        for name, relay in relays.items():
            try:
                sites[name] = stack.enter_context(relay(cores.server, common, ports))
            except NotAvailable as reason:
                missing[name] = str(reason)
        given = {"sites": [(site.port, site.pid) for site in sites.values()], "upstream": upstream.pid}
        seconds = _SPARE_SECONDS + _SECONDS_PER_REQUEST * turns * requests
        found = child.run(send, cores.load, seconds, turns=turns, requests=requests, **given)
        runs = {name: Relayed(**run) for name, run in zip(sites, found, strict=True)}
        missing |= {name: f"{run.failure}{sites[name].last_words()}" for name, run in runs.items() if run.failure}
    kept = {name: run for name, run in runs.items() if not run.failure}
    plan = {"connections": CONNECTIONS, "turns": turns, "requests": requests}
    return {"plan": plan, "rows": [_row(name, kept, requests) for name in kept], "not_available": missing}


def _router(core: int, common: Mapping[str, str], ports: Sequence[int]) -> AbstractContextManager[Listener]:
    return framehold_router(core, common, len(ports))


@contextlib.contextmanager
def haproxy(core: int, common: Mapping[str, str], ports: Sequence[int]) -> Iterator[Listener]:
    """HAProxy on a core, as `examples/haproxy.cfg` says but for its port, its servers, and what it does beyond finding
    a node: to keep each request for another try costs it half as much again, and no other relay here does it.

    Raises:
        NotAvailable: it does not start, or there is no checkout around this package.
    """
    if not _EXAMPLE.exists():
        raise NotAvailable("examples/haproxy.cfg is not installed; run it from a checkout of the project")
    (port,) = free_ports(1)
    lines = _EXAMPLE.read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}").splitlines()
    lines = [line for line in lines if not any(word in line for word in _BEYOND)]
    kept = [line for line in lines if not line.strip().startswith("server ")]
    servers = [f"    server node-{number} 127.0.0.1:{node}" for number, node in enumerate(ports, 1)]
    with haproxy_server(core, "\n".join([*kept, *servers, ""]), port, secret(common)) as proxy:
        yield proxy


def _row(name: str, runs: Mapping[str, Relayed], requests: int) -> dict[str, Any]:
    """One relay over all its turns. CPU in seconds per request; the ratio to HAProxy turn by turn.

    `busy` is its share of its core, `upstream_busy` and `load_busy` are shares of the other: where those two reach 1
    together, the load was the limit, and the relay was never full.
    """
    mine, other = runs[name], runs.get(HAPROXY)
    row: dict[str, Any] = {
        "relay": name,
        "cpu_per_request": asdict(Spread.of([cpu / requests for cpu in mine.relay_cpu])),
        "requests_per_second": median(requests / seconds for seconds in mine.seconds),
        "busy": _share(mine.relay_cpu, mine),
        "upstream_busy": _share(mine.upstream_cpu, mine),
        "load_busy": _share(mine.load_cpu, mine),
    }
    if name == ROUTER and other is not None:
        pairs = zip(mine.relay_cpu, other.relay_cpu, strict=True)
        row["to_haproxy"] = asdict(Spread.of([cpu / theirs for cpu, theirs in pairs]))
    return row


def _share(cpu: list[float], run: Relayed) -> float:
    return median(used / seconds for used, seconds in zip(cpu, run.seconds, strict=True))


async def send(sites: Sequence[tuple[int, int]], upstream: int, turns: int, requests: int) -> list[Relayed]:
    """All turns of each site."""
    gc.disable()  # a run is short and its garbage acyclic; a pass here would look like a slow relay
    places = [_Site(port, relay, upstream) for port, relay in sites]
    for site in places:
        await site.open(CONNECTIONS)
        await site.turn(_WARM_REQUESTS, counted=False)
    for _ in range(turns):
        for site in places:
            await site.turn(_LEAD_REQUESTS, counted=False)
            await site.turn(requests, counted=True)
    return [site.relayed for site in places]


@dataclass(frozen=True, slots=True)
class Relayed:
    """One site's turns, in seconds over a turn's requests; `relay_cpu` 0 without a relay. `failure`: no figure."""

    seconds: list[float] = field(default_factory=list)
    relay_cpu: list[float] = field(default_factory=list)
    upstream_cpu: list[float] = field(default_factory=list)
    load_cpu: list[float] = field(default_factory=list)
    failure: str = ""


class _Site:
    """A relay's connections, the requests that go over them, and what came of its turns so far."""

    def __init__(self, port: int, relay: int, upstream: int) -> None:
        self.relayed = Relayed()
        self._port, self._relay, self._upstream = port, relay, upstream
        self._posts = _posts(port)
        self._nodes: dict[int, bytes] = {}
        self._lanes: list[_Lane] = []
        self._over: asyncio.Future[None] | None = None
        self._sent = self._due = self._left = 0

    async def open(self, connections: int) -> None:
        """Connect."""
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, lane = await loop.create_connection(lambda: _Lane(self), "127.0.0.1", self._port)
            self._lanes.append(lane)

    async def turn(self, requests: int, *, counted: bool) -> None:
        """Send so many requests, and note what they cost if that is `counted`; nothing once there was a failure."""
        if self.relayed.failure:
            return
        self._over = asyncio.get_running_loop().create_future()
        self._due = self._left = requests
        before = self._now()
        for lane in self._lanes:
            lane.send()
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._over
        except (CallError, TimeoutError) as error:
            self.relayed = Relayed(failure=str(error) or f"a turn did not end within {_TURN_SECONDS:.0f} s")
            return
        if counted:
            columns = (self.relayed.seconds, self.relayed.relay_cpu, self.relayed.upstream_cpu, self.relayed.load_cpu)
            for column, start, end in zip(columns, before, self._now(), strict=True):
                column.append(end - start)

    def next(self) -> tuple[int, bytes] | None:
        """The next request of the turn, and its number among the different ones; None where all were sent."""
        if not self._due:
            return None
        self._due -= 1
        number = self._sent % len(self._posts)
        self._sent += 1
        return number, self._posts[number]

    def answered(self, number: int, answer: bytes) -> None:
        """Take a whole answer."""
        # Even numbers start calls, which no node has yet.
        node = node_of(answer)
        if number % 2 and self._nodes.setdefault(number, node) != node:
            self.fail("two retries of a call reached different nodes")
        self._left -= 1
        if not self._left and self._over is not None and not self._over.done():
            self._over.set_result(None)

    def fail(self, why: str) -> None:
        """No figure for this site."""
        if self._over is not None and not self._over.done():
            self._over.set_exception(CallError(why))

    def _now(self) -> tuple[float, float, float, float]:
        relay = cpu_seconds(self._relay) if self._relay != self._upstream else 0.0
        return time.perf_counter(), relay, cpu_seconds(self._upstream), time.process_time()


class _Lane(asyncio.Protocol):
    """One connection: its next request leaves when the last one is answered."""

    _transport: asyncio.Transport

    def __init__(self, site: _Site) -> None:
        self._site = site
        self._buffer = b""
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class

    def send(self) -> None:
        """Send the next request, if one is left."""
        following = self._site.next()
        if following is not None:
            self._number, post = following
            self._transport.write(post)

    def data_received(self, data: bytes) -> None:
        """Collect one answer."""
        data = self._buffer + data if self._buffer else data
        at = data.find(b"\r\n\r\n")
        if at >= 0 and not data.startswith(b"HTTP/1.1 200 "):
            self._site.fail(f"it answered {data[:at].splitlines()[0].decode('latin-1')}")
        elif at < 0 or len(data) - at - 4 < BODY_BYTES:
            self._buffer = data
        else:
            self._buffer = b""
            self._site.answered(self._number, data)
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        """No connection may be lost before the end."""
        self._site.fail("it closed a connection")


def _posts(port: int) -> list[bytes]:
    """Requests in turn: a call's start, and a retry of another call that has been under way for long."""
    chance = random.Random(1)
    posts = []
    for number in range(_CALLS):
        call, sealed = f"{chance.getrandbits(128):032x}", f"{chance.getrandbits(4 * _SEALED_CHARACTERS):x}"
        question = Asked((_KEY,), f"h1.{call}.{sealed.zfill(_SEALED_CHARACTERS)}")
        posts += [
            weather.first_round(port, weather.make_call(number)),
            weather.second_round(port, weather.make_call(number), question),
        ]
    return posts

"""The generator of the relays' CPU figures: requests on 32 kept connections to each relay.

The relays take short turns of the same number of requests, so that a slow moment of the machine affects all of them.
Half of the requests start a call, half are retries with a token. All are made ahead of time, so that a fast relay can
be kept busy. It prints one JSON list of `Relayed`, in the order of the sites.

Law: a figure stands for requests that were all answered with 200 and a node's whole body, all retries of a call by one
node. The first other response ends the turns of its site, and the reason takes the place of the figure.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import cast

import uvloop

from framehold_loadtest.bench.generators import weather
from framehold_loadtest.bench.subjects.stub_nodes import BODY_BYTES, node_of
from framehold_loadtest.client.connection import CallError
from framehold_loadtest.client.rounds import Asked
from framehold_loadtest.local.usage import cpu_seconds

_CALLS = 512
_SEALED_CHARACTERS = 389  # of a real token of the bench's tool
_KEY = "elicit-21b23392-1"
_WARM_REQUESTS = 3000
_LEAD_REQUESTS = 200  # before each turn: the one before has left the caches to another relay
_TURN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Relayed:
    """One site's turns, in seconds over a turn's requests; `relay_cpu` 0 without a relay. `failure`: no figure."""

    seconds: list[float] = field(default_factory=list)
    relay_cpu: list[float] = field(default_factory=list)
    upstream_cpu: list[float] = field(default_factory=list)
    load_cpu: list[float] = field(default_factory=list)
    failure: str = ""


class Site:
    """A relay's connections, the requests that go over them, and what came of its turns so far."""

    def __init__(self, port: int, relay: int, upstream: int) -> None:
        self.relayed = Relayed()
        self._port, self._relay, self._upstream = port, relay, upstream
        self._posts = _posts(port)
        self._nodes: dict[int, bytes] = {}
        self._lanes: list[Lane] = []
        self._over: asyncio.Future[None] | None = None
        self._sent = self._due = self._left = 0

    async def open(self, connections: int) -> None:
        """Connect."""
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, lane = await loop.create_connection(lambda: Lane(self), "127.0.0.1", self._port)
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


class Lane(asyncio.Protocol):
    """One connection: its next request leaves when the last one is answered."""

    _transport: asyncio.Transport

    def __init__(self, site: Site) -> None:
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


async def _run(options: argparse.Namespace) -> list[Relayed]:
    sites = [Site(port, relay, options.upstream) for port, relay in options.site]
    for site in sites:
        await site.open(options.connections)
        await site.turn(_WARM_REQUESTS, counted=False)
    for _ in range(options.turns):
        for site in sites:
            await site.turn(_LEAD_REQUESTS, counted=False)
            await site.turn(options.requests, counted=True)
    return [site.relayed for site in sites]


def main() -> None:
    """Send the requests, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--site", type=int, nargs=2, metavar=("PORT", "PID"), action="append", required=True, help="one for each relay"
    )
    parser.add_argument("--upstream", type=int, required=True, help="process id of the stub nodes")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--turns", type=int, required=True, help="of each relay")
    parser.add_argument("--requests", type=int, required=True, help="in each turn")
    options = parser.parse_args()
    gc.disable()  # a run is short and its garbage acyclic; a pass here would look like a slow relay
    try:
        relayed = uvloop.run(_run(options))
    except OSError as error:
        sys.exit(f"no figure: {error}")
    print(json.dumps([asdict(one) for one in relayed]))


if __name__ == "__main__":
    main()

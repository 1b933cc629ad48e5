"""Section `frames`: the memory of a parked frame, and the time of a resume beside many parked frames.

Each number of frames has a server process of its own with the memory store. All of them run at once and take turns in
batches of resumes; a fresh call is parked after each resume, so the numbers stay. The memory of a frame comes from the
RSS of its server before and after parking. The resume time is measured inside the server, around its ASGI app, without
the noise of HTTP.

Law: the tokens stay in the process of the load, so the memory of a server holds its frames alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from framehold_loadtest.bench import child, weather
from framehold_loadtest.bench.calls import complete_call
from framehold_loadtest.bench.servers import serving, settings
from framehold_loadtest.client.connection import Connection
from framehold_loadtest.client.rounds import Asked
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.local.usage import rss_bytes
from framehold_loadtest.served.measured import FRAMEHOLD
from framehold_loadtest.served.meter import MARK, METER_PATH, Reading
from framehold_loadtest.stats import percentile

_SECONDS_PER_FRAME = 0.005  # on a slow machine
_SPARE_SECONDS = 120.0
_HEADROOM = 1000
_CHANNELS = 32
_WARM_CALLS = 16  # on each channel


def measure(frames: Sequence[int], batches: int, batch_size: int, cores: Cores) -> dict[str, Any]:
    """Park so many frames, the fewest first, and time batches of resumes at each number.

    Raises:
        NotAvailable: a server does not start, or a call failed.
    """
    with contextlib.ExitStack() as stack:
        servers, sites = [], []
        for number in frames:
            limit = str(number + _HEADROOM)
            limits = {"FRAMEHOLD_MAX_PARKED": limit, "FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL": limit}
            common = settings(None) | limits
            server = stack.enter_context(serving(FRAMEHOLD, cores.server, common, "--metered"))
            servers.append(server)
            sites.append((number, server.port, server.pid))
        seconds = _SPARE_SECONDS + _SECONDS_PER_FRAME * sum(frames)
        try:
            rows = child.run(park, cores.load, seconds, sites=sites, batches=batches, batch_size=batch_size)
        except NotAvailable as reason:
            raise NotAvailable(f"{reason}{''.join(server.last_words() for server in servers)}") from None
    return {"plan": {"resumes": batches * batch_size}, "rows": rows}


async def park(sites: Sequence[tuple[int, int, int]], batches: int, batch_size: int) -> list[dict[str, Any]]:
    """A row for each server. The first batch is not counted."""
    gc.disable()  # bounded and acyclic; a pass over the tokens here would look like a slow server
    places = [_Site(frames, port, pid, await Connection.open(port)) for frames, port, pid in sites]
    for site in places:
        await site.fill()
    chance = random.Random(1)
    for batch in range(1 + batches):
        for site in places:
            if batch == 1:
                site.readings.clear()
            await site.resume_some(batch_size, chance)
    return [await site.conclude(batches * batch_size) for site in places]


@dataclass(slots=True)
class _Site:
    """One server, the calls parked on it, and what its batches showed."""

    frames: int
    port: int
    pid: int
    channel: Connection
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    parked: list[tuple[weather.Call, Asked]] = field(default_factory=list)
    rss: int = 0
    parking: Reading | None = None
    readings: list[Reading] = field(default_factory=list)

    async def read(self, *, collect: bool = False) -> Reading:
        """Read and reset the server's meter."""
        reply = await self.channel.request(weather.get(self.port, METER_PATH + ("?collect" if collect else "")))
        return Reading(**json.loads(reply.body))

    async def park(self, channel: Connection) -> None:
        """Start one more call and leave it parked."""
        call = weather.make_call(next(self.numbers))
        reply = await channel.request(weather.first_round(self.port, call))
        self.parked.append((call, weather.read_question(reply)))

    async def fill(self) -> None:
        """Warm the server up on the connections that are used later, then park its frames and note what they weigh."""
        channels = [await Connection.open(self.port) for _ in range(_CHANNELS)]
        for channel in channels * _WARM_CALLS:
            await complete_call(channel, self.port, weather.make_call(next(self.numbers)))
        await self.read(collect=True)
        before = rss_bytes(self.pid)
        quota = iter(range(self.frames))

        async def work(channel: Connection) -> None:
            for _ in quota:
                await self.park(channel)
            channel.close()

        await asyncio.gather(*map(work, channels))
        self.rss = rss_bytes(self.pid) - before
        self.parking = await self.read()

    async def resume_some(self, count: int, chance: random.Random) -> None:
        """Resume `count` random frames one after the other, each replaced by a fresh one."""
        for _ in range(count):
            place = chance.randrange(len(self.parked))
            self.parked[place], self.parked[-1] = self.parked[-1], self.parked[place]
            call, question = self.parked.pop()
            reply = await self.channel.request(weather.second_round(self.port, call, question, mark=MARK.decode()))
            weather.check_result(reply, call)
            await self.park(self.channel)
        self.readings.append(await self.read())

    async def conclude(self, resumes: int) -> dict[str, Any]:
        """Collect what is left, and sum up. Times are in seconds."""
        readings = [*self.readings, await self.read(collect=True)]
        latencies = [latency for reading in self.readings for latency in reading.latencies]
        assert self.parking is not None
        return {
            "frames": self.frames,
            "rss_bytes": self.rss,
            "resume_p50": percentile(latencies, 0.50),
            "resume_p99": percentile(latencies, 0.99),
            "young_pause": max(reading.young_pause for reading in self.readings),
            "parking_young_pause": self.parking.young_pause,
            "parking_full_pause": self.parking.full_pause,
            "cyclic_per_call": sum(reading.collected for reading in readings) / resumes,
        }

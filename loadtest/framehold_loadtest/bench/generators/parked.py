"""The generator of section `frames`: parks calls on servers, then resumes some of them.

Each server holds a different number of frames. The servers take turns in batches of resumes. A fresh call is parked
after each resume, so the numbers stay. It prints one JSON list of `Parked`, in the order of the servers.

Law: the tokens stay in this process, so the memory of a server holds its frames alone.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import uvloop

from framehold_loadtest.bench.generators import weather
from framehold_loadtest.bench.generators.calls import complete_call
from framehold_loadtest.bench.subjects.meter import MARK, METER_PATH, Reading
from framehold_loadtest.client.connection import CallError, Connection
from framehold_loadtest.client.rounds import Asked
from framehold_loadtest.local.usage import rss_bytes
from framehold_loadtest.stats import percentile

_CHANNELS = 32
_WARM_CALLS = 16  # on each channel
_WARM_BATCHES = 1


@dataclass(frozen=True, slots=True)
class Parked:
    """What one server showed. Times in seconds; `resume` inside the server, `round` as the client saw it."""

    frames: int
    rss_bytes: int
    resumes: int
    resume_p50: float
    resume_p99: float
    resume_max: float
    round_p50: float
    round_p99: float
    young_pause: float
    full_pause: float
    parking_young_pause: float
    parking_full_pause: float
    cyclic_per_call: float
    thresholds: list[int]
    frozen: int


@dataclass(slots=True)
class Site:
    """One server, the calls parked on it, and what its batches showed."""

    frames: int
    port: int
    pid: int
    channel: Connection
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    parked: list[tuple[weather.Call, Asked]] = field(default_factory=list)
    rss: int = 0
    parking: Reading | None = None
    rounds: list[float] = field(default_factory=list)
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
            request = weather.second_round(self.port, call, question, mark=MARK.decode())
            began = time.perf_counter()
            reply = await self.channel.request(request)
            self.rounds.append(time.perf_counter() - began)
            weather.check_result(reply, call)
            await self.park(self.channel)
        self.readings.append(await self.read())

    def forget_warm_up(self) -> None:
        """Drop what the batches showed so far."""
        self.rounds.clear()
        self.readings.clear()

    async def conclude(self) -> Parked:
        """Collect what is left, and sum up."""
        resumes = len(self.rounds)
        final = await self.read(collect=True)
        cyclic = sum(reading.collected for reading in [*self.readings, final])
        latencies = [latency for reading in self.readings for latency in reading.latencies]
        assert self.parking is not None
        return Parked(
            frames=self.frames,
            rss_bytes=self.rss,
            resumes=resumes,
            resume_p50=percentile(latencies, 0.50),
            resume_p99=percentile(latencies, 0.99),
            resume_max=max(latencies),
            round_p50=percentile(self.rounds, 0.50),
            round_p99=percentile(self.rounds, 0.99),
            young_pause=max(reading.young_pause for reading in self.readings),
            full_pause=max(reading.full_pause for reading in self.readings),
            parking_young_pause=self.parking.young_pause,
            parking_full_pause=self.parking.full_pause,
            cyclic_per_call=cyclic / resumes,
            thresholds=final.thresholds,
            frozen=final.frozen,
        )


async def _run(options: argparse.Namespace) -> list[Parked]:
    sites: list[Site] = []
    for frames, port, pid in options.site:
        sites.append(Site(frames, port, pid, await Connection.open(port)))
    for site in sites:
        await site.fill()
    chance = random.Random(1)
    for batch in range(_WARM_BATCHES + options.batches):
        for site in sites:
            if batch == _WARM_BATCHES:
                site.forget_warm_up()
            await site.resume_some(options.batch_size, chance)
    return [await site.conclude() for site in sites]


def main() -> None:
    """Park and resume on the given servers, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", nargs=3, type=int, action="append", required=True, metavar=("FRAMES", "PORT", "PID"))
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    options = parser.parse_args()
    gc.disable()  # bounded and acyclic; a pass over the tokens here would look like a slow server
    try:
        rows = uvloop.run(_run(options))
    except (CallError, OSError) as error:
        sys.exit(f"a call failed: {error}")
    print(json.dumps([asdict(parked) for parked in rows]))


if __name__ == "__main__":
    main()

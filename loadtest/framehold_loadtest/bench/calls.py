"""Two-round calls at several servers in turn: what drives them, and what their turns come to.

All servers run at once, and take turns of less than a second; a ratio compares two turns that follow each other. Single
turns differ by a third on a busy machine, and the median of many pairs by a hundredth or two; long turns, one server
after the other, can't tell 5 %. The CPU of a call includes that of its store and of a router before it.

With one connection no request waits for another: then it is measured what a round takes, and nothing that load makes
cheaper.

Law: every final result is checked. Every error counts, also one of the warm-up. A server that completes no call in some
turn is not available, and keeps none of its figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import pkgutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, NamedTuple

from framehold_loadtest.bench import child, weather
from framehold_loadtest.client.connection import CallError, Connection
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.local.usage import cpu_seconds
from framehold_loadtest.stats import percentile

CONNECTIONS = 32
_GRACE_SECONDS, _RECONNECT_SECONDS = 5.0, 0.05
_SPARE_SECONDS, _SECONDS_PER_TURN = 30.0, 1.0


class Site(NamedTuple):
    """Where calls are made, and the processes that take part: 0 for one that isn't there."""

    port: int
    server: int
    store: int = 0
    router: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one server. Times in seconds, `p50` of any round; errors by kind."""

    calls: int = 0
    seconds: float = 0.0
    server: float = 0.0
    store: float = 0.0
    router: float = 0.0
    load: float = 0.0
    p50: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Calls per second."""
        return self.calls / self.seconds

    @property
    def cost(self) -> float:
        """CPU of a call."""
        return (self.server + self.store + self.router) / self.calls


@dataclass(frozen=True, slots=True)
class Group:
    """Servers that share processes, by their names; `start` gives the site of each. Calls that are no MCP are made by
    another function than `complete_call`, "MODULE:FUNCTION" by name. `what` says what a server is."""

    start: Callable[[ExitStack, Cores], Mapping[str, Site]]
    what: Mapping[str, str]
    call: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """How many turns each server has; how long it is loaded before and in a turn, in seconds. The first turn of each is
    not counted."""

    turns: int
    warm: float
    seconds: float
    connections: int = CONNECTIONS


def measure(groups: Sequence[Group], bases: Sequence[str], plan: Plan, cores: Cores) -> dict[str, Any]:
    """Call all servers in turn; returns their rows with ratios to each of the `bases`, and what was not available."""
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        sites: dict[str, Site] = {}
        for group in groups:
            try:
                sites |= group.start(stack, cores)
            except NotAvailable as reason:
                missing |= dict.fromkeys(group.what, str(reason))
        ways = {name: way for group in groups for name, way in group.call.items()}
        given = [[site, ways.get(name, "")] for name, site in sites.items()]
        seconds = len(sites) * (1 + plan.turns) * (plan.warm + plan.seconds + _SECONDS_PER_TURN) + _SPARE_SECONDS
        try:
            found = child.run(drive, cores.load, seconds, sites=given, plan=asdict(plan)) if sites else []
        except NotAvailable as reason:
            found, missing = [], missing | dict.fromkeys(sites, str(reason))
    turns = {name: [Turn(**turn) for turn in of[1:]] for name, of in zip(sites, found, strict=False)}
    for name, of in turns.items():
        if not all(turn.calls for turn in of):
            missing[name] = "; ".join(["in some turn no call completed", *_errors(of)])
    kept = {name: of for name, of in turns.items() if name not in missing}
    what = {name: text for group in groups for name, text in group.what.items()}
    return {"plan": asdict(plan), "what": what, "rows": rows(kept, bases), "not_available": missing}


def rows(turns: Mapping[str, Sequence[Turn]], bases: Sequence[str]) -> list[dict[str, Any]]:
    """The medians of each server over its turns; times in seconds. `to` has for each base, turn by turn, the ratio of
    calls per second, of CPU (how many calls it completed with the CPU of one call of the base), and of the p50.

    `busy` is the server's share of its core: well below 1, something else used that core, and CPU per call says more
    than calls per second. `load_busy` near 1: the generator was the limit.
    """
    return [_row(name, of, {base: turns[base] for base in bases if base in turns}) for name, of in turns.items()]


def _row(name: str, turns: Sequence[Turn], bases: Mapping[str, Sequence[Turn]]) -> dict[str, Any]:
    pairs = {base: list(zip(turns, others, strict=True)) for base, others in bases.items()}
    return {
        "server": name,
        "rate": median(turn.rate for turn in turns),
        **{f"{place}_cpu": median(getattr(turn, place) / turn.calls for turn in turns)
           for place in ("server", "store", "router")},
        "busy": median(turn.server / turn.seconds for turn in turns),
        "load_busy": median(turn.load / turn.seconds for turn in turns),
        "p50": median(turn.p50 for turn in turns),
        "p50s": [turn.p50 for turn in turns],
        "errors": _errors(turns),
        "to": {base: {"rate": [one.rate / other.rate for one, other in both],
                      "cpu": [other.cost / one.cost for one, other in both],
                      "p50": [one.p50 / other.p50 for one, other in both]}
               for base, both in pairs.items()},
    }  # fmt: skip


def _errors(turns: Sequence[Turn]) -> dict[str, int]:
    return dict(sum((Counter(turn.errors) for turn in turns), Counter[str]()))


# ---- what runs in the process of the load

Complete = Callable[[Connection, int, weather.Call], Awaitable[tuple[float, float]]]
"""What runs one call on a channel to a port, checks its result, and returns the seconds of its two rounds."""


@dataclass(slots=True)
class Tally:
    """What the workers of a turn have seen so far."""

    rounds: list[float] = field(default_factory=list)
    """Their seconds; two for each call that came to its end."""
    errors: Counter[str] = field(default_factory=Counter)
    stopping: bool = False


async def complete_call(channel: Connection, port: int, call: weather.Call) -> tuple[float, float]:
    """Run one call to its checked result, and return the seconds of its two rounds."""
    began = time.perf_counter()
    reply = await channel.request(weather.first_round(port, call))
    asked = time.perf_counter()
    question = weather.read_question(reply)
    resumed = time.perf_counter()
    reply = await channel.request(weather.second_round(port, call, question))
    done = time.perf_counter()
    weather.check_result(reply, call)
    return asked - began, done - resumed


async def drive(sites: Sequence[tuple[Sequence[int], str]], plan: Mapping[str, Any]) -> list[list[Turn]]:
    """All turns of each site, which comes with the name of its `Complete`."""
    gc.disable()  # a run is short and its garbage acyclic; a pass here would look like a slow server
    numbers, chosen = itertools.count(1), Plan(**plan)
    places = [(Site(*site), pkgutil.resolve_name(way) if way else complete_call) for site, way in sites]
    found: list[list[Turn]] = [[] for _ in sites]
    for _ in range(1 + chosen.turns):
        for (site, complete), turns in zip(places, found, strict=True):
            try:
                turns.append(await _turn(site, complete, numbers, chosen))
            except ProcessLookupError as error:
                turns.append(Turn(errors={str(error): 1}))
    return found


async def _turn(site: Site, complete: Complete, numbers: Iterator[int], plan: Plan) -> Turn:
    tally = Tally()
    workers = [asyncio.create_task(_work(site.port, numbers, tally, complete)) for _ in range(plan.connections)]
    try:
        await asyncio.sleep(plan.warm)
        before, start = len(tally.rounds), _now(site)
        await asyncio.sleep(plan.seconds)
        seconds, server, store, router, load = (late - early for late, early in zip(_now(site), start, strict=True))
        rounds = tally.rounds[before:]
    finally:
        tally.stopping = True
        _, unanswered = await asyncio.wait(workers, timeout=_GRACE_SECONDS)
        for worker in unanswered:
            worker.cancel()
    if unanswered:
        tally.errors[f"unanswered {_GRACE_SECONDS:.0f} s after the end"] += len(unanswered)
    return Turn(
        len(rounds) // 2,
        seconds,
        server,
        store,
        router,
        load,
        p50=percentile(rounds, 0.50),
        errors=dict(tally.errors),
    )


async def _work(port: int, numbers: Iterator[int], tally: Tally, complete: Complete) -> None:
    channel: Connection | None = None
    while not tally.stopping:
        try:
            channel = channel or await Connection.open(port)
            took = await complete(channel, port, weather.make_call(next(numbers)))
        except CallError as error:
            tally.errors[str(error)] += 1
        except OSError as error:
            tally.errors[type(error).__name__] += 1
            channel = None
            await asyncio.sleep(_RECONNECT_SECONDS)
        else:
            tally.rounds += took
    if channel is not None:
        with contextlib.suppress(OSError):
            channel.close()


def _now(site: Site) -> tuple[float, ...]:
    """The instant, and CPU seconds of the server, the store, the router and this process so far."""
    spent = (cpu_seconds(pid) if pid else 0.0 for pid in (site.server, site.store, site.router))
    return (time.perf_counter(), *spent, time.process_time())

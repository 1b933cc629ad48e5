"""The series: one thing of the load or of the fleet at several values, all else as undisturbed.

Each point is a load of its own on a site that was warmed. Points that differ only in the load share a site; another
number of nodes and a store that is far away need sites of their own. The point that all series have in common is
measured once. Each turn measures all points, and options follow each other within a turn.

What a waiting call weighs is found out first, for each size of state on a site of its own. On a site that has held
other calls before, processes use their freed memory again, and do not grow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.report.data import Measured, Point, Sweep
from framehold_loadtest.tradeoff import meter
from framehold_loadtest.tradeoff.conditions import START
from framehold_loadtest.tradeoff.metrics import Metrics, metrics, missing
from framehold_loadtest.tradeoff.options import FAR, Option
from framehold_loadtest.tradeoff.pace import PLAIN, Pace, Shape
from framehold_loadtest.tradeoff.site import FleetSite, HandSite
from framehold_loadtest.tradeoff.stage import Stage
from framehold_loadtest.tradeoff.turns import Turned, merged

Make = Callable[[Path, Pace], FleetSite | HandSite]
LEFT_OUT = ("E naive",)
"""Options that differ from another one only in their harm."""
THINK, ROUNDS, STATE, NODES, STORE, LOAD = "think time", "rounds", "state", "nodes", "store", "load"
FULL_LOAD = 100.0
VALUES = {THINK: (0.0, 1.0, 60.0), ROUNDS: (1.0, 3.0, 6.0), STATE: (0.0, 1024.0, 16384.0), NODES: (1.0, 3.0, 6.0),
          STORE: (0.0, FAR * 1e3), LOAD: (10.0, 30.0, FULL_LOAD)}  # fmt: skip
UNITS = {THINK: "s", ROUNDS: "", STATE: "bytes", NODES: "", STORE: "ms", LOAD: "% of the calls per second"}
_IDLE_SECONDS = 2.0
_LIGHT_THINK = 0.1
"""How long users think, in seconds, where a part of the load is offered: their number makes the part."""
_LONGER = 3
"""How many times longer than the other points those last where a part of the load is offered, which have fewer calls,
and those of the series of states, of which the calculator takes small differences."""
_PARKED_A_SECOND = 200.0
_USED = ("cpu_us", "calls_per_second", "wait_p50_ms", "wire_bytes", "store_ops", "memory_bytes", "bytes_per_parked")
Key = tuple[str, float]


@dataclass(frozen=True, slots=True)
class _Place:
    """A point on the site that is up: the series it belongs to, each with its value, and its load."""

    keys: tuple[Key, ...]
    shape: Shape = PLAIN
    crowded: bool = False
    heavy: bool = False
    part: float = 0.0
    """The part of the first point's calls per second that is offered, in percent; 0 where it is another number."""

    @property
    def points(self) -> int:
        """How many times as long as a usual point it lasts."""
        return _LONGER if self.part or self.heavy else 1


@dataclass(slots=True)
class Found:
    """What the turns brought: by option and point the turns of the point, and by option what it takes while idle."""

    points: dict[tuple[str, Key], list[Turned]]
    idle: dict[str, list[dict[str, float]]]

    @classmethod
    def empty(cls) -> Found:
        """Nothing yet."""
        return cls({}, {})

    def sweeps(self, options: Sequence[str]) -> list[Sweep]:
        """The series."""
        found = []
        for name, values in VALUES.items():
            points = [Point(option=option, x=x, metrics=merged(turns)) for option in options for x in values
                      if (turns := self.points.get((option, (name, x))))]  # fmt: skip
            found.append(Sweep(name=name, unit=UNITS[name], points=points))
        return [sweep for sweep in found if sweep.points]

    def at_rest(self) -> dict[str, dict[str, float]]:
        """By option the means of what it takes while idle."""
        return {option: {name: sum(turn[name] for turn in turns) / len(turns) for name in turns[0]}
                for option, turns in self.idle.items()}  # fmt: skip


def lasts(pace: Pace, option: Option) -> float:
    """About how many seconds one turn of all points takes."""
    near = START + pace.warm + _IDLE_SECONDS + sum(place.points * pace.point + 1.0 for place in _near(pace, option))
    near += len(VALUES[STATE]) * (START + pace.warm + pace.heavy / _PARKED_A_SECOND)
    nodes = sum(START * max(1.0, count / 3) + pace.warm + pace.point for count in VALUES[NODES] if count != pace.nodes)
    return near + nodes + (START + pace.warm + pace.point if option.far else 0.0)


def play(folder: Path, option: Option, pace: Pace, found: Found, tell: Callable[[str], None]) -> None:
    """One turn of all points of an option. Where a site can't be served its points have the reason."""
    weights = _weights(folder, option, pace, tell)
    for number, (make, nodes, places) in enumerate(_sites(option, pace)):
        home = folder / f"site-{number}"
        home.mkdir(parents=True)
        calm = replace(pace, thinkers=0, nodes=nodes)
        done: set[Key] = set()
        try:
            with contextlib.ExitStack() as stack:
                site = make(home, calm)
                site.start(stack)
                stage = Stage(site, calm, option.caller)
                port = site.front(stack, sticky=True)
                stage.warm(port)
                if number == 0:
                    operations, seconds = stage.idle(min(_IDLE_SECONDS, 2 * pace.point))
                    found.idle.setdefault(option.name, []).append(
                        {"store_ops": operations, "cpu_s": seconds, "nodes": nodes}
                    )
                first: Turned | None = None
                for place in places:
                    turned = _turned(stage, port, place, weights, _rate(first))
                    first = first or turned
                    for key in place.keys:
                        found.points.setdefault((option.name, key), []).append(turned)
                        done.add(key)
        except (NotAvailable, OSError) as reason:
            tell(f"    not available with {nodes} nodes: {reason}")
            gap = Turned(missing(" ".join(str(reason).split())))
            for key in {key for place in places for key in place.keys} - done:
                found.points.setdefault((option.name, key), []).append(gap)


Weights = Mapping[float, Mapping[str, float]]
"""Bytes of a waiting call by place, by the size of its state."""


def _weights(folder: Path, option: Option, pace: Pace, tell: Callable[[str], None]) -> Weights:
    """What a waiting call weighs. Empty where a site can't be served."""
    found: dict[float, Mapping[str, float]] = {}
    try:
        for size in VALUES[STATE]:
            home = folder / f"weighed-{size:.0f}"
            home.mkdir(parents=True)
            with contextlib.ExitStack() as stack:
                site = option.make(home, pace)
                site.start(stack)
                stage = Stage(site, replace(pace, thinkers=0), option.caller)
                port = site.front(stack, sticky=True)
                stage.warm(port)
                found[size] = stage.weighed(port, pace.heavy, replace(PLAIN, size=int(size)))
    except (NotAvailable, OSError) as reason:
        tell(f"    no waiting call could be weighed: {reason}")
    return found


def _sites(option: Option, pace: Pace) -> Iterator[tuple[Make, int, list[_Place]]]:
    yield option.make, pace.nodes, list(_near(pace, option))
    for count in VALUES[NODES]:
        if count != pace.nodes:
            yield option.make, int(count), [_Place(((NODES, count),))]
    if option.far:
        yield option.far, pace.nodes, [_Place(((STORE, FAR * 1e3),))]


def _near(pace: Pace, option: Option) -> Iterator[_Place]:
    """The points that differ in their load alone; the first is common to all series."""
    common = [(ROUNDS, float(PLAIN.rounds)), (STATE, 0.0), (LOAD, FULL_LOAD)]
    if option.far:
        common.append((STORE, 0.0))
    if float(pace.nodes) in VALUES[NODES]:
        common.append((NODES, float(pace.nodes)))
    yield _Place(tuple(common), heavy=True)
    for seconds in VALUES[THINK]:
        yield _Place(((THINK, seconds),), replace(PLAIN, think=seconds), crowded=True)
    for rounds in VALUES[ROUNDS]:
        if rounds != PLAIN.rounds:
            yield _Place(((ROUNDS, rounds),), replace(PLAIN, rounds=int(rounds)))
    for part in VALUES[LOAD]:
        if part != FULL_LOAD:
            yield _Place(((LOAD, part),), replace(PLAIN, think=_LIGHT_THINK), part=part)
    for size in VALUES[STATE]:
        if size:
            yield _Place(((STATE, size),), replace(PLAIN, size=int(size)), heavy=True)


def _rate(first: Turned | None) -> float:
    """The calls per second of a site's first point; 0 before there is one, or where it has none."""
    found = first.metrics["calls_per_second"] if first else None
    return found.value if isinstance(found, Measured) else 0.0


def _users(place: _Place, pace: Pace, rate: float) -> int:
    """How many users call at a point, on a site that carries so many calls per second."""
    if place.crowded:
        return pace.crowd
    if place.part:
        return max(1, round(rate * place.part / 100 * (place.shape.rounds - 1) * place.shape.think))
    return pace.users


def _turned(stage: Stage, port: int, place: _Place, weights: Weights, rate: float) -> Turned:
    """One turn of a point."""
    calm = stage.pace
    stage.pace = replace(calm, users=_users(place, calm, rate))
    try:
        seen = stage.undisturbed(port, place.shape, calm.point * place.points)
    finally:
        stage.pace = calm
    if place.heavy:
        seen = replace(seen, parked=weights.get(place.shape.size, {}))
    found = metrics(seen, place.shape.rounds) | (_held(seen.waiting, weights.get(0.0, {})) if place.crowded else {})
    return Turned(kept(found), meter.busy(seen.cores))


def kept(found: Metrics) -> Metrics:
    """What the plots and the calculator use of a point. The rest would make the report three times as long."""
    return {name: one for name, one in found.items() if name.startswith(_USED)}


def _held(waiting: float, weight: Mapping[str, float]) -> Metrics:
    """The memory of the calls that wait at a time, by what one of them weighs. What processes grow by under a load
    would not show it: memory that they had freed is used again."""
    return {f"memory_bytes_{place}": Measured(value=waiting * size, unit="bytes") for place, size in weight.items()}

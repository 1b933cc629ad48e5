"""The series that the calculator rests on: rounds, state and load at several values, all else as undisturbed.

Each point is a load of its own on a site that was warmed; the point that all series have in common is measured once.
Each turn measures all points, and options follow each other within a turn.

What a waiting call weighs is found out first, for each size of state on a site of its own. On a site that has held
other calls before, processes use their freed memory again, and do not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.report.data import Measured, Point, Sweep
from framehold_loadtest.tradeoff import meter
from framehold_loadtest.tradeoff.metrics import Metrics, Turned, merged, metrics, missing
from framehold_loadtest.tradeoff.options import Option
from framehold_loadtest.tradeoff.pace import PLAIN, Pace, Shape
from framehold_loadtest.tradeoff.stage import Stage, staged

LEFT_OUT = ("E naive",)
"""Options that differ from another one only in their harm."""
ROUNDS, STATE, LOAD = "rounds", "state", "load"
FULL_LOAD = 100.0
VALUES = {ROUNDS: (1.0, 3.0, 6.0), STATE: (0.0, 1024.0, 16384.0), LOAD: (10.0, 30.0, FULL_LOAD)}
UNITS = {ROUNDS: "", STATE: "bytes", LOAD: "% of the calls per second"}
_IDLE_SECONDS = 2.0
_LIGHT_THINK = 0.1
"""How long users think, in seconds, where a part of the load is offered: their number makes the part."""
_LONGER = 3
"""How many times longer than the other points those last where a part of the load is offered, which have fewer calls,
and those of the series of states, of which the calculator takes small differences."""
_USED = ("cpu_us", "calls_per_second", "wait_p50_ms", "wire_bytes", "store_ops", "bytes_per_parked")
Key = tuple[str, float]


@dataclass(frozen=True, slots=True)
class _Place:
    """A point: the series it belongs to, each with its value, and its load. `part` is the part of the first point's
    calls per second that is offered, in percent; 0 where users answer at once."""

    keys: tuple[Key, ...]
    shape: Shape = PLAIN
    heavy: bool = False
    part: float = 0.0

    @property
    def points(self) -> int:
        """How many times as long as a usual point it lasts."""
        return _LONGER if self.part or self.heavy else 1


_COMMON = _Place(((ROUNDS, float(PLAIN.rounds)), (STATE, 0.0), (LOAD, FULL_LOAD)), heavy=True)
_PLACES = (
    _COMMON,
    *(_Place(((ROUNDS, count),), replace(PLAIN, rounds=int(count))) for count in VALUES[ROUNDS]
      if count != PLAIN.rounds),
    *(_Place(((LOAD, part),), replace(PLAIN, think=_LIGHT_THINK), part=part) for part in VALUES[LOAD]
      if part != FULL_LOAD),
    *(_Place(((STATE, size),), replace(PLAIN, size=int(size)), heavy=True) for size in VALUES[STATE] if size),
)  # fmt: skip


@dataclass(slots=True)
class Found:
    """What the turns brought: by option and point the turns of the point, and by option what it takes while idle."""

    points: dict[tuple[str, Key], list[Turned]] = field(default_factory=dict)
    idle: dict[str, list[dict[str, float]]] = field(default_factory=dict)

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


def play(folder: Path, option: Option, pace: Pace, found: Found, tell: Callable[[str], None]) -> None:
    """One turn of all points of an option. Where a site can't be served its points have the reason."""
    calm, done = replace(pace, thinkers=0), set[Key]()
    weights: dict[float, Mapping[str, float]] = {}
    first: Turned | None = None
    try:
        for size in VALUES[STATE]:
            with staged(option, calm, folder / f"weighed-{size:.0f}") as (stage, port):
                weights[size] = stage.weighed(port, pace.heavy, replace(PLAIN, size=int(size)))
        with staged(option, calm, folder / "called") as (stage, port):
            operations, seconds = stage.idle(min(_IDLE_SECONDS, 2 * pace.point))
            at_rest = {"store_ops": operations, "cpu_s": seconds, "nodes": pace.nodes}
            found.idle.setdefault(option.name, []).append(at_rest)
            for place in _PLACES:
                turned = _turned(stage, port, place, weights, _rate(first))
                first = first or turned
                for key in place.keys:
                    found.points.setdefault((option.name, key), []).append(turned)
                    done.add(key)
    except (NotAvailable, OSError) as reason:
        tell(f"    not available: {reason}")
        gap = Turned(missing(" ".join(str(reason).split())))
        for key in {key for place in _PLACES for key in place.keys} - done:
            found.points.setdefault((option.name, key), []).append(gap)


def _rate(first: Turned | None) -> float:
    """The calls per second of the first point; 0 before there is one, or where it has none."""
    found = first.metrics["calls_per_second"] if first else None
    return found.value if isinstance(found, Measured) else 0.0


def _turned(
    stage: Stage, port: int, place: _Place, weights: Mapping[float, Mapping[str, float]], rate: float
) -> Turned:
    """One turn of a point, on a site that carries so many calls per second."""
    calm = stage.pace
    users = max(1, round(rate * place.part / 100 * (place.shape.rounds - 1) * place.shape.think))
    stage.pace = replace(calm, users=users) if place.part else calm
    try:
        seen = stage.seen(lambda stage: stage.run(calm.point * place.points), port, place.shape)
    finally:
        stage.pace = calm
    if place.heavy:
        seen = replace(seen, parked=weights.get(place.shape.size, {}))
    return Turned(kept(metrics(seen, place.shape.rounds)), meter.busy(seen.cores))


def kept(found: Metrics) -> Metrics:
    """What the calculator uses of a point. The rest would make the report three times as long."""
    return {name: one for name, one in found.items() if name.startswith(_USED)}

"""What a load of one's own would cost with each option: sums over constants that a run measured.

The constants are the figures of the series: what a call costs by its number of rounds, and what its state adds by the
state's size, to store operations once for a call and to other costs for each question; what a fleet takes while nobody
calls; and the share of calls that each fault harmed. Cores are a range: turns of one point differ, and each cost of CPU
is calculated with the cheapest turn and with the dearest one. Between measured numbers of rounds, and between measured
sizes, the cost is on the line between them, and beyond the last on that line's continuation.

A fleet that is hardly used takes more CPU for a request than one at its limit, because each wait costs. So cores are
those that the measured fleet used at so many requests per second. The rest of a call's CPU, that of its state for
example, is work: it does not depend on the load, and is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from framehold_loadtest.local.listeners import ROOT
from framehold_loadtest.report.data import Measured, Missing, Point, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, Value, value
from framehold_loadtest.table import Table, number
from framehold_loadtest.tradeoff.pace import ROUNDS
from framehold_loadtest.tradeoff.series import LOAD, STATE
from framehold_loadtest.tradeoff.series import ROUNDS as BY_ROUNDS

FILE = "constants.json"
KEPT = ROOT / "loadtest" / "reports" / "tradeoff" / FILE
"""Those of the last run that the repository keeps."""
_KIB = 1024.0
_COSTS = {"cpu_us": "cpu_us", "wire_bytes": "wire_bytes", "store_ops": "store_ops", "wait_p50_ms": "wait_ms"}
_OPERATIONS = "store_ops"
"""The cost that a state adds to once for a call: what a call keeps is written once."""
_PARKED = "bytes_per_parked_call"
_Metrics = Mapping[str, Measured | Missing]
_Number = TypeVar("_Number", int, float)


class OfOption(BaseModel):
    """The constants of one option. `by_rounds` has for each cost its value for each measured number of rounds;
    `by_load` the cores used at so many calls per second; `of_state` what a state of so many bytes adds to the store
    operations of a call, to each other cost for a question, and to the memory of a parked call; `idle` what the fleet
    takes each second while nobody calls, and its `nodes`; `lost` and `repeated` the share of calls that each condition
    harmed, in 0..1; `turns` the CPU of the cheapest and of the dearest turn, as multiples of its point's median."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by_rounds: dict[str, dict[int, float]]
    by_load: dict[float, float]
    of_state: dict[str, dict[float, float]]
    parked_bytes: float
    idle: dict[str, float]
    lost: dict[str, float]
    repeated: dict[str, float]
    turns: tuple[float, float]


class Constants(BaseModel):
    """What a run measured of each option; `missing` says why an option has none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["tradeoff-constants"] = "tradeoff-constants"
    commit: str
    started: str
    machine: str
    nodes: str
    options: dict[str, OfOption]
    missing: dict[str, str] = {}


def constants(found: Tradeoff) -> Constants:
    """Those of a run."""
    known: dict[str, OfOption] = {}
    gaps: dict[str, str] = {}
    for option in found.options:
        try:
            known[option] = _of_option(found, option)
        except LookupError as gap:
            gaps[option] = str(gap.args[0])
    machine, fleet = found.machine.get("machine", ""), found.machine.get("fleet", "")
    return Constants(
        commit=found.commit, started=found.started, machine=machine, nodes=fleet, options=known, missing=gaps
    )


def _of_option(found: Tradeoff, option: str) -> OfOption:
    rounds = {int(point.x): point.metrics for point in _points(found, BY_ROUNDS, option)}
    sizes = {point.x: point.metrics for point in _points(found, STATE, option)}
    loads = [point.metrics for point in _points(found, LOAD, option)]
    if len(rounds) < 2 or len(sizes) < 2 or len(loads) < 2:
        raise LookupError("the run has no series of it")
    idle = found.idle.get(option, {})
    by_load = {0.0: idle.get("cpu_s", 0.0)}
    by_load |= {rate: rate * _number(metrics, "cpu_us") / 1e6 for metrics in loads
                if (rate := _number(metrics, "calls_per_second"))}  # fmt: skip
    added = {name: _added(sizes, metric, _times(name, ROUNDS - 1)) for metric, name in _COSTS.items()}
    added["parked_bytes"] = _added(sizes, _PARKED, 1)
    return OfOption(
        by_rounds={name: {count: _number(metrics, metric) for count, metrics in sorted(rounds.items())}
                   for metric, name in _COSTS.items()},
        by_load=dict(sorted(by_load.items())),
        of_state=added,
        parked_bytes=_number(sizes[0.0], _PARKED),
        idle=idle,
        lost=_shares(found, option, "lost_share"),
        repeated=_shares(found, option, "repeated_share"),
        turns=_turns([*rounds.values(), *sizes.values(), *loads]),
    )  # fmt: skip


def _turns(points: Sequence[_Metrics]) -> tuple[float, float]:
    """Between which multiples of its point's median the CPU of each turn lies."""
    seen = [value(metrics, BY_NAME["cpu_us"]) for metrics in points]
    ratios = [turn / one.number for one in seen if isinstance(one, Value) for turn in one.turns if one.number]
    return min(ratios, default=1.0), max(ratios, default=1.0)


def _times(name: str, questions: float) -> float:
    """How many times a call of so many questions pays what its state adds to a cost."""
    return 1 if name == _OPERATIONS else questions


def _added(sizes: Mapping[float, _Metrics], metric: str, times: float) -> dict[float, float]:
    """By size, what a state adds to a metric each of so many times. A larger state adds no less."""
    none, most, added = _number(sizes[0.0], metric), 0.0, {}
    for size in sorted(sizes):
        most = max(most, (_number(sizes[size], metric) - none) / times)
        added[size] = most
    return added


def _points(found: Tradeoff, name: str, option: str) -> list[Point]:
    return [point for sweep in found.series if sweep.name == name for point in sweep.points if point.option == option]


def _number(metrics: _Metrics, name: str) -> float:
    found = value(metrics, BY_NAME[name])
    if isinstance(found, Missing):
        raise LookupError(f"{name}: {found.missing}")
    return found.number


def _shares(found: Tradeoff, option: str, name: str) -> dict[str, float]:
    seen = {under: value(found.metrics(option, under), BY_NAME[name]) for under in found.conditions}
    return {under: one.number / 100 for under, one in seen.items() if isinstance(one, Value)}


@dataclass(frozen=True, slots=True)
class Case:
    """A load: so many `users`, each of whom is always in a call of so many `rounds`, and `think`s for so many seconds
    before each answer, of a tool that keeps `state` bytes between its rounds; on so many `nodes`."""

    users: float = 1000
    rounds: float = ROUNDS
    think: float = 30.0
    state: float = 0.0
    nodes: float = 3

    @classmethod
    def read(cls, words: Sequence[str]) -> Case:
        """From words such as `users=1000`.

        Raises:
            ValueError: a word is none of these; the message says so.
        """
        known = [field.name for field in fields(cls)]
        given: dict[str, float] = {}
        for word in words:
            name, _, figure = word.partition("=")
            try:
                given[name] = float(figure)
            except ValueError:
                raise ValueError(f"{word!r} is no number of something; write users=1000") from None
            if name not in known or not 0 <= given[name] < float("inf"):
                raise ValueError(f"{word!r} can't be used; there are: {', '.join(known)}, none below 0")
        made = cls(**given)
        if made.rounds < 1 or made.nodes < 1 or made.users < 1:
            raise ValueError("a load has one user, one round and one node at least")
        return made


@dataclass(frozen=True, slots=True)
class Cost:
    """What a load costs with an option: each second, and at any time."""

    calls: float
    cores: tuple[float, float]
    """By the cheapest turn that the constants rest on, and by the dearest."""
    parked: float
    memory: float
    operations: float
    sent: float
    lost: float
    """Calls that are lost when one node is killed."""
    unanswered: float
    """The share of calls that are lost where the reply to their last round is lost."""
    repeated: float
    """The share of calls with a repeated effect where the reply to their last round is lost."""
    always: float
    """The share of calls with a repeated effect undisturbed."""


def cost(case: Case, of: OfOption) -> Cost:
    """Of one option."""
    questions = case.rounds - 1
    fleet = case.nodes / of.idle.get("nodes", 3)

    def each(name: str) -> float:
        return along(of.by_rounds[name], case.rounds) + along(of.of_state[name], case.state) * _times(name, questions)

    calls = case.users / (questions * case.think + each("wait_ms") / 1e3)
    cores = _cores(of, calls, case.rounds, each("cpu_us"), fleet)
    parked = calls * questions * case.think
    return Cost(
        calls=calls,
        cores=(cores * of.turns[0], cores * of.turns[1]),
        parked=parked,
        memory=parked * (of.parked_bytes + along(of.of_state["parked_bytes"], case.state)),
        operations=calls * each("store_ops") + of.idle.get("store_ops", 0.0) * fleet,
        sent=calls * each("wire_bytes"),
        lost=parked * min(1.0, of.lost.get("node killed", 0.0) / fleet),
        unanswered=of.lost.get("reply lost", 0.0),
        repeated=of.repeated.get("reply lost", 0.0),
        always=of.repeated.get("steady", 0.0),
    )


def _cores(of: OfOption, calls: float, rounds: float, cpu_us: float, fleet: float) -> float:
    """What a fleet uses at so many calls per second of so many rounds, each of which takes `cpu_us` at the measured
    fleet's limit. `fleet` is the fleet's size as a multiple of the measured one's."""
    alike = rounds / ROUNDS  # measured calls with as many requests
    beyond = cpu_us - along(of.by_rounds["cpu_us"], ROUNDS) * alike
    return max(0.0, fleet * _used(of, calls * alike / fleet) + calls * beyond / 1e6)


def _used(of: OfOption, rate: float) -> float:
    """What the measured fleet uses at so many calls per second. Beyond its limit a call costs what it costs there."""
    limit = max(of.by_load)
    return of.by_load[limit] * rate / limit if rate > limit else along(of.by_load, rate)


def along(known: Mapping[_Number, float], at: float) -> float:
    """What belongs to a place between known ones: on the line through its neighbours, never below 0."""
    places = sorted(known)
    left, right = next(((low, high) for low, high in pairwise(places) if at <= high), (places[-2], places[-1]))
    slope = (known[right] - known[left]) / (right - left)
    return max(0.0, known[left] + slope * (at - left))


_HEADS = ("option", "calls/s", "cores", "waiting calls", "memory, MiB", "store operations/s", "MB/s",
          "calls lost when a node is killed", "repeat an effect", "last reply lost: call lost",
          "last reply lost: effect repeated")  # fmt: skip


def table(case: Case, known: Constants) -> Table:
    """A load with each option."""
    lines = [_line(name, cost(case, of)) for name, of in known.options.items()]
    title = (
        f"{case.users:g} users, {case.rounds:g} rounds, {case.think:g} s of thought, {case.state:g} bytes of state, "
        f"{case.nodes:g} nodes"
    )
    notes = (
        f"Measured at commit {known.commit}, {known.started}, on {known.machine}; {known.nodes}.",
        "Cores are of that machine, by the cheapest and by the dearest turn, without the CPU that calls of real tools"
        " need. Memory is beyond that of the idle"
        " processes. Lost calls are those of a node that holds its equal part of the waiting calls; one that holds more"
        " loses more.",
    )
    return Table(title, [_HEADS, *lines], notes, known.missing)


def _line(name: str, found: Cost) -> list[str]:
    return [
        name,
        number(found.calls),
        " to ".join(map(number, found.cores)),
        number(found.parked),
        number(found.memory / _KIB**2),
        number(found.operations),
        number(found.sent / 1e6),
        number(found.lost),
        f"{found.always:.0%}",
        f"{found.unanswered:.0%}",
        f"{found.repeated:.0%}",
    ]


def read(path: Path) -> Constants:
    """The constants in a file.

    Raises:
        OSError: it can't be read.
        ValueError: it holds none.
    """
    return Constants.model_validate_json(path.read_bytes())


def write(found: Constants, folder: Path) -> Path:
    """Write them beside a report."""
    path = folder / FILE
    path.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return path

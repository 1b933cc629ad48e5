"""The calculator beside fleets that are new to it: `python -m framehold_loadtest.tradeoff.verify [CONSTANTS]`.

Each case of `CASES` is calculated, and then served and called, in several turns. The program prints the calculated
figure beside the median of the measured ones. It exits with 1 where they differ by more than LIMIT, or where the
machine was busy. Cores are also compared as multiples of those of option E in the same turn: so it shows whether a
difference is of an option, or of a machine that is faster or slower than when the constants were measured.

Law: a case differs from every point of the series in more than one value.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from framehold_loadtest.bench.tables.table import Table
from framehold_loadtest.notes import ENDED
from framehold_loadtest.report.data import Measured, Missing
from framehold_loadtest.report.respects import BY_NAME, Value, value
from framehold_loadtest.report.words import number
from framehold_loadtest.tradeoff import calculator, meter
from framehold_loadtest.tradeoff.calculator import Case, OfOption, cost
from framehold_loadtest.tradeoff.metrics import Metrics, metrics
from framehold_loadtest.tradeoff.options import OPTIONS, Option
from framehold_loadtest.tradeoff.pace import FULL, Pace, Shape
from framehold_loadtest.tradeoff.stage import Stage
from framehold_loadtest.tradeoff.turns import Turned, merged

CASES = (
    Case(users=50, rounds=2, think=0.4, state=8192, nodes=2),
    Case(users=45, rounds=4, think=0.3, state=512, nodes=3),
    Case(users=70, rounds=5, think=0.4, state=0, nodes=4),
)
LIMIT = 0.2
"""The part of the measured figure by which the calculated one may differ."""
_TURNS = 5
_SECONDS = 8.0
"""How long a case is called at least, and for two calls of each user."""
_RATE, _CORES = "calls_per_second", "cores"
_YARDSTICK = "E"
_MULTIPLE = f"cores, as a multiple of {_YARDSTICK}'s"
_FLOORS = {_CORES: 0.02, "store operations/s": 5.0, "memory": 4096.0}
"""Differences that decide nothing, as the noise of idle processes: the memory's is for each waiting call."""


Found = dict[tuple[Case, str], list[Turned]]
"""The turns of each case with each option."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a case with an option, calculated and measured. `floor` is a difference that decides nothing."""

    case: Case
    option: str
    name: str
    calculated: float
    measured: Measured | Missing
    floor: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the figure was measured, and the two agree."""
        if isinstance(self.measured, Missing):
            return False
        return abs(self.calculated - self.measured.value) <= max(self.floor, LIMIT * self.measured.value)


def figures(case: Case, option: str, of: OfOption, turns: Sequence[Turned]) -> list[Figure]:
    """The figures of a case beside the medians of its turns, of which each has what `measured` returns."""
    expected = cost(case, of)
    calculated = {
        _RATE: expected.calls,
        _CORES: expected.cores,
        "store operations/s": expected.operations,
        "bytes/s": expected.sent,
        "waiting calls": expected.parked,
        "memory": expected.memory,
    }
    floors = _FLOORS | {"memory": _FLOORS["memory"] * expected.parked}
    cell = merged(turns)
    # Where the machine was busy, all figures are missing for the same reason.
    return [Figure(case, option, name, figure, cell.get(name, cell[_RATE]), floors.get(name, 0.0))
            for name, figure in calculated.items()]  # fmt: skip


def beside(case: Case, option: str, known: Mapping[str, OfOption], found: Found) -> Figure:
    """The cores of an option as a multiple of those of the yardstick."""
    turns = [Turned({_MULTIPLE: _multiple(one, other)}, one.busy or other.busy)
             for one, other in zip(found[case, option], found[case, _YARDSTICK], strict=True)]  # fmt: skip
    calculated = cost(case, known[option]).cores / cost(case, known[_YARDSTICK]).cores
    cell = merged(turns)
    return Figure(case, option, _MULTIPLE, calculated, cell.get(_MULTIPLE) or cell[_RATE])


def _multiple(one: Turned, other: Turned) -> Measured | Missing:
    cores, yardstick = one.metrics[_CORES], other.metrics[_CORES]
    if isinstance(cores, Missing) or isinstance(yardstick, Missing):
        return cores if isinstance(cores, Missing) else yardstick
    return Measured(value=cores.value / yardstick.value, unit="")


def measured(seen: Mapping[str, Measured | Missing], rate: float, waiting: float) -> Metrics:
    """The figures of one turn, from its metrics, its calls per second, and the mean number of calls that waited."""
    found: dict[str, float | Missing] = {
        _RATE: rate,
        _CORES: _times(rate / 1e6, seen, "cpu_us"),
        "store operations/s": _times(rate, seen, "store_ops"),
        "bytes/s": _times(rate, seen, "wire_bytes"),
        "waiting calls": waiting,
        "memory": _times(waiting, seen, "bytes_per_parked_call"),
    }
    # Their names say the units.
    return {name: one if isinstance(one, Missing) else Measured(value=one, unit="") for name, one in found.items()}


def _times(factor: float, seen: Mapping[str, Measured | Missing], name: str) -> float | Missing:
    found = value(seen, BY_NAME[name])
    return factor * found.number if isinstance(found, Value) else found


def served(case: Case, option: Option, folder: Path) -> Turned:
    """Serve a case and call it, for one turn. A waiting call is weighed on a site that has held no other one."""
    pace = replace(FULL, nodes=int(case.nodes), users=int(case.users), thinkers=0)
    shape = Shape(int(case.rounds), int(case.state), case.think)
    with _staged(option, pace, folder / "weighed") as (stage, port):
        weight = stage.weighed(port, pace.parked, shape)
    with _staged(option, pace, folder / "called") as (stage, port):
        seen = stage.undisturbed(port, shape, max(_SECONDS, 2 * (case.rounds - 1) * case.think))
    # Calls that ended in the time, over the time, would be too few by a part of a call for each user. A call that ended
    # after the time was cut short: nobody thinks longer than the load lasts.
    whole = [call for call in seen.quick.calls if call.outcome == ENDED and call.ended <= seen.ended]
    each = fmean(call.ended - call.began for call in whole)
    found = metrics(replace(seen, parked=weight), shape.rounds)
    return Turned(measured(found, case.users / each, seen.waiting), meter.busy(seen.cores))


@contextlib.contextmanager
def _staged(option: Option, pace: Pace, folder: Path) -> Iterator[tuple[Stage, int]]:
    """A site that was warmed, and the port of its front."""
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        site = option.make(folder, pace)
        site.start(stack)
        stage = Stage(site, pace, option.caller)
        port = site.front(stack, sticky=True)
        stage.warm(port)
        yield stage, port


def table(found: list[Figure]) -> Table:
    """All figures, with what differs by more than it may."""
    heads = ("case", "option", "figure", "calculated", "measured", "turns", "calculated to measured")
    return Table(f"The calculator beside fleets, to within {LIMIT:.0%}", [heads, *map(_line, found)])


def _line(one: Figure) -> list[str]:
    head = [_named(one.case), one.option, one.name.replace("_", " "), number(one.calculated)]
    if isinstance(one.measured, Missing):
        return [*head, "-", "-", f"NOT MEASURED: {one.measured.missing}"]
    low, high = min(one.measured.turns), max(one.measured.turns)
    return [*head, number(one.measured.value), f"{number(low)} to {number(high)}", _verdict(one, one.measured)]


def _verdict(one: Figure, seen: Measured) -> str:
    ratio = f"{one.calculated / seen.value:.2f}" if seen.value else "-"
    return ratio if one.holds else f"{ratio} DIFFERS"


def _named(case: Case) -> str:
    return f"{case.users:g} users, {case.rounds:g} rounds, {case.think:g} s, {case.state:g} bytes, {case.nodes:g} nodes"


def _all(known: calculator.Constants, turns: int) -> list[Figure]:
    """The figures of all cases with all options. Each turn has every one of them."""
    cells = [(case, name) for case in CASES for name in known.options]
    found: Found = {cell: [] for cell in cells}
    with tempfile.TemporaryDirectory(prefix="framehold-verify-") as folder:
        for turn in range(turns):
            for place, (case, name) in enumerate(cells):
                turned = served(case, OPTIONS[name], Path(folder) / f"{turn}-{place}")
                found[case, name].append(turned)
                busy = turned.busy and f"  NOT USED: {turned.busy}"
                print(f"turn {turn + 1} of {turns}  {_named(case)}  {name}{busy}", flush=True)
    each = [one for (case, name), seen in found.items() for one in figures(case, name, known.options[name], seen)]
    return each + [beside(case, name, known.options, found)
                   for case, name in cells if _YARDSTICK in known.options and name != _YARDSTICK]  # fmt: skip


def main() -> int:
    """Read the constants, and verify them."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = "of framehold bench tradeoff"
    parser.add_argument("constants", nargs="?", type=Path, default=calculator.KEPT, help=what)
    parser.add_argument("--turns", type=int, default=_TURNS, help=f"of each case; without it, {_TURNS}")
    given = parser.parse_args()
    found = _all(calculator.read(given.constants), given.turns)
    print(table(found).text())
    return 0 if found and all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())

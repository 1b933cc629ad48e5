"""The calculator beside fleets that are new to it: `python -m framehold_loadtest.tradeoff.verify [CONSTANTS]`.

Each case of `CASES` is calculated, and then served and called. The program prints both figures side by side. It exits
with 1 where they differ by more than LIMIT, or where the machine was busy.

Law: a case differs from every point of the series in more than one value.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from framehold_loadtest.bench.tables.table import Table
from framehold_loadtest.local.listeners import ROOT
from framehold_loadtest.notes import ENDED
from framehold_loadtest.report.data import Measured, Missing
from framehold_loadtest.report.respects import BY_NAME, Value, value
from framehold_loadtest.report.words import number
from framehold_loadtest.tradeoff import calculator, meter
from framehold_loadtest.tradeoff.calculator import Case, OfOption, cost
from framehold_loadtest.tradeoff.metrics import metrics
from framehold_loadtest.tradeoff.options import OPTIONS, Option
from framehold_loadtest.tradeoff.pace import FULL, Pace, Shape
from framehold_loadtest.tradeoff.stage import Stage

CASES = (
    Case(users=40, rounds=2, think=0.25, state=2048, nodes=3),
    Case(users=60, rounds=4, think=0.25, state=0, nodes=2),
    Case(users=80, rounds=5, think=0.5, state=4096, nodes=3),
)
LIMIT = 0.2
"""The part of the measured figure by which the calculated one may differ."""
_SECONDS = 8.0
"""How long a case is called at least, and for two calls of each user."""
_FLOORS = {"cores": 0.02, "store operations/s": 5.0, "memory, bytes": 4096.0}
"""Differences that decide nothing, as the noise of idle processes: the memory's is for each waiting call."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a case with an option, calculated and measured. `busy` says why the measurement can't be used."""

    case: Case
    option: str
    name: str
    calculated: float
    measured: float
    busy: str = ""
    floor: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the two agree, on a quiet machine."""
        return not self.busy and abs(self.calculated - self.measured) <= max(self.floor, LIMIT * self.measured)


def figures(
    case: Case,
    option: str,
    of: OfOption,
    seen: Mapping[str, Measured | Missing],
    rate: float,
    waiting: float,
    busy: str,
) -> list[Figure]:
    """The figures of a case beside those of a fleet: its metrics, its calls per second, and the mean number of calls
    that waited."""
    expected = cost(case, of)
    pairs = {
        "calls/s": (expected.calls, rate),
        "cores": (expected.cores, rate * _number(seen, "cpu_us") / 1e6),
        "store operations/s": (expected.operations, rate * _number(seen, "store_ops")),
        "bytes/s": (expected.sent, rate * _number(seen, "wire_bytes")),
        "waiting calls": (expected.parked, waiting),
        "memory, bytes": (expected.memory, waiting * _number(seen, "bytes_per_parked_call")),
    }
    floors = _FLOORS | {"memory, bytes": _FLOORS["memory, bytes"] * waiting}
    return [Figure(case, option, name, *pair, busy, floors.get(name, 0.0)) for name, pair in pairs.items()]


def _number(seen: Mapping[str, Measured | Missing], name: str) -> float:
    found = value(seen, BY_NAME[name])
    return found.number if isinstance(found, Value) else math.nan


def served(case: Case, option: Option, of: OfOption, folder: Path) -> list[Figure]:
    """Serve a case, call it, and compare. A waiting call is weighed on a site that has held no other one."""
    pace = replace(FULL, nodes=int(case.nodes), users=int(case.users), thinkers=0)
    shape = Shape(int(case.rounds), int(case.state), case.think)
    with _staged(option, pace, folder / "weighed") as (stage, port):
        weight = stage.weighed(port, pace.parked, shape)
    with _staged(option, pace, folder / "called") as (stage, port):
        seen = stage.undisturbed(port, shape, max(_SECONDS, 2 * (case.rounds - 1) * case.think))
    # Users begin together, so calls that ended in a time would be counted too high or too low by one for each user.
    each = fmean(call.ended - call.began for call in seen.quick.calls if call.outcome == ENDED)
    found = metrics(replace(seen, parked=weight), shape.rounds)
    return figures(case, option.name, of, found, case.users / each, seen.waiting, meter.busy(seen.cores))


@contextlib.contextmanager
def _staged(option: Option, pace: Pace, folder: Path) -> Iterator[tuple[Stage, int]]:
    """A site that was warmed, and the port of its front."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        site = option.make(folder, pace)
        site.start(stack)
        stage = Stage(site, pace, option.caller)
        port = site.front(stack, sticky=True)
        stage.warm(port)
        yield stage, port


def table(found: list[Figure]) -> Table:
    """All figures, with what differs by more than it may."""
    heads = ("case", "option", "figure", "calculated", "measured", "calculated to measured")
    lines = [
        [_named(one.case), one.option, one.name, number(one.calculated), number(one.measured), _verdict(one)]
        for one in found
    ]
    return Table(f"The calculator beside fleets, to within {LIMIT:.0%}", [heads, *lines])


def _named(case: Case) -> str:
    return f"{case.users:g} users, {case.rounds:g} rounds, {case.think:g} s, {case.state:g} bytes, {case.nodes:g} nodes"


def _verdict(one: Figure) -> str:
    ratio = f"{one.calculated / one.measured:.2f}" if one.measured else "-"
    return f"{ratio} NOT MEASURED: {one.busy}" if one.busy else ratio if one.holds else f"{ratio} DIFFERS"


def _all(known: calculator.Constants) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="framehold-verify-") as folder:
        for place, case in enumerate(CASES):
            for name, of in known.options.items():
                home = Path(folder) / f"{place}-{name.replace(' ', '-')}"
                home.mkdir()
                found = served(case, OPTIONS[name], of, home)
                print(
                    f"{_named(case)}  {name}: " + "  ".join(f"{one.name} {_verdict(one)}" for one in found), flush=True
                )
                yield from found


def main() -> int:
    """Read the constants, and verify them."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = ROOT / "docs" / "tradeoff" / calculator.FILE
    parser.add_argument("constants", nargs="?", type=Path, default=default, help="of framehold bench tradeoff")
    found = list(_all(calculator.read(parser.parse_args().constants)))
    print(table(found).text())
    return 0 if found and all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())

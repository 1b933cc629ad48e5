"""All options under all conditions, in turns, on the same machine.

In a turn the site of each option is started, measured under all conditions, and ended; the next turn begins with
another option. Each condition runs with fresh load, and leaves a site on which all nodes serve. The memory of parked
calls is measured last, when the processes have grown to their size. If an option can't be served, or a condition can't
be run, each of its cells has the reason. The series follow, in turns of their own.

Where the machine was busy in every cell of the first turn, nothing more is measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from framehold_loadtest.local.listeners import pick_cores
from framehold_loadtest.local.machine import describe
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.report.data import Cell, Tradeoff
from framehold_loadtest.tradeoff import meter, series
from framehold_loadtest.tradeoff.conditions import CONDITIONS, Condition
from framehold_loadtest.tradeoff.metrics import Metrics, Turned, merged, metrics, missing
from framehold_loadtest.tradeoff.options import OPTIONS, Option
from framehold_loadtest.tradeoff.pace import ROUNDS, Pace
from framehold_loadtest.tradeoff.record import Seen
from framehold_loadtest.tradeoff.stage import Stage, staged

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be compared, and where the processes' files go."""

    folder: Path
    pace: Pace
    options: Sequence[str] = tuple(OPTIONS)
    conditions: Sequence[str] = tuple(CONDITIONS)
    command: str = ""
    series: bool = True

    @property
    def swept(self) -> list[str]:
        """The options that the series measure."""
        return [name for name in self.options if self.series and name not in series.LEFT_OUT]

    def plan(self) -> str:
        """What is about to be done."""
        what = f"{self.pace.turns} turns of {len(self.options)} options under {len(self.conditions)} conditions"
        if self.swept:
            what += f", then {self.pace.series_turns} of {len(series.VALUES)} series of {len(self.swept)} options"
        return what


Turns = dict[tuple[str, str], list[Turned]]


def compare(order: Order, tell: Tell) -> Tradeoff:
    """Measure it all."""
    machine, started = describe(pick_cores()), time.gmtime()
    turns = _in_turns(order, tell)
    found = series.Found()
    if all(turned.busy for one in turns.values() for turned in one):
        tell("stopped after the first turn: the machine was busy in each cell")
    else:
        _in_series(order, found, tell)
    return Tradeoff(
        machine=machine | _facts(order.pace) | _left_out(turns),
        commit=machine["commit"],
        started=time.strftime("%Y-%m-%d %H:%M:%S UTC", started),
        command=order.command,
        options=list(order.options),
        conditions=list(order.conditions),
        cells=[Cell(option=name, condition=under, metrics=merged(one)) for (name, under), one in turns.items()],
        series=found.sweeps(order.swept),
        idle=found.at_rest(),
    )


def _in_turns(order: Order, tell: Tell) -> Turns:
    """The turns of each cell."""
    turns: Turns = {(name, under): [] for name in order.options for under in order.conditions}
    for turn in range(order.pace.turns):
        tell(f"turn {turn + 1} of {order.pace.turns}")
        at = replace(order, folder=order.folder / f"turn-{turn + 1}")
        for name in _rotated(order.options, turn):
            tell(f"{name}: {OPTIONS[name].what}" if turn == 0 else name)
            for under, turned in _option(at, OPTIONS[name], tell).items():
                turns[name, under].append(turned)
        if all(turned.busy for one in turns.values() for turned in one):
            break
    return turns


def _in_series(order: Order, found: series.Found, tell: Tell) -> None:
    for turn in range(order.pace.series_turns if order.swept else 0):
        tell(f"series, turn {turn + 1} of {order.pace.series_turns}")
        for name in _rotated(order.swept, turn):
            tell(f"  {name}")
            series.play(order.folder / f"series-{turn + 1}" / _folder(name), OPTIONS[name], order.pace, found, tell)


def _rotated(names: Sequence[str], turn: int) -> list[str]:
    """Each turn begins with another, so that none is always the first after another one's end."""
    first = turn % len(names)
    return [*names[first:], *names[:first]]


def _facts(pace: Pace) -> dict[str, str]:
    """What the figures depend on beside the machine."""
    return {
        "pinning": "HAProxy on one core; all other processes, and the load, wherever the system puts them",
        "turns": f"{pace.turns} of each cell, {pace.series_turns} of each point of a series",
        "load": f"{pace.users} users who answer at once, {pace.thinkers} who think: half of them answer within "
        f"{pace.spread:g} s of the first fault, half after the last; {ROUNDS} rounds a call; patient for "
        f"{pace.patience:g} s",
        "fleet": f"{pace.nodes} nodes, lease of {pace.lease_ttl:g} s, Redis writes each commit to disk",
        "faults": f"the killed node is away for {pace.away:g} s and its start, the store stands still for "
        f"{pace.pause:g} s",
    }


def _left_out(turns: Mapping[tuple[str, str], Sequence[Turned]]) -> dict[str, str]:
    busy, every = sum(turned.busy != "" for one in turns.values() for turned in one), sum(map(len, turns.values()))
    return {"turns left out": f"{busy} of {every}, because the machine was busy"}


def _option(order: Order, option: Option, tell: Tell) -> dict[str, Turned]:
    """One turn of its cells, by condition."""
    found: dict[str, Turned] = {}
    try:
        with staged(option, order.pace, order.folder / _folder(option.name)) as (stage, port):
            seen: dict[str, Seen] = {}
            for name in order.conditions:
                seen[name] = _condition(CONDITIONS[name], stage, port)
                found[name] = _turned(seen[name])
                tell(_progress(name, found[name]))
            first = order.conditions[0]
            weight = stage.weighed(port, order.pace.parked)
            found[first] = _turned(replace(seen[first], parked=weight))
            tell(f"  parked: {sum(weight.values()) / 1024:.1f} KiB for each of {order.pace.parked} calls")
    except (NotAvailable, OSError) as reason:
        tell(f"  not available: {reason}")
        gap = Turned(missing(" ".join(str(reason).split())))
        found |= {name: gap for name in order.conditions if name not in found}
    return found


def _folder(name: str) -> str:
    return name.replace(" ", "-")


def _turned(seen: Seen) -> Turned:
    return Turned(metrics(seen, ROUNDS), meter.busy(seen.cores))


def _condition(condition: Condition, stage: Stage, port: int) -> Seen:
    if condition.sticky:
        return stage.seen(condition.play, port, loses=condition.loses)
    with contextlib.ExitStack() as stack:
        return stage.seen(condition.play, stage.site.front(stack, sticky=False))


def _progress(name: str, turned: Turned) -> str:
    """One line of what a turn came to."""
    shown = f"  {name:15} " + "  ".join(_shown(turned.metrics)).replace("    nan", "      -")
    return f"{shown}  NOT USED: the machine was busy: {turned.busy}" if turned.busy else shown


def _shown(found: Metrics) -> Iterator[str]:
    units = {
        "cpu_us_node": "µs of a node's CPU a call",
        "calls_per_second": "calls/s",
        "wait_longest_ms": "ms longest wait",
        "seconds_to_recover": "s to recover",
        "calls_hit_repeated": "calls with a repeated effect",
        "calls_hit_lost": "calls lost",
    }
    return (f"{getattr(found[metric], 'value', float('nan')):7.5g} {unit}"
            for metric, unit in units.items() if metric in found)  # fmt: skip

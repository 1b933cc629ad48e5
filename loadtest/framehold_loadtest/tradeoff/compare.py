"""All options under all conditions, one after another on the same machine.

The site of an option is started once. Each condition runs with fresh load, and leaves a site on which all nodes serve.
The memory of parked calls is measured last, when the processes have grown to their size. If an option can't be served,
or a condition can't be run, each of its cells has the reason.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from framehold_loadtest.local.listeners import pick_cores
from framehold_loadtest.local.machine import describe
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.report.data import Cell, Tradeoff
from framehold_loadtest.tradeoff.conditions import CONDITIONS, Condition
from framehold_loadtest.tradeoff.metrics import Metrics, metrics, missing
from framehold_loadtest.tradeoff.options import OPTIONS, Option
from framehold_loadtest.tradeoff.pace import ROUNDS, Pace
from framehold_loadtest.tradeoff.record import Seen
from framehold_loadtest.tradeoff.stage import Stage

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be compared, and where the processes' files go."""

    folder: Path
    pace: Pace
    options: Sequence[str] = tuple(OPTIONS)
    conditions: Sequence[str] = tuple(CONDITIONS)
    command: str = ""


def compare(order: Order, tell: Tell) -> Tradeoff:
    """Measure it all."""
    machine, started = describe(pick_cores()), time.gmtime()
    cells: list[Cell] = []
    for number, name in enumerate(order.options, 1):
        tell(f"{name} ({number} of {len(order.options)}): {OPTIONS[name].what}")
        found = _option(order, OPTIONS[name], tell)
        cells += [Cell(option=name, condition=condition, metrics=found[condition]) for condition in order.conditions]
    return Tradeoff(
        machine=machine | _facts(order.pace),
        commit=machine["commit"],
        started=time.strftime("%Y-%m-%d %H:%M:%S UTC", started),
        command=order.command,
        options=list(order.options),
        conditions=list(order.conditions),
        cells=cells,
    )


def _facts(pace: Pace) -> dict[str, str]:
    """What the figures depend on beside the machine."""
    return {
        "pinning": "HAProxy on one core; all other processes, and the load, wherever the system puts them",
        "load": f"{pace.users} users who answer at once, {pace.thinkers} who answer after the last fault; {ROUNDS} "
        f"rounds a call; patient for {pace.patience:g} s",
        "fleet": f"{pace.nodes} nodes, lease of {pace.lease_ttl:g} s, Redis writes each commit to disk",
        "faults": f"the killed node is away for {pace.away:g} s and its start, the store stands still for "
        f"{pace.pause:g} s, rates are counted over {pace.window:g} s",
    }


def _option(order: Order, option: Option, tell: Tell) -> dict[str, Metrics]:
    """Its cells, by condition."""
    folder = order.folder / option.name.replace(" ", "-")
    folder.mkdir(parents=True)
    found: dict[str, Metrics] = {}
    try:
        with contextlib.ExitStack() as stack:
            site = option.make(folder, order.pace)
            site.start(stack)
            stage = Stage(site, order.pace, option.caller)
            port = site.front(stack, sticky=True)
            stage.warm(port)
            seen: dict[str, Seen] = {}
            for name in order.conditions:
                seen[name] = _condition(CONDITIONS[name], stage, port)
                found[name] = metrics(seen[name], ROUNDS, order.pace.window)
                tell(_progress(name, found[name]))
            first = order.conditions[0]
            weight = stage.weighed(port)
            found[first] = metrics(replace(seen[first], parked=weight), ROUNDS, order.pace.window)
            tell(f"  parked: {sum(weight.values()) / 1024:.1f} KiB for each of {order.pace.parked} calls")
    except (NotAvailable, OSError) as reason:
        tell(f"  not available: {reason}")
        gap = missing(" ".join(str(reason).split()))
        found |= {name: gap for name in order.conditions if name not in found}
    return found


def _condition(condition: Condition, stage: Stage, port: int) -> Seen:
    if condition.sticky:
        return stage.seen(condition.play, port, loses=condition.loses)
    with contextlib.ExitStack() as stack:
        return stage.seen(condition.play, stage.site.front(stack, sticky=False))


def _progress(name: str, found: Metrics) -> str:
    """One line of what a cell came to."""
    shown = {
        "calls_per_second": "calls/s",
        "reexecutions": "re-executions a call",
        "duplicate_effects": "duplicate effects",
        "calls_lost": "calls lost",
        "seconds_to_recover": "s to recover",
    }
    parts = [f"{getattr(found[metric], 'value', float('nan')):7.5g} {unit}" for metric, unit in shown.items()]
    return f"  {name:15} " + "  ".join(parts).replace("    nan", "      -")

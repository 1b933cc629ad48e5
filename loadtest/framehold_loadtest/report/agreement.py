"""A run of the trade-off that an earlier one confirms: it names only the differences that both show. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from framehold_loadtest.report.data import Cell, Measured, Missing, Tradeoff


def confirmed(run: Tradeoff, earlier: Tradeoff) -> Tradeoff:
    """The run, which names only the differences that the earlier one names as well.

    Raises:
        ValueError: the earlier run lacks an option or a condition of the run.
    """
    check(earlier, run.options, run.conditions)
    by = f"the run of {earlier.started} at commit {earlier.commit}"
    cells = [_confirmed(cell, earlier) for cell in run.cells]
    return run.model_copy(update={"cells": cells, "machine": run.machine | {"differences confirmed by": by}})


def check(earlier: Tradeoff, options: Sequence[str], conditions: Sequence[str]) -> None:
    """See that a run can confirm another one of these options and conditions.

    Raises:
        ValueError: it lacks one of them.
    """
    gaps = [name for name in (*options, *conditions) if name not in (*earlier.options, *earlier.conditions)]
    if gaps:
        raise ValueError(f"the earlier run did not measure {', '.join(gaps)}, so it can't confirm this one")


def _confirmed(cell: Cell, earlier: Tradeoff) -> Cell:
    known = earlier.metrics(cell.option, cell.condition)
    found = {name: one.model_copy(update={"earlier": _numbers(known.get(name))}) if isinstance(one, Measured) else one
             for name, one in cell.metrics.items()}  # fmt: skip
    return cell.model_copy(update={"metrics": found})


def _numbers(found: Measured | Missing | None) -> list[float]:
    return (found.turns or [found.value]) if isinstance(found, Measured) else []

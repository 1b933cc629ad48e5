"""The command `framehold bench tradeoff`. It imports what it needs when it runs."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from framehold_loadtest.report.data import Tradeoff
    from framehold_loadtest.tradeoff.compare import Order

_PLACE = "framehold-bench"
_RUNS = "processes"
_SERIES = "series"


def tradeoff(
    quick: Annotated[bool, typer.Option("--quick", help="Some minutes in place of an hour, and rougher.")] = False,
    out: Annotated[Path | None, typer.Option(help="A new folder for the report; without, one by the time.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="An option to measure; give it again for more.")] = None,
    under: Annotated[list[str] | None, typer.Option(help="A condition, or series; give it again for more.")] = None,
    page: Annotated[
        list[Path] | None, typer.Option(help="A Markdown page to put tables and plots into; give it again for more.")
    ] = None,
    calculate: Annotated[
        str, typer.Option(help='Run nothing: what a load costs, "users=1000 rounds=3 think=30 state=0 nodes=3".')
    ] = "",
    constants: Annotated[
        Path | None,
        typer.Option(help="The constants.json of a run; without, those of the last run that the repository keeps."),
    ] = None,
) -> None:
    """Serve the same tool in each way, break each in the same manner, and report what each costs and loses.

    Exits with 1 where something could not be measured, also because the machine was busy; with 2 where nothing could be
    started."""
    if calculate:
        _calculate(calculate, constants)
    _check_extra()
    from framehold_loadtest.tradeoff.compare import Order
    from framehold_loadtest.tradeoff.conditions import CONDITIONS, STEADY
    from framehold_loadtest.tradeoff.options import OPTIONS
    from framehold_loadtest.tradeoff.pace import FULL, QUICK

    options = _chosen("option", only or [], list(OPTIONS))
    named = _chosen("condition", under or [], [*CONDITIONS, _SERIES])
    conditions = [name for name in named if name != _SERIES] or [STEADY]
    pages = _marked(page or [])
    folder = _new(out or Path(_PLACE) / time.strftime("tradeoff-%Y%m%d-%H%M%S"))
    command = shlex.join(["framehold", *sys.argv[1:]])
    # A quick run leaves the series out, unless they are named.
    swept = _SERIES in named and bool(under or not quick)
    order = Order(folder / _RUNS, QUICK if quick else FULL, options, conditions, command, swept)
    _play(order, folder, pages)


def _play(order: Order, folder: Path, pages: list[Path]) -> NoReturn:
    from framehold_loadtest.tradeoff.compare import compare
    from framehold_loadtest.tradeoff.pages import put, write
    from framehold_loadtest.tradeoff.targets import standing

    began = time.monotonic()
    _tell(order.plan())
    found = compare(order, _tell)
    _tell(f"report: {write(found, folder)}")
    put(found, pages)
    for page in pages:
        _tell(f"page: {page}")
    _tell(standing(found).text())
    _tell(f"took {time.monotonic() - began:.0f} s")
    gaps = _gaps(found)
    _tell("\n".join(gaps))
    raise typer.Exit(1 if gaps else 0)


def _gaps(found: Tradeoff) -> list[str]:
    """The cells and points that were not measured, where there is no rate, and why."""
    seen = [(f"{cell.option} under {cell.condition}", cell.metrics) for cell in found.cells]
    seen += [(f"{one.option} at {sweep.name} {one.x:g}", one.metrics) for sweep in found.series for one in sweep.points]
    rates = ((name, metrics["calls_per_second"]) for name, metrics in seen)
    return [f"no figures of {name}: {rate.missing}" for name, rate in rates if hasattr(rate, "missing")]


def _calculate(words: str, path: Path | None) -> NoReturn:
    from framehold_loadtest.tradeoff import calculator

    path = path or calculator.KEPT
    try:
        case, known = calculator.Case.read(words.split()), calculator.read(path)
    except FileNotFoundError:
        _refuse(
            f"there are no constants at {path}; nothing was calculated; run framehold bench tradeoff --out DIR, and "
            f"name DIR/{calculator.FILE} by --constants"
        )
    except (OSError, ValueError) as error:
        _refuse(f"{error}; nothing was calculated")
    _tell(calculator.table(case, known).text())
    raise typer.Exit(0)


def _check_extra() -> None:
    if shutil.which("redis-server") is None:
        _refuse("redis-server is not installed; nothing was started; install it")
    if shutil.which("haproxy") is None and shutil.which("haproxy", path="/usr/sbin") is None:
        _refuse("haproxy is not installed; nothing was started; install it")


def _chosen(kind: str, named: list[str], known: list[str]) -> list[str]:
    for name in named:
        if name not in known:
            _refuse(f"there is no {kind} {name}; nothing was started; there are: {', '.join(known)}")
    return [name for name in known if name in named or not named]


def _new(folder: Path) -> Path:
    if folder.exists() and any(folder.iterdir()):
        _refuse(f"{folder} is not empty; nothing was started; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def _marked(pages: list[Path]) -> list[Path]:
    """Pages that can be filled, before anything is measured for them."""
    from framehold_loadtest.tradeoff.pages import check

    try:
        for page in pages:
            check(page)
    except (OSError, ValueError) as error:
        _refuse(str(error))
    return pages


def _tell(line: str) -> None:
    print(line, flush=True)


def _refuse(why: str) -> NoReturn:
    print(f"framehold: {why}", file=sys.stderr)
    raise typer.Exit(2)

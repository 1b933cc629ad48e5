"""The command `framehold bench tradeoff`. It imports what it needs when it runs."""

from __future__ import annotations

import importlib.util
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


def tradeoff(
    quick: Annotated[bool, typer.Option("--quick", help="Two minutes in place of fifteen, and rougher.")] = False,
    out: Annotated[Path | None, typer.Option(help="A new folder for the report; without, one by the time.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="An option to measure; give it again for more.")] = None,
    under: Annotated[list[str] | None, typer.Option(help="A condition; give it again for more.")] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown page to put the tables and plots into.")] = None,
) -> None:
    """Serve the same tool in each way, break each in the same manner, and report what each costs and loses.

    Exits with 1 where something could not be measured, with 2 where nothing could be started."""
    _check_extra()
    from framehold_loadtest.tradeoff.compare import Order
    from framehold_loadtest.tradeoff.conditions import CONDITIONS
    from framehold_loadtest.tradeoff.options import OPTIONS
    from framehold_loadtest.tradeoff.pace import FULL, QUICK

    options = _chosen("option", only or [], list(OPTIONS))
    conditions = _chosen("condition", under or [], list(CONDITIONS))
    marked = _marked(page)
    folder = _new(out or Path(_PLACE) / time.strftime("tradeoff-%Y%m%d-%H%M%S"))
    command = shlex.join(["framehold", *sys.argv[1:]])
    _play(Order(folder / _RUNS, QUICK if quick else FULL, options, conditions, command), folder, marked)


def _play(order: Order, folder: Path, page: Path | None) -> NoReturn:
    from framehold_loadtest.report import html_page as report
    from framehold_loadtest.tradeoff.compare import compare
    from framehold_loadtest.tradeoff.markdown import put

    began = time.monotonic()
    found = compare(order, _tell)
    _tell(f"report: {report.write(found, folder)}")
    if page is not None:
        _tell(f"page: {put(found, page, folder)}")
    _tell(f"took {time.monotonic() - began:.0f} s")
    raise typer.Exit(0 if _whole(found) else 1)


def _whole(found: Tradeoff) -> bool:
    """Whether each cell was measured: there is a rate in it."""
    return all(hasattr(cell.metrics["calls_per_second"], "value") for cell in found.cells)


def _check_extra() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        _refuse("matplotlib missing; nothing was started; pip install 'framehold[load]'")
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


def _marked(page: Path | None) -> Path | None:
    """A page that can be filled, before anything is measured for it."""
    from framehold_loadtest.tradeoff.markdown import check

    if page is not None:
        try:
            check(page)
        except (OSError, ValueError) as error:
            _refuse(str(error))
    return page


def _tell(line: str) -> None:
    print(line, flush=True)


def _refuse(why: str) -> NoReturn:
    print(f"framehold: {why}", file=sys.stderr)
    raise typer.Exit(2)

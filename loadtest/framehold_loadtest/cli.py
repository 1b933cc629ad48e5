"""The commands `framehold load` and `framehold bench`, registered by the entry-point group `framehold.commands`.

A command imports what it needs when it runs: locust patches the process that imports it, and takes long to import.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from framehold_cli.operate.operating import Token
from framehold_cli.options import between
from framehold_loadtest.tradeoff.command import tradeoff

if TYPE_CHECKING:
    from framehold_loadtest.scenario.run import Order

_EXTRA = ("locust", "matplotlib")
_NAMES = "steady, kill, rolling, scale, duplicates, thundering, store, soak"
_PLACE = "framehold-load"
_DAY = 86_400  # seconds
_PANEL = "Measure a fleet of your own"

Users = Annotated[
    int, typer.Option(callback=between(0, 100_000), help="How many users; 0 for the scenario's own number.")
]
Seconds = Annotated[float, typer.Option(callback=between(0, 7 * _DAY), help="How long; 0 for the scenario's own time.")]
Think = Annotated[
    float, typer.Option(callback=between(0, _DAY), help="Median pause before an answer, seconds; 0: as it is.")
]
Wave = Annotated[
    float, typer.Option(callback=between(0, _DAY), help="thundering: seconds between common answers; 0: as it is.")
]
LeaseTtl = Annotated[float, typer.Option(callback=between(0.3, 300), help="The lease of a node, in seconds.")]
Port = Annotated[
    int | None, typer.Option(callback=between(1, 65535), help="As --url, for a router at this port of this machine.")
]


def add(app: typer.Typer) -> None:
    """Add the commands to `framehold`."""
    app.command(rich_help_panel=_PANEL)(load)
    bench = typer.Typer(no_args_is_help=True, help="Measure, and report what was measured.")
    bench.callback()(_bench)
    bench.command()(tradeoff)
    app.add_typer(bench, name="bench", rich_help_panel=_PANEL)


def _bench() -> None:
    """Measure, and report what was measured."""


def load(
    scenario: Annotated[str, typer.Argument(help=f"One of: {_NAMES}.")],
    users: Users = 0,
    seconds: Seconds = 0,
    think: Think = 0,
    wave: Wave = 0,
    nodes: Annotated[int, typer.Option(callback=between(1, 50), help="How many nodes, 1 to 50.")] = 3,
    routers: Annotated[int, typer.Option(callback=between(1, 10), help="How many routers, 1 to 10.")] = 1,
    lease_ttl: LeaseTtl = 5.0,
    workers: Annotated[int, typer.Option(callback=between(0, 64), help="locust processes beside the master.")] = 0,
    ui: Annotated[bool, typer.Option("--ui", help="Serve locust's page; the run is started there.")] = False,
    ui_port: Annotated[int, typer.Option(callback=between(1, 65535), help="The page's port.")] = 8089,
    port: Port = None,
    url: Annotated[str | None, typer.Option(help="A fleet that runs already; faults can't be made there.")] = None,
    api: Annotated[str | None, typer.Option(help="The routers' API, where it is not at --url.")] = None,
    token: Token = None,
    ledger: Annotated[Path | None, typer.Option(help="With --url or --port: the ledger's file.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder for the report; without, one by the time.")] = None,
) -> None:
    """Load a fleet of real processes with users, break what SCENARIO says, and judge what came of it.

    Exits with 1 where a rule is broken, with 2 where it could not be run."""
    _check(scenario)
    from framehold_cli.client import addresses
    from framehold_loadtest.local.fleet import FleetPlan
    from framehold_loadtest.scenario.run import Order
    from framehold_loadtest.scenario.swarm import Crowd

    folder = out or Path(_PLACE) / time.strftime(f"{scenario}-%Y%m%d-%H%M%S")
    crowd = Crowd(scenario, users, seconds, think, wave, workers, ui_port if ui else 0)
    plan = FleetPlan(nodes=nodes, routers=routers, lease_ttl=lease_ttl)
    command = shlex.join(["framehold", *sys.argv[1:]])
    where = "" if url is None and port is None else addresses.router(url, port)
    if not where and (api or ledger):
        _refuse("--api and --ledger are of a fleet at --url or --port; nothing was started; give one of these")
    _play(Order(crowd, folder.resolve(), plan, None, where, api or where, token, ledger, command))


def _check(scenario: str) -> None:
    missing = [name for name in _EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        _refuse(f"{' and '.join(missing)} missing; nothing was started; pip install 'framehold[load]'")
    from framehold_loadtest.scenario.scenarios import SCENARIOS

    if scenario not in SCENARIOS:
        _refuse(f"there is no scenario {scenario}; nothing was started; there are: {', '.join(SCENARIOS)}")


def _play(order: Order) -> NoReturn:
    """Run it, tell what came of it, and leave."""
    from framehold_loadtest.local.process import NotAvailable
    from framehold_loadtest.report import scenario_page
    from framehold_loadtest.scenario.record import lines
    from framehold_loadtest.scenario.run import run

    try:
        found = run(order, _tell)
    except NotAvailable as reason:
        _refuse(str(reason))
    except KeyboardInterrupt:
        print(
            f"framehold: interrupted; every process was ended, nothing was judged; {order.folder} has what there is",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
    for line in [*lines(order.scenario.name, found), f"report: {scenario_page.write(found, order.folder)}"]:
        _tell(line)
    raise typer.Exit(0 if found.passed else 1)


def _tell(line: str) -> None:
    print(line, flush=True)


def _refuse(why: str) -> NoReturn:
    print(f"framehold: {why}", file=sys.stderr)
    raise typer.Exit(2)

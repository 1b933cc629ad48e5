"""One run of one scenario: the fleet, its users, its faults, and the verdict.

1. the fleet starts, or a fleet that runs elsewhere is called
2. locust starts; its first note has the time when the users began
3. faults are made at their times, samples are taken once a second, and progress is printed
4. locust ends when its last user has ended its call
5. notes, samples, faults and the ledger are judged; report.json and all files of the run stay in the folder
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from framehold_core.errors import ConfigError
from framehold_loadtest import ledger
from framehold_loadtest.local.fleet import Fleet, FleetPlan
from framehold_loadtest.local.listeners import pick_cores
from framehold_loadtest.local.machine import describe
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.notes import outcomes
from framehold_loadtest.report import data
from framehold_loadtest.report.series import Fault, Sample
from framehold_loadtest.scenario import record
from framehold_loadtest.scenario.checks import Bounds, Evidence, effects_once, loop_free, memory_flat
from framehold_loadtest.scenario.elsewhere import Elsewhere
from framehold_loadtest.scenario.faults import Controller
from framehold_loadtest.scenario.samples import Sampler, look
from framehold_loadtest.scenario.scenarios import SCENARIOS, Scenario
from framehold_loadtest.scenario.swarm import STOP_SECONDS, Crowd, Swarm

Tell = Callable[[str], None]
_SPARE_SECONDS = 30.0
_REACHED_SECONDS = 5.0
_LOCUST_SAYS_FAILED = 1
_SAMPLED = frozenset((loop_free, memory_flat))
"""The checks that need samples."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run, and where its files go. `url` names a fleet that runs elsewhere: no faults can be made there,
    and samples come from its routers' API at `api`, with their admin `token`. Without its `ledger` its effects are not
    judged."""

    crowd: Crowd
    folder: Path
    plan: FleetPlan = field(default_factory=FleetPlan)
    bounds: Bounds | None = None
    url: str = ""
    api: str = ""
    token: str | None = None
    ledger: Path | None = None
    command: str = ""

    @property
    def scenario(self) -> Scenario:
        """The scenario, with the numbers that were chosen."""
        known = SCENARIOS[self.crowd.scenario]
        checks = tuple(check for check in known.checks if check is not effects_once or self.has_ledger)
        users, seconds = self.crowd.users or known.users, self.crowd.seconds or known.seconds
        return replace(known, users=users, seconds=seconds, checks=checks)

    @property
    def has_ledger(self) -> bool:
        """Whether it is known which effects ran."""
        return not self.url or self.ledger is not None


def run(order: Order, tell: Tell) -> data.Scenario:
    """Run it, and write report.json.

    Raises:
        NotAvailable: something could not be started, or the fleet can't be faulted; the message says what.
    """
    if order.url and order.scenario.faults:
        raise NotAvailable(f"{order.scenario.name} makes faults, which can't be reached by --url; nothing was started")
    if order.folder.exists() and any(order.folder.iterdir()):
        raise NotAvailable(f"{order.folder} is not empty; nothing was started; name a new folder")
    with contextlib.ExitStack() as stack:
        elsewhere = _elsewhere(order, stack, tell) if order.url else None
        order.folder.mkdir(parents=True, exist_ok=True)
        seen = _seen(order, elsewhere, tell)
    verdicts = [check(seen) for check in order.scenario.checks]
    machine = describe(pick_cores()) | {"pinning": "none: the fleet and its users share all cores"}
    head = {
        "machine": machine,
        "commit": machine["commit"],
        "started": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seen.notes.began)),
        "command": order.command,
    }
    found = record.scenario(order.scenario.name, seen, verdicts, head)
    (order.folder / "report.json").write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return found


def _elsewhere(order: Order, stack: contextlib.ExitStack, tell: Tell) -> Elsewhere | None:
    """The fleet whose samples will be taken by the API; None where it can't be asked and nothing is judged by them.
    `stack` closes it.

    Raises:
        NotAvailable: nobody answers at its address; or its API can't be asked, and a check needs samples.
    """
    parts = urlsplit(order.url)
    try:
        where = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        socket.create_connection(where, _REACHED_SECONDS).close()
    except (OSError, ValueError) as error:
        raise NotAvailable(f"nobody answers at {order.url}: {error}; nothing was started") from None
    if not order.has_ledger:
        tell("effects: not judged, for no --ledger says which of them ran")
    try:
        found = Elsewhere(order.api, order.token)
        stack.callback(found.close)
        found.first_look()
    except ConfigError as error:
        if _SAMPLED.intersection(order.scenario.checks):
            why = f"{order.scenario.name} is judged by samples of the nodes: {error}; nothing was started"
            raise NotAvailable(why) from None
        tell(f"samples: none are taken: {error}")
        return None
    return found


def _seen(order: Order, elsewhere: Elsewhere | None, tell: Tell) -> Evidence:
    """Everything that happened."""
    with contextlib.ExitStack() as stack:
        fleet, sampler, url, effects = None, None, order.url, order.ledger
        sampled = elsewhere.look if elsewhere is not None else None
        if not url:
            fleet = Fleet(order.folder, order.plan)
            fleet.start(stack)
            url, effects, sampled = fleet.url, fleet.ledger, partial(look, fleet)
            tell(f"fleet: {', '.join(fleet.pids())} at {url}/mcp")
        swarm = Swarm(order.folder, url, order.crowd)
        stack.callback(swarm.process.stop)
        swarm.process.start()
        if order.crowd.ui:
            tell(f"locust: http://127.0.0.1:{order.crowd.ui}; the run begins when it is started there")
        began = _begun(swarm)
        if sampled is not None:
            sampler = Sampler(sampled, lambda sample: tell(_progress(swarm, sample)))
            sampler.start()
            stack.callback(sampler.stop)
        faults = _faulted(order, fleet, began, swarm, tell)
        _ended(swarm, order)
        if sampler is not None:
            sampler.stop()
        notes = swarm.look()
        compared = ledger.compare(ledger.read(effects), notes.calls) if effects is not None else None
    bounds = order.bounds or replace(order.scenario.bounds, lease_ttl=order.plan.lease_ttl)
    return Evidence(notes, compared, faults, sampler.samples if sampler is not None else [], bounds)


def _begun(swarm: Swarm) -> float:
    """When the users began."""
    while not swarm.look().began:
        if swarm.process.ended() is not None:
            raise NotAvailable(f"locust ended before it began{swarm.process.last_words()}")
        time.sleep(0.05)
    return swarm.notes.began


def _faulted(order: Order, fleet: Fleet | None, began: float, swarm: Swarm, tell: Tell) -> list[Fault]:
    if fleet is None:
        return []
    path = order.folder / "faults.jsonl"
    controller = Controller(fleet, order.scenario.seconds, path, tell)
    controller.run(order.scenario.faults, began, lambda: swarm.process.ended() is not None)
    return controller.done


def _ended(swarm: Swarm, order: Order) -> None:
    """Wait for locust's end. With a page of its own it stays after the run, for another one: that is not waited for."""
    if order.crowd.ui:
        while not swarm.look().ended and swarm.process.ended() is None:
            time.sleep(0.2)
        swarm.process.stop()
        return
    left = swarm.notes.began + order.scenario.seconds - time.time()
    code = swarm.process.wait(max(left, 0) + STOP_SECONDS + _SPARE_SECONDS)
    if code not in (0, _LOCUST_SAYS_FAILED):
        raise NotAvailable(f"locust failed with code {code}{swarm.process.last_words()}; nothing was judged")


def _progress(swarm: Swarm, sample: Sample) -> str:
    """One line of what happens at present."""
    notes = swarm.look()
    since = sample.at - notes.began
    lately = sum(item.at + item.seconds > sample.at - 1 for item in notes.rounds[-2000:])
    refused = sum(len(item.refused) for item in notes.rounds)
    calls = ", ".join(f"{count} {outcome}" for outcome, count in outcomes(notes.calls).items() if count)
    waiting = " ".join(f"{name}:{count}" for name, count in sample.parked.items())
    return f"{since:4.0f} s  {lately:4d} rounds/s  parked {waiting or '-'}  calls {calls or '-'}  refused {refused}"

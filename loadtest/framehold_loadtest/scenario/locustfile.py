"""The file that locust loads: the users, the shape and the options of one scenario.

`framehold load` runs it. `locust -f` on this file runs it too, also with `--worker` on other machines.
"""

from __future__ import annotations

from typing import Any

from locust import LoadTestShape, events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import WorkerRunner

from framehold_loadtest.notes import ENDED, TOTAL
from framehold_loadtest.scenario.scenarios import SCENARIOS, Manner, Scenario, Users, present
from framehold_loadtest.scenario.scribe import Scribe
from framehold_loadtest.scenario.users import Traveller


class Caller(Traveller):
    """The one kind of user."""


class Run(LoadTestShape):
    """The users of the chosen scenario."""

    chosen: tuple[Scenario, int, float]
    """With how many users, and seconds."""

    def tick(self) -> Users | None:
        """How many users there are now."""
        run: Any = self
        return present(*self.chosen, run.get_run_time())


def options(parser: LocustArgumentParser, **_: Any) -> None:
    """The options of a scenario."""
    group = parser.add_argument_group("framehold")
    group.add_argument("--scenario", choices=sorted(SCENARIOS), default="steady", help="which of the eight")
    group.add_argument("--callers", type=int, default=0, help="users; the scenario's own number if 0")
    group.add_argument("--seconds", type=float, default=0.0, help="the scenario's own number if 0")
    group.add_argument("--think", type=float, default=0.0, help="median pause in seconds; the scenario's own if 0")
    group.add_argument(
        "--wave", type=float, default=0.0, help="seconds between common answers; the scenario's own if 0"
    )
    group.add_argument("--notes", default="notes.jsonl", help="where the notes of all calls are written")


def begin(environment: Environment, **_: Any) -> None:
    """Set up this process: master, worker or both in one."""
    chosen = environment.parsed_options
    assert chosen is not None
    scenario = SCENARIOS[chosen.scenario]
    own = scenario.manner
    Caller.manner = Manner(chosen.think or own.think, own.rounds, own.copies, own.wave and (chosen.wave or own.wave))
    Caller.scribe = Scribe(environment, chosen.notes)
    Run.chosen = scenario, chosen.callers or scenario.users, chosen.seconds or scenario.seconds


def judge(environment: Environment, **_: Any) -> None:
    """A run by locust alone fails where a call came to nothing, or none came; `framehold load` judges by more."""
    if isinstance(environment.runner, WorkerRunner):
        return  # its master judges
    total = environment.stats.get(TOTAL, "CALL")
    ended = total.num_requests - total.num_failures
    if environment.process_exit_code is None:
        environment.process_exit_code = 0 if ended and not total.num_failures else 1
    print(f"{ended} calls {ENDED}, {total.num_failures} lost or never begun")


_events: Any = events  # untyped
_events.init_command_line_parser.add_listener(options)
_events.init.add_listener(begin)
_events.quitting.add_listener(judge)

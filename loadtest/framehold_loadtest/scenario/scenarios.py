"""The eight scenarios: their users, how many there are at each moment, the faults of the fleet, and the checks."""

from __future__ import annotations

from dataclasses import dataclass, field

from framehold_loadtest.scenario import checks
from framehold_loadtest.scenario.checks import Bounds, Check

KILL, ROLL, ADD, REMOVE = "kill", "roll", "add", "remove"
NODE_PAUSE = "node-pause"
STORE_PAUSE, STORE_RESTART = "store-pause", "store-restart"


Users = tuple[int, float]
"""How many, and how many of them are started or ended in a second."""


@dataclass(frozen=True, slots=True)
class Step:
    """A fault: when it begins, and for how long, as shares of the run. For `roll`, `add` and `remove` the end is when
    it is done; a paused node sleeps on until another has taken over a call of it."""

    at: float
    what: str
    lasts: float = 0.0


@dataclass(frozen=True, slots=True)
class Manner:
    """How users behave. `think` is the median of their log-normal pauses in seconds, `rounds` the least and the most;
    `copies` of each retry are sent at once; where `wave` is not 0, all answer together, every so many seconds."""

    think: float = 1.0
    rounds: tuple[int, int] = (2, 6)
    copies: int = 1
    wave: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario with its defaults; `seconds` and `users` may be chosen otherwise. The users come within `ramp`
    seconds. One that `breathes` has half of them, and all in the middle third: the load that a fleet is scaled for."""

    name: str
    checks: tuple[Check, ...]
    faults: tuple[Step, ...] = ()
    users: int = 50
    seconds: float = 60.0
    manner: Manner = field(default_factory=Manner)
    breathes: bool = False
    ramp: float = 5.0
    bounds: Bounds = field(default_factory=Bounds)


def present(scenario: Scenario, users: int, seconds: float, t: float) -> Users | None:
    """Who is there at `t` seconds from the start of a run of so many users and seconds; None at its end."""
    if t >= seconds:
        return None
    is_half = scenario.breathes and not seconds / 3 <= t < 2 * seconds / 3
    return (max(1, users // 2) if is_half else users), users / max(scenario.ramp, 0.1)


_SAFE = (checks.none_lost, checks.effects_once)

STEADY = Scenario("steady", (checks.affine, checks.few_errors, *_SAFE))
KILLED = Scenario(
    "kill",
    (checks.faults_made(KILL), checks.resumed_in_time, *_SAFE),
    (Step(0.35, KILL, 0.3),),
)
ROLLING = Scenario(
    "rolling",
    (checks.faults_made(ROLL), checks.none_visible, *_SAFE),
    (Step(0.2, ROLL),),
)
SCALE = Scenario(
    "scale",
    (checks.faults_made(ADD, REMOVE), checks.few_keys_moved, checks.parked_stay_put, *_SAFE),
    (Step(0.3, ADD), Step(0.65, REMOVE)),
    breathes=True,
)
DUPLICATES = Scenario(
    "duplicates",
    (checks.taken_over, checks.duplicates_alike, *_SAFE),
    (Step(0.4, NODE_PAUSE, 0.1),),
    manner=Manner(copies=3),
)
THUNDERING = Scenario(
    "thundering",
    (checks.resumes_bounded, checks.loop_free, checks.all_begin, *_SAFE),
    users=500,
    manner=Manner(wave=10.0, rounds=(3, 3)),
    ramp=1.0,
)
STORE = Scenario(
    "store",
    (
        checks.faults_made(STORE_PAUSE, STORE_RESTART),
        checks.fails_closed,
        checks.nothing_unwritten,
        checks.recovers,
        *_SAFE,
    ),
    (Step(0.2, STORE_PAUSE, 0.15), Step(0.5, STORE_RESTART, 0.1)),
)
SOAK = Scenario("soak", (checks.memory_flat, checks.few_errors, *_SAFE), seconds=3600.0)

SCENARIOS = {found.name: found for found in (STEADY, KILLED, ROLLING, SCALE, DUPLICATES, THUNDERING, STORE, SOAK)}

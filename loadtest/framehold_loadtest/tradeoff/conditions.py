"""The faults that an option gets while it is under load. The first condition has no fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from framehold_loadtest.tradeoff.stage import Stage


@dataclass(frozen=True, slots=True)
class Condition:
    """One of them. `sticky` is false where clients come to the nodes by turns. `loses` says that those who think lose
    the reply to their last round, and send it again if they can."""

    name: str
    play: Callable[[Stage], None]
    sticky: bool = True
    loses: bool = False


def _steady(stage: Stage) -> None:
    stage.run(stage.pace.steady / 2)
    stage.answer()
    stage.run(stage.pace.steady / 2)


def _killed(stage: Stage) -> None:
    stage.run(stage.pace.lead)
    name = stage.site.names[0]
    stage.fault()
    stage.site.kill(name)
    stage.run(stage.pace.away)
    stage.site.restart(name)
    stage.back()
    stage.answer()
    stage.run(stage.pace.tail)


def _rolled(stage: Stage) -> None:
    stage.run(stage.pace.lead)
    for name in stage.site.names:
        stage.fault()
        stage.site.roll(name)
        stage.lasted()
        stage.back()
    stage.answer()
    stage.run(stage.pace.tail)


def _paused(stage: Stage) -> None:
    stage.run(stage.pace.lead)
    stage.fault()
    stage.site.pause("store")
    try:
        stage.run(stage.pace.pause)
    finally:
        stage.site.resume("store")
    stage.lasted()
    stage.answer()
    stage.run(stage.pace.tail)


STEADY = "steady"
CONDITIONS = {
    condition.name: condition
    for condition in (
        Condition(STEADY, _steady),
        Condition("node killed", _killed),
        Condition("rolling restart", _rolled),
        Condition("store pause", _paused),
        Condition("no stickiness", _steady, sticky=False),
        Condition("reply lost", _steady, loses=True),
    )
}

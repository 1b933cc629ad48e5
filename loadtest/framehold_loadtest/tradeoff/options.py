"""The options: the letters of the SDK's design discussion, each with its server, its front and its clients.

The SDK's handlers that hold nothing respond with JSON alone, which is the SDK's fastest mode. A has to ask over a
stream, so it can't.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from framehold_loadtest.tradeoff.callers import Modern, OfSession, Opened
from framehold_loadtest.tradeoff.pace import Pace
from framehold_loadtest.tradeoff.site import FleetSite, HandSite, Site


@dataclass(frozen=True, slots=True)
class Option:
    """One way to serve the tool. `make` gives its site in a folder, not started yet; `caller` is its kind of client."""

    name: str
    what: str
    make: Callable[[Path, Pace], Site]
    caller: Opened = Modern


def _hand(way: str, *, by_session: bool = False) -> Callable[[Path, Pace], HandSite]:
    return lambda folder, pace: HandSite(folder, pace, way, by_session=by_session)


def _fleet(strategy: str) -> Callable[[Path, Pace], FleetSite]:
    return lambda folder, pace: FleetSite(folder, pace, strategy)


OPTIONS = {
    option.name: option
    for option in (
        Option("H-hold", "Framehold, `await ctx.elicit`, the frame held, leases and journal in Redis", _fleet("hold")),
        Option("H-replay", "Framehold, the same text, nothing held: the journal rides in the token", _fleet("replay")),
        Option("E", "the SDK, a handler that returns its questions, its effects below the guard", _hand("e")),
        Option("E naive", "as E, with the first effect above the guard", _hand("e-naive")),
        Option("F", "as E, with the first effect above the guard under a `once` that marks the state",
               _hand("f")),
        Option("G", "the SDK, named steps and an end, the steps' data in the state", _hand("g")),
        Option("A", "as E, for clients of 2025: asked over their session, the stream held",
               _hand("a", by_session=True), OfSession),
    )
}  # fmt: skip

HELD, BY_HAND = "H-hold", "E"
"""The two that are compared with a target."""

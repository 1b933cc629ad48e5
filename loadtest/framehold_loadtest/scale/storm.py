"""What happens to the survivors when many nodes die at once: takeovers, and how long clients wait.

    1. nodes die; their leases run out after one TTL, and until then no other node may claim their calls
    2. the next round of each call reaches the first living node of its ring order, at once or when its user answers
    3. a survivor takes over 64 calls at a time; each takeover costs CPU of the node, and scripts of the store

Law: the share of each survivor is exact, from the ring. The queue of the survivor with the most calls is followed call
by call, because the last answer is in it. Takeovers get the CPU and the shards that the calls of living nodes leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from framehold.engine.takeover_gate import MAX_TAKEOVERS
from framehold_core.ids import NodeId
from framehold_loadtest.scale.costs import Costs
from framehold_loadtest.scale.model import LEASE_TTL, Load, Sizes, need, node_cpu
from framehold_loadtest.scale.ring_sim import ring_without

PARKED = 10_000
"""Calls of each node."""
TRIP = 0.002
"""Seconds of a request to the store and back, where it is well."""


@dataclass(frozen=True)
class Storm:
    """`calls` lost their node; a survivor takes over `mean` of them, `most` is the most that one gets. Seconds: `last`
    until the last is answered, `p50` and `p99` of what a client of that survivor waits. `pace` is takeovers a second of
    all survivors until then; `limit` is what keeps them from going faster, `store` the share of all shards for it."""

    fleet: int
    dead: int
    at_once: bool
    calls: int
    mean: float
    most: int
    last: float
    p50: float
    p99: float
    pace: float
    limit: str
    store: float


@dataclass(frozen=True)
class Pace:
    """How fast one survivor takes over: `places` at a time, one every `step` seconds, each `trip` seconds longer."""

    step: float
    trip: float
    places: int = MAX_TAKEOVERS

    def done(self, arrivals: Sequence[float]) -> list[float]:
        """When each of those that come at these instants, in rising order, has been taken over."""
        places = [0.0] * self.places
        core, ends = 0.0, list[float]()
        for arrival in arrivals:
            core = max(core, arrival, heappop(places)) + self.step
            heappush(places, core + self.trip)
            ends.append(core + self.trip)
        return ends

    @property
    def rate(self) -> float:
        """Takeovers a second while there are enough."""
        return min(1 / self.step, self.places / (self.step + self.trip))


def storm(fleet: int, dead: Sequence[NodeId], at_once: bool, trip: float, costs: Costs, seed: int) -> Storm:
    """Each node has PARKED calls. Where they don't come `at_once`, they come when users answer. A request to the store
    and back takes `trip` seconds."""
    before, after = ring_without(fleet), ring_without(fleet, dead)
    had = before.shares()
    gains = {node: share - had[node] for node, share in after.shares().items()}
    most = round(max(gains.values()) * fleet * PARKED)
    load = Load(float(fleet * PARKED))
    live, shards = fleet - len(dead), need(load, costs, Sizes()).shards
    core_left = 1 - node_cpu(load, costs) / fleet
    store_left = 1 - load.scripts * costs.store_script / shards * live / fleet
    calls, scripts = len(dead) * PARKED, 3 + 2 * load.effects
    by_core = costs.node_takeover / core_left
    # The shards are done with all takeovers at the earliest after so long; the last of them may be of this survivor.
    by_store = calls * scripts * costs.store_script / shards / store_left / most
    pace = Pace(max(by_core, by_store), scripts * trip)
    random = Random(f"{seed} {fleet} {len(dead)} {at_once}")
    comes = [0.0] * most if at_once else sorted(random.expovariate(1 / load.think) for _ in range(most))
    ends = pace.done([max(LEASE_TTL, at) for at in comes])
    waits = sorted(end - at for end, at in zip(ends, comes, strict=True))
    rate = calls * pace.rate / most if at_once else calls / load.think
    return Storm(
        fleet=fleet,
        dead=len(dead),
        at_once=at_once,
        calls=calls,
        mean=calls / live,
        most=most,
        last=ends[-1],
        p50=at_share(waits, 0.5),
        p99=at_share(waits, 0.99),
        pace=rate,
        limit=_limit(pace, by_core, by_store) if at_once else "the users",
        store=rate * scripts * costs.store_script / shards,
    )


def at_share(ordered: Sequence[float], part: float) -> float:
    """A percentile, `part` from 0 to 1, of values in rising order."""
    return ordered[round(part * (len(ordered) - 1))]


def _limit(pace: Pace, by_core: float, by_store: float) -> str:
    if pace.rate < 1 / pace.step:
        return f"{pace.places} places"
    return "the store" if by_store > by_core else "its core"

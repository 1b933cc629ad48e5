"""How many nodes, routers, shards and fleets a number of parked calls needs: sums, no simulation.

The sums rest on Little's law: with N parked calls and a mean of T seconds until an answer comes, N / T rounds are
answered a second. The rest is multiplication by the cost of a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from framehold_loadtest.scale.costs import Costs
from framehold_router.routing.placement import BOUND

GIB = 2**30
LEASE_TTL, POLL = 5.0, 2.0
"""Seconds of a node's lease, and between two polls of the leases: the defaults."""
POLLS_PER_READ = 5
"""Of how many polls of a node one reads all leases, while the others count them. A router reads them at each poll and
at each change, a node then reads one."""
TURNS = 300.0
"""Seconds between two looks of a node, which reads all leases too, whether the walk for orphaned calls is its turn."""
NODES_A_ROUTER = 40
"""As many as one keeps up with where answers come after a minute."""
OUTCOME_KEPT = 660.0
"""Seconds for which the outcome of a call is kept: the life of its token, and 60 s."""


@dataclass(frozen=True)
class Load:
    """`parked` calls at a time; `think` is the mean time in seconds until an answer; a call has `rounds` and `effects`
    under `once`."""

    parked: float
    think: float = 60.0
    rounds: int = 2
    effects: int = 1

    @property
    def calls(self) -> float:
        """Begun, and ended, a second."""
        return self.parked / self.think / (self.rounds - 1)

    @property
    def requests(self) -> float:
        """A second."""
        return self.calls * self.rounds

    @property
    def scripts(self) -> float:
        """Of the store, a second: one a round and two an effect."""
        return self.calls * (self.rounds + 2 * self.effects)


@dataclass(frozen=True)
class Sizes:
    """What one of each may be. `busy` is the share of a core that is planned with; one of `zones` may be lost, and the
    others then hold and do all; a fleet of more than `fleet` nodes is split."""

    busy: float = 0.6
    node_parked: int = 20_000
    shard: float = 16 * GIB
    zones: int = 3
    fleet: int = 1_000

    @property
    def spare(self) -> float:
        """How much more there is of nodes than needed while all zones live."""
        return self.zones / (self.zones - 1)


@dataclass(frozen=True)
class Need:
    """What a load needs, not rounded: one of a kind is full where it reaches 1. A node is one process on one core."""

    nodes_by_cpu: float
    nodes_by_frames: float
    routers: float
    shards_by_cpu: float
    shards_by_memory: float
    fleets: float

    @property
    def nodes(self) -> int:
        """Never fewer than three: one may drain while another dies."""
        return max(3, ceil(max(self.nodes_by_cpu, self.nodes_by_frames)))

    @property
    def shards(self) -> int:
        """Primaries of Redis."""
        return max(1, ceil(max(self.shards_by_cpu, self.shards_by_memory)))


def node_cpu(load: Load, costs: Costs) -> float:
    """Cores that all nodes together keep busy."""
    return load.requests * costs.node_round + load.calls * load.effects * costs.node_once


def stored(load: Load, costs: Costs) -> tuple[float, float]:
    """Bytes in the store: of parked calls, and of the outcomes of those that have ended."""
    return load.parked * costs.record, load.calls * OUTCOME_KEPT * costs.tombstone


def need(load: Load, costs: Costs, sizes: Sizes) -> Need:
    """What this load needs."""
    by_cpu = node_cpu(load, costs) / sizes.busy * sizes.spare
    by_frames = load.parked * BOUND / sizes.node_parked * sizes.spare
    return Need(
        nodes_by_cpu=by_cpu,
        nodes_by_frames=by_frames,
        routers=load.requests * costs.router_request / sizes.busy,
        shards_by_cpu=load.scripts * costs.store_script / sizes.busy,
        shards_by_memory=sum(stored(load, costs)) / sizes.shard,
        fleets=max(by_cpu, by_frames) / sizes.fleet,
    )


LIMITS = {
    "nodes_by_cpu": ("a node's CPU", "more nodes; a leaner frame; longer questions, fewer rounds"),
    "nodes_by_frames": (
        "a node's frames",
        "more nodes; several processes a machine; a higher `FRAMEHOLD_MAX_PARKED`; marked frames may be evicted",
    ),
    "routers": ("one router", "more routers, which share nothing; or HAProxy with the same hash"),
    "shards_by_memory": (
        "one Redis' memory",
        "a Redis Cluster; a shorter `FRAMEHOLD_TOKEN_TTL`",
    ),
    "shards_by_cpu": (
        "one Redis' CPU",
        "a Redis Cluster, since a call's keys share a slot and no script has two calls; strategy replay",
    ),
    "fleets": ("one fleet", "several fleets, each with its own store: a region or a cell of 1,000 nodes"),
}
"""What can be full, from what is added most easily to what is hardest to have two of; and what relieves it."""


def full_at(name: str, costs: Costs, sizes: Sizes, think: float) -> float:
    """How many parked calls fill one of a kind. All needs are in proportion to the load."""
    return 1.0 / float(getattr(need(Load(1.0, think), costs, sizes), name))


def bottleneck(load: Load, costs: Costs, sizes: Sizes) -> str | None:
    """The hardest of the limits that this load is beyond; None where one of each does it all."""
    needed = need(load, costs, sizes)
    beyond = [name for name in LIMITS if getattr(needed, name) > 1]
    return beyond[-1] if beyond else None


@dataclass(frozen=True)
class Membership:
    """What a fleet pays for knowing itself, whatever its calls do: some of it grows with the square of its nodes.

    A second: `scripts` that renew and count leases, `looks` at one lease; `store` is the cores of Redis for all of it,
    `share` what a node has of it to do, `router` a router. At one change, of which a node reads one lease and a router
    all: `change` seconds of Redis, and `stall` seconds for which a node's loop stands still, `router_stall` for which a
    router's does."""

    nodes: int
    scripts: float
    looks: float
    store: float
    share: float
    router: float
    change: float
    stall: float
    router_stall: float

    @classmethod
    def of(cls, nodes: int, costs: Costs) -> Membership:
        """Of a fleet that is at rest."""
        routers = nodes / NODES_A_ROUTER
        renewals, counts = nodes * 2 / (LEASE_TTL / 3), nodes * (1 - 1 / POLLS_PER_READ) / POLL
        # Of one node, or router: whole looks a second.
        mine, its = 1 / (POLLS_PER_READ * POLL) + 1 / TURNS, 1 / POLL
        looks = nodes * (nodes * mine + routers * its)
        return cls(
            nodes,
            renewals + counts,
            looks,
            looks * costs.look_store + counts * costs.count_store + renewals * costs.store_script,
            nodes * costs.look_node * mine,
            nodes * costs.look_node * its,
            (nodes + routers * nodes) * costs.look_store,
            nodes * costs.ring_node,
            nodes * (costs.ring_node + costs.look_node),
        )

"""The checks of `framehold doctor` on the store: does it answer, does it keep its data, does its clock agree.

The verdicts are pure functions of the facts that the server gives. `_read_facts` reads these from the server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from framehold_core.errors import StoreUnavailable
from framehold_core.lease import NodeRecord
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.members import node_stats
from framehold_fleet.members.membership import DRAINING, LIVE
from framehold_fleet.members.store_health import NEARLY_SLOW
from framehold_fleet.members.wrong_clock import LIMIT
from framehold_router.verdict.of_store import LESS_SLOW, round_trip
from framehold_router.verdict.seen import NEARLY_FULL
from framehold_store import StoreConfig, open_store, system_clock
from framehold_store.config import PACKED_VALUE_BYTES
from framehold_store.event_log import unsaved_of

from ..show import figures
from .findings import Finding, fail, ok, warn
from .store_trouble import trouble

_MIN_VERSION = (6, 2)
_SLOW_MS = 5.0
_PINGS = 5


@dataclass(frozen=True)
class ServerFacts:
    """What a server says about itself.

    `info`: the fields of INFO. `packed`: the largest value of a compact hash in bytes; None if the server refuses to
    say. `skew`: its clock minus this machine's, in seconds. `ping`: the shortest PING, in milliseconds."""

    info: Mapping[str, Any] = field(default_factory=dict)
    packed: int | None = None
    skew: float = 0.0
    ping: float = 0.0


async def check(config: StoreConfig, seals: LeaseSeal) -> list[Finding]:
    """All findings on the store that `config` names, and on the nodes that have leases there whose `seals` hold."""
    if config.scheme == "memory":
        return [ok("store", _NO_STORE)]
    if config.scheme == "embedded":
        return [warn("store", "embedded: a stand-in inside one process; nothing is kept or shared", _SET_STORE_URL)]
    try:
        facts = await _read_facts(config)
    except Exception as error:
        found = trouble(error, config)
        return [fail("store", f"{config.target} {found.says}", found.do)]
    nodes = await _nodes(config, seals, facts)
    first = [version(facts, config.target), latency(facts), skew(facts), eviction(facts), persistence(facts)]
    return [*first, *room(facts), *hashes(facts), *replicas(facts), *nodes]


_NO_STORE = (
    "FRAMEHOLD_STORE_URL is not set in this shell: a node started here keeps its calls in memory, and they die with it "
    "(fine for trials); a running fleet's store is not checked from here"
)
_SET_STORE_URL = "set FRAMEHOLD_STORE_URL=redis://HOST:PORT"


async def _read_facts(config: StoreConfig) -> ServerFacts:
    from redis.exceptions import RedisError, ResponseError

    from framehold_store.connections import open_client
    from framehold_store.link import last_words

    client = open_client(replace(config, op_timeout=2.0))
    try:
        await client.ping()
        pings = []
        for _ in range(_PINGS):
            start = time.perf_counter()
            await client.ping()
            pings.append(time.perf_counter() - start)
        before = time.time()
        seconds, micros = await client.time()
        # The server read its clock between our two readings; their mean is the best estimate.
        here = (before + time.time()) / 2
        try:
            info: Mapping[str, Any] = await client.info()
        except ResponseError:
            info = {}
        return ServerFacts(info, await _read_packed_limit(client), seconds + micros / 1e6 - here, min(pings) * 1000)
    except RedisError as error:
        raise await last_words(client.connection_pool, error) from error.__cause__
    finally:
        await client.aclose()


async def _read_packed_limit(client: Any) -> int | None:
    from redis.exceptions import ResponseError

    try:
        # The setting has two names, one of them from before Redis 7.0.
        limits = await client.config_get("hash-max-*-value")
    except ResponseError:
        return None
    return min((int(value) for value in limits.values()), default=None)


def version(facts: ServerFacts, target: str) -> Finding:
    """Whether the server's version has the commands that the scripts need."""
    name = "valkey" if "valkey_version" in facts.info else "redis"
    number = str(facts.info.get(f"{name}_version", ""))
    parts = tuple(int(part) for part in number.split(".")[:2] if part.isdigit())
    if not parts:
        return warn("store", f"{target} answers, and doesn't say its version", "make sure it is Redis 6.2 or later")
    if parts < _MIN_VERSION:
        return fail("store", f"{target} is {name} {number}", "use Redis 6.2 or later, or Valkey")
    return ok("store", f"{target} answers: {name} {number}")


def latency(facts: ServerFacts) -> Finding:
    """Whether the store answers fast: each round waits for it once or twice."""
    says = f"a PING takes {facts.ping:.2f} ms"
    if facts.ping > _SLOW_MS:
        return warn("store latency", says, "move the store nearer: each round of a call waits for it")
    return ok("store latency", says)


def skew(facts: ServerFacts) -> Finding:
    """Whether the store's clock agrees with this machine's. Calls use only the store's clock; logs use this one's."""
    ahead = "ahead of" if facts.skew > 0 else "behind"
    says = f"the store's clock is {abs(facts.skew):.2f} s {ahead} this machine's"
    if abs(facts.skew) >= LIMIT:
        return warn("store clock", says, "run a time service on both; calls go on, but logs don't agree")
    return ok("store clock", says)


def eviction(facts: ServerFacts) -> Finding:
    """Whether the store may evict keys. An evicted lease loses its call."""
    policy = facts.info.get("maxmemory_policy")
    if policy is None:
        return warn("store eviction", "the store doesn't say its maxmemory-policy", "make sure that it is noeviction")
    says = f"maxmemory-policy is {policy}"
    if policy == "noeviction":
        return ok("store eviction", says)
    limited = bool(facts.info.get("maxmemory"))
    do = "CONFIG SET maxmemory-policy noeviction: a lease that is evicted loses its call"
    return fail("store eviction", says, do) if limited else warn("store eviction", f"{says}, without a limit yet", do)


def persistence(facts: ServerFacts) -> Finding:
    """Whether the append-only file is on. Without it a restart of the store loses all data except what live nodes
    hold."""
    if "aof_enabled" not in facts.info:
        says = "the store doesn't say whether it saves to disk"
        return warn("store persistence", says, "give the user of this shell +info, or ask who runs the store")
    if failed := unsaved_of(facts.info):
        says = f"its last save to disk failed ({failed}): what it took since is lost if it restarts now"
        return fail("store persistence", says, "look at its log and at the room on its disk; don't restart it")
    if facts.info.get("aof_enabled"):
        return ok("store persistence", "the append-only file is on")
    return warn(
        "store persistence",
        "the append-only file is off: when the store restarts, calls parked on live nodes go on, for these write "
        "them again; outcomes of finished calls are forgotten: a late retry of one is told it was lost",
        "CONFIG SET appendonly yes, unless this is a trial",
    )


def room(facts: ServerFacts) -> list[Finding]:
    """Whether the store has room. A store that is full takes no write: no lease is renewed, and no call that asks is
    served."""
    used, limit = facts.info.get("used_memory"), facts.info.get("maxmemory")
    if not isinstance(used, int) or not isinstance(limit, int):
        do = "give its user +info: nodes then keep the last tenth of its memory for calls that exist"
        return [warn("store memory", "the store doesn't say how full it is", do)]
    if not limit:
        return [ok("store memory", f"{figures.size(used)} in use, and there is no limit (maxmemory)")]
    says = f"{figures.size(used)} in use, {used / limit:.0%} of its limit of {figures.size(limit)}"
    if used >= limit:
        do = "raise its maxmemory; don't restart nodes: their frames write again what the store lacks"
        return [fail("store memory", f"full: {says}; no node can write to it", do)]
    if used >= NEARLY_FULL * limit:
        return [warn("store memory", f"nearly full: {says}", "raise its maxmemory, or lower FRAMEHOLD_TOKEN_TTL")]
    return [ok("store memory", says)]


def hashes(facts: ServerFacts) -> list[Finding]:
    """Whether records of finished calls are stored compactly. Finished calls take most of the store's memory."""
    if facts.packed is None:
        return []
    says = f"values of up to {facts.packed} bytes are stored compactly"
    if facts.packed >= PACKED_VALUE_BYTES:
        return [ok("store hashes", says)]
    do = f"CONFIG SET hash-max-listpack-value {PACKED_VALUE_BYTES} (hash-max-ziplist-value before 7.0)"
    return [warn("store hashes", f"{says}: a finished call takes twice the memory that it could", do)]


def replicas(facts: ServerFacts) -> list[Finding]:
    """Whether writes need a replica. Without that, a master that was replaced accepts writes which are then lost."""
    count = facts.info.get("connected_slaves")
    if not count:
        return []
    if "min_slaves_good_slaves" in facts.info:
        return [ok("store replicas", f"{count}, and min-replicas-to-write is set")]
    do = "CONFIG SET min-replicas-to-write 1 on each server: one that was replaced then stops at once"
    return [warn("store replicas", f"{count}, and min-replicas-to-write is 0", do)]


def round_trips(found: Sequence[NodeRecord]) -> list[Finding]:
    """Whether the heartbeats of nodes take nearly as long as they may, or longer, as their leases say."""
    stats = [(str(one.node), node_stats.read(one.stats)) for one in found]
    share, says = round_trip((name, own.round_trip, own.longest_round_trip) for name, own in stats)
    if share < NEARLY_SLOW:
        return [ok("store round trip", says)] if says else []
    say = warn if share < 1 else fail
    return [say("store round trip", f"{says}; with more calls get 503", LESS_SLOW)]


async def _nodes(config: StoreConfig, seals: LeaseSeal, facts: ServerFacts) -> list[Finding]:
    store = open_store(config, system_clock.system_clock().time)
    try:
        await store.open()
        found = [lease for lease in await store.nodes() if seals.holds(lease)]
    except StoreUnavailable as error:
        return [fail("nodes", f"the registry can't be read ({error})", "look at the store's own log")]
    finally:
        await store.close()
    if not found and any(one.verdict == "fail" for one in room(facts)):
        do = "make room for the store first, and don't restart nodes: their frames write again what the store lacks"
        return [warn("nodes", "no lease is valid, and the store is full: nodes may live that can't renew theirs", do)]
    if not found:
        return [warn("nodes", f"no node is live in namespace {config.namespace}", "start one: framehold node TARGET")]
    counts = []
    for state, verb in ((LIVE, "live"), (DRAINING, "draining")):
        names = [str(one.node) for one in found if one.state == state]
        counts += [f"{len(names)} {verb}: {', '.join(names)}"] if names else []
    return [ok("nodes", "; ".join(counts)), *round_trips(found)]

"""The store's part of `framehold doctor`: is it there, does it keep what it is given, does its clock agree.

The verdicts are pure functions of what the server says; one function asks it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from framehold_core.errors import StoreUnavailable
from framehold_router.membership import DRAINING, LIVE
from framehold_store import StoreConfig, open_store

from .. import clock
from .findings import Finding, fail, ok, warn
from .store_trouble import trouble

_OLDEST = (6, 2)
_SLOW_MS = 5.0
_SKEW_S = 1.0
_PINGS = 5
PACKED = 4096
"""Bytes of a value that a hash may have and stay a compact list, so that a record with its outcome does."""


@dataclass(frozen=True)
class Told:
    """What a server said. `info` is its INFO, `packed` the largest value of a compact hash in bytes (None where it
    doesn't say), `skew` in seconds (its clock minus ours), `ping` in milliseconds."""

    info: Mapping[str, Any] = field(default_factory=dict)
    packed: int | None = None
    skew: float = 0.0
    ping: float = 0.0


async def check(config: StoreConfig) -> list[Finding]:
    """All findings on the store that `config` names."""
    if config.scheme == "memory":
        return [ok("store", "memory: one node alone; parked calls die with its process (fine for trials)")]
    if config.scheme == "embedded":
        return [warn("store", "embedded: a stand-in inside one process; nothing is kept or shared", _GIVE)]
    try:
        told = await _ask(config)
    except Exception as error:
        found = trouble(error, config)
        return [fail("store", f"{config.target} {found.says}", found.do)]
    nodes = await _nodes(config)
    first = [version(told, config.target), latency(told), skew(told), eviction(told), persistence(told)]
    return [*first, *hashes(told), *replicas(told), nodes]


_GIVE = "set FRAMEHOLD_STORE_URL=redis://HOST:PORT"


async def _ask(config: StoreConfig) -> Told:
    from redis.exceptions import ResponseError

    from framehold_store.connections import open_client

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
        # Its answer was made somewhere between our two looks at the clock.
        here = (before + time.time()) / 2
        try:
            info: Mapping[str, Any] = await client.info()
        except ResponseError:
            info = {}
        return Told(info, await _packed(client), seconds + micros / 1e6 - here, min(pings) * 1000)
    finally:
        await client.aclose()


async def _packed(client: Any) -> int | None:
    from redis.exceptions import ResponseError

    try:
        # Two names for one setting: the older one is of before 7.0.
        said = await client.config_get("hash-max-*-value")
    except ResponseError:
        return None
    return min((int(value) for value in said.values()), default=None)


def version(told: Told, target: str) -> Finding:
    """A server old enough to lack what the scripts use is told as such."""
    name = "valkey" if "valkey_version" in told.info else "redis"
    said = str(told.info.get(f"{name}_version", ""))
    parts = tuple(int(part) for part in said.split(".")[:2] if part.isdigit())
    if not parts:
        return warn("store", f"{target} answers, and doesn't say its version", "make sure it is Redis 6.2 or later")
    if parts < _OLDEST:
        return fail("store", f"{target} is {name} {said}", "use Redis 6.2 or later, or Valkey")
    return ok("store", f"{target} answers: {name} {said}")


def latency(told: Told) -> Finding:
    """Each round waits for the store once or twice."""
    says = f"a PING takes {told.ping:.2f} ms"
    if told.ping > _SLOW_MS:
        return warn("store latency", says, "move the store nearer: each round of a call waits for it")
    return ok("store latency", says)


def skew(told: Told) -> Finding:
    """Leases are counted on the store's clock alone; logs are read side by side."""
    ahead = "ahead of" if told.skew > 0 else "behind"
    says = f"the store's clock is {abs(told.skew):.2f} s {ahead} this machine's"
    if abs(told.skew) > _SKEW_S:
        return warn("store clock", says, "run a time service on both; leases hold, but tokens and logs don't agree")
    return ok("store clock", says)


def eviction(told: Told) -> Finding:
    """An evicted lease is a correctness bug."""
    policy = told.info.get("maxmemory_policy")
    if policy is None:
        return warn("store eviction", "the store doesn't say its maxmemory-policy", "make sure that it is noeviction")
    says = f"maxmemory-policy is {policy}"
    if policy == "noeviction":
        return ok("store eviction", says)
    limited = bool(told.info.get("maxmemory"))
    do = "CONFIG SET maxmemory-policy noeviction: a lease that is evicted loses its call"
    return fail("store eviction", says, do) if limited else warn("store eviction", f"{says}, without a limit yet", do)


def persistence(told: Told) -> Finding:
    """Without an append-only file a restart of the store forgets all but what live nodes hold themselves."""
    if told.info.get("aof_enabled"):
        return ok("store persistence", "the append-only file is on")
    return warn(
        "store persistence",
        "the append-only file is off: when the store restarts, calls parked on live nodes go on, for these write "
        "them again; outcomes of finished calls are forgotten: a late retry of one is told it was lost",
        "CONFIG SET appendonly yes, unless this is a trial",
    )


def hashes(told: Told) -> list[Finding]:
    """What has ended outweighs what is parked, and most of all where it is stored as a table."""
    if told.packed is None:
        return []
    says = f"values of up to {told.packed} bytes are stored compactly"
    if told.packed >= PACKED:
        return [ok("store memory", says)]
    do = f"CONFIG SET hash-max-listpack-value {PACKED} (hash-max-ziplist-value before 7.0)"
    return [warn("store memory", f"{says}: a finished call takes twice the memory that it could", do)]


def replicas(told: Told) -> list[Finding]:
    """A master that was replaced goes on taking writes, all of them lost, unless each needs a replica."""
    count = told.info.get("connected_slaves")
    if not count:
        return []
    if "min_slaves_good_slaves" in told.info:
        return [ok("store replicas", f"{count}, and min-replicas-to-write is set")]
    do = "CONFIG SET min-replicas-to-write 1 on each server: one that was replaced then stops at once"
    return [warn("store replicas", f"{count}, and min-replicas-to-write is 0", do)]


async def _nodes(config: StoreConfig) -> Finding:
    store = open_store(config, clock.now)
    try:
        await store.open()
        found = await store.nodes()
    except StoreUnavailable as error:
        return fail("nodes", f"the registry can't be read ({error})", "look at the store's own log")
    finally:
        await store.close()
    if not found:
        return warn("nodes", f"no node is live in namespace {config.namespace}", "start one: framehold node TARGET")
    told = []
    for state, verb in ((LIVE, "live"), (DRAINING, "draining")):
        names = [str(one.node) for one in found if one.state == state]
        told += [f"{len(names)} {verb}: {', '.join(names)}"] if names else []
    return ok("nodes", "; ".join(told))

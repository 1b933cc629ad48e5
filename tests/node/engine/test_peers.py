"""The fleet as one node sees it: when the node at an address is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from framehold.engine.peers import Peers
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import NodeId
from framehold_core.lease import NodeRecord
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store.memory import MemoryStore
from framehold_store.system_clock import system_clock
from tests.leases import lease
from tests.node.acting import SOON
from tests.processes import until

pytestmark = pytest.mark.anyio

THERE = "http://127.0.0.1:1"


def peers_of(store: MemoryStore) -> Peers:
    trust = Trust(())
    return Peers("here", trust, LeaseSeal(trust, "ns"), store, system_clock())


async def test_a_node_whose_lease_is_gone_already_is_not_waited_for() -> None:
    """A request is on its way to it, since the store named it a moment before."""
    peers = peers_of(MemoryStore(lambda: 0.0, poll=0.01))
    await asyncio.wait_for(peers.vanished(THERE), SOON)
    await peers.close()


async def test_a_node_that_joined_a_moment_ago_is_waited_for_until_its_lease_is_gone() -> None:
    """The view of the fleet is older than its lease."""
    store = MemoryStore(lambda: 0.0, poll=0.01)
    peers = peers_of(store)
    await peers.follow()
    there = lease("there", address=THERE, expires=60.0)
    await store.register(there, 60.0)
    vanishing = asyncio.create_task(peers.vanished(THERE))
    await until(lambda: peers._membership and "there" in peers._membership.fleet.members, "the view with that node")
    assert not vanishing.done()
    await store.unregister(there)
    await asyncio.wait_for(vanishing, SOON)
    await peers.close()


class _Away(MemoryStore):
    """A store that does not tell who lives while it is `away`."""

    away = False

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        if self.away:
            raise StoreUnavailable("the store is away")
        return await super().nodes(named)


async def test_nobody_counts_as_gone_while_the_store_is_away() -> None:
    """The node may have joined since the last view."""
    store, there = _Away(lambda: 0.0, poll=0.01), lease("there", address=THERE, expires=60.0)
    peers = peers_of(store)
    await peers.follow()
    store.away = True
    vanishing = asyncio.create_task(peers.vanished(THERE))
    await until(lambda: peers._membership and peers._membership.stale, "a read that failed")
    await store.register(there, 60.0)
    assert not vanishing.done()
    store.away = False
    await until(lambda: peers._membership and "there" in peers._membership.fleet.members, "the view with that node")
    assert not vanishing.done()
    vanishing.cancel()
    await peers.close()

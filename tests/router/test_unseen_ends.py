"""Nodes that went while no router saw it are told by what the event log has of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_fleet.models.events import EventView, LogEntry
from framehold_router.collect import shared_look
from framehold_router.collect.unseen_ends import GRACE, HOUR
from tests.router.cast import NOW, Cast, cast_of, member
from tests.router.test_fleet_log import Shelf, end, log_of, shelf

pytestmark = pytest.mark.anyio


def joined(node: str, boot: str = "b", at: float = NOW) -> LogEntry:
    text = f"Node {node} has joined"
    return LogEntry(event=EventView(id=f"node_joined-{boot}-i", at=at, node_id=node, kind="node_joined", text=text))


def told(node: str, kind: str, boot: str = "b", at: float = NOW) -> LogEntry:
    return LogEntry(event=EventView(id=f"{boot}-000000007", at=at, node_id=node, kind=kind, text=kind))


@pytest.fixture
async def cast(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cast]:
    monkeypatch.setattr(shared_look, "FRESH", 0.0)
    async with cast_of() as made:
        made.store = Shelf()
        made.members.append(member("a", "http://127.0.0.1:1"))
        yield made


async def ends_after(cast: Cast, *entries: LogEntry, patience: float = GRACE) -> dict[tuple[str, str], bool]:
    """The ends that a new router tells `patience` seconds after its first look; whether each node left."""
    await shelf(cast).add(*entries)
    log = log_of(cast)
    assert not [end for end in (await log.logged()).ends.values() if end.last_heartbeat is None]
    cast.now += patience
    return {life: end.left for life, end in (await log.logged()).ends.items() if end.last_heartbeat is None}


async def test_a_node_that_nobody_saw_go_is_lost(cast: Cast) -> None:
    """By its joining, or by anything that it wrote itself. When it was missed is known, and no more."""
    assert await ends_after(cast, joined("x"), told("y", "takeover", "c")) == {("x", "b"): False, ("y", "c"): False}
    log = log_of(cast)
    await log.logged()
    missed, cast.now = cast.now, cast.now + GRACE
    found = (await log.logged()).ends["x", "b"]
    assert (found.detected, found.last_heartbeat, found.calls) == (missed, None, None)


async def test_one_that_drained_has_left(cast: Cast) -> None:
    drained = await ends_after(cast, joined("x"), told("x", "drain"), joined("y", "c"), told("y", "node_draining", "c"))
    assert drained == {("x", "b"): True, ("y", "c"): True}


async def test_those_that_are_here_or_were_seen_to_go_are_not_told_again(cast: Cast) -> None:
    """A node of that name is here, in whatever life; a router has seen it end; its last event is old."""
    old = joined("x", at=NOW - HOUR - 1)
    assert await ends_after(cast, joined("a", "former"), joined("z"), LogEntry(end=end()), old) == {}


async def test_only_the_last_life_under_a_name_counts(cast: Cast) -> None:
    """Of the one before nobody saw the end either, and it is told by the last one's."""
    entries = joined("z", "former", NOW - 60), joined("z"), LogEntry(end=end())
    assert await ends_after(cast, *entries) == {}
    assert await ends_after(cast, joined("z", "next", NOW + 1)) == {("z", "next"): False}


async def test_nothing_is_told_too_early(cast: Cast) -> None:
    assert await ends_after(cast, joined("x"), patience=GRACE - 0.1) == {}


async def test_the_time_without_a_store_does_not_count(cast: Cast) -> None:
    """While the store is away nobody can renew a lease: the time begins anew with its return."""
    log = log_of(cast)
    await shelf(cast).add(joined("x"))
    await log.logged()
    shelf(cast).trouble = StoreUnavailable("away")
    cast.now += GRACE
    assert not (await log.logged()).ends
    shelf(cast).trouble = None
    cast.now += 1
    assert not (await log.logged()).ends
    cast.now += GRACE
    assert ("x", "b") in (await log.logged()).ends


async def test_it_is_told_no_more_once_it_is_back(cast: Cast) -> None:
    log = log_of(cast)
    await shelf(cast).add(joined("x"))
    await log.logged()
    cast.now += GRACE
    assert ("x", "b") in (await log.logged()).ends
    cast.members.append(member("x", "http://127.0.0.1:2"))
    assert ("x", "b") not in (await log.logged()).ends

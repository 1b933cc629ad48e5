"""The routers of a fleet as they see each other: who lives, who said goodbye, and who vanished."""

from __future__ import annotations

import asyncio

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_fleet.identity.trust import Trust
from framehold_fleet.models.routers import RouterEntry
from framehold_router.collect import routers
from framehold_router.collect.routers import BEAT, MISSED, SHOWN, Routers
from framehold_store.memory import MemoryStore
from tests.kit.processes import until
from tests.router.cast import NOW, TRUST


class Hall:
    """A store, and routers that write to it when a test lets them."""

    def __init__(self) -> None:
        self.now = NOW
        self.store = MemoryStore(lambda: self.now)

    def router(self, name: str, boot: str = "b1", trust: Trust = TRUST, namespace: str = "ns") -> Routers:
        return Routers(self.store, trust, namespace, (name, boot, "0.1"), lambda: self.now)

    async def beat(self, *routers: Routers, times: int = 1) -> None:
        for _ in range(times):
            self.now += BEAT
            for router in routers:
                await router.beat()


def states(router: Routers) -> dict[str, str]:
    return {view.name: view.state for view in router.seen()}


async def test_a_router_that_vanished_is_lost_for_an_hour_unless_it_is_back() -> None:
    """Not at once, and by no clock alone: another one must have written meanwhile."""
    hall = Hall()
    one, two = hall.router("one"), hall.router("two")
    await hall.beat(one, two)
    await hall.beat(one)
    assert states(one) == {"one": "live", "two": "live"}
    await hall.beat(one, times=MISSED)
    assert states(one) == {"one": "live", "two": "lost"}
    assert {view.name: view.heard for view in one.seen()}["two"] == NOW + BEAT
    late = hall.router("late")
    await hall.beat(one, late, times=MISSED)
    assert states(late) == {"late": "live", "one": "live", "two": "lost"}, "one that began after that says so too"
    hall.now = NOW + SHOWN + BEAT
    assert "two" not in states(one)
    await hall.beat(one, hall.router("two", "b2"))
    await hall.beat(one)
    assert states(one)["two"] == "live"


async def test_a_router_that_ends_says_so() -> None:
    """It is in no list then. One whose store is away can't say it. The others know its descriptors."""
    hall = Hall()
    one = hall.router("one")
    two = Routers(hall.store, TRUST, "ns", ("two", "b1", "0.1"), lambda: hall.now, lambda: (58, 60))
    task = asyncio.create_task(two.run())
    await asyncio.sleep(0)
    await hall.beat(one)
    found = {view.name: (view.state, view.answers, view.descriptors, view.descriptors_limit) for view in one.seen()}
    assert found == {"one": ("live", True, None, None), "two": ("live", False, 58, 60)}
    hall.now += 1.0
    task.cancel()
    await asyncio.wait((task,))
    await hall.beat(one, times=MISSED + 1)
    assert states(one) == {"one": "live"}


@pytest.mark.parametrize(("says_goodbye", "state"), [(True, {}), (False, {"two": "lost"})])
async def test_an_entry_that_is_ahead_of_time_hides_no_later_one(says_goodbye: bool, state: dict[str, str]) -> None:
    """A router writes its first one before it has measured the store's clock. Who begins later sees the same. An entry
    of before the goodbye, which anybody may write again, does not bring the router back."""
    hall, ahead = Hall(), SHOWN
    one = hall.router("one")
    two = Routers(hall.store, TRUST, "ns", ("two", "b1", "0.1"), lambda: hall.now + ahead)
    await hall.beat(one, two)
    await hall.beat(one)
    ahead = 0.0
    await hall.beat(two, one)
    assert {view.name: view.heard for view in one.seen()}["two"] == hall.now
    live = (await hall.store.events(of="routers"))[-2].entry
    if says_goodbye:
        await two._write(left=True)
    await hall.beat(one, times=MISSED)
    await hall.store.append_events([live], "routers")
    late = hall.router("late")
    await hall.beat(one, late, times=MISSED)
    assert states(one) == states(late) == {"late": "live", "one": "live", **state}


async def test_nobody_is_lost_by_a_store_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    one, two = hall.router("one"), hall.router("two")
    await hall.beat(one, two, times=MISSED)
    append = hall.store.append_events

    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(hall.store, "append_events", away)
    for _ in range(MISSED + 1):
        with pytest.raises(StoreUnavailable):
            await hall.beat(one)
    monkeypatch.setattr(hall.store, "append_events", append)
    await hall.beat(one)
    assert states(one) == {"one": "live", "two": "live"}


async def test_a_bug_in_one_entry_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts descriptors may have none itself."""
    hall, counted = Hall(), iter((OSError("out of file descriptors"),))

    def descriptors() -> tuple[int | None, int | None]:
        if (error := next(counted, None)) is not None:
            raise error
        return 7, 9

    monkeypatch.setattr(routers, "BEAT", 0.0)
    one = Routers(hall.store, TRUST, "ns", ("one", "b1", "0.1"), lambda: hall.now, descriptors)
    task = asyncio.create_task(one.run())
    await until(lambda: task.done() or one.seen(), "an entry")
    assert [view.descriptors for view in one.seen()] == [7]
    task.cancel()
    await asyncio.wait([task])


async def test_who_has_no_key_adds_no_router_and_brings_none_back() -> None:
    hall = Hall()
    one, two = hall.router("one"), hall.router("two")
    await hall.beat(one, two)
    [_, old] = [stored.entry for stored in await hall.store.events(of="routers")]
    strange = hall.router("two", trust=Trust([b"x" * 32])), hall.router("two", namespace="other")
    changed = RouterEntry.model_validate_json(old).model_copy(update={"at": NOW + 999.0, "name": "three"})
    for _ in range(MISSED):
        await hall.beat(one, *strange)
        await hall.store.append_events([old, changed.model_dump_json().encode(), b"no", b"[]"], "routers")
    await hall.beat(one)
    assert states(one) == {"one": "live", "two": "lost"}

"""Nodes whose leases ran out because no node could write: who of them stays in the view of a router."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_fleet.members import membership as fleet_membership
from framehold_fleet.members.membership import DRAINING, LIVE, Member, Membership
from framehold_router.collect.node_client import ANSWER_TIMEOUT, MAX_STATUS_BYTES, NodeClient
from framehold_router.collect.survey import asking
from framehold_router.collect.unheard import MAX_MISSED, NodeAnswer, UnheardNodes, WhyUnheard
from tests.router.cast import TRUST, Answer, cast_of, hang, member, said, saying
from tests.router.test_membership import OPEN, Shelf, lease, names

WRITES, FAILS = True, False


def answer(writes: bool, boot: str = "b", draining: bool = False) -> NodeAnswer:
    return NodeAnswer(Incarnation("i"), Boot(boot), draining, writes)


class Nodes:
    """Nodes that answer as a test says; those that it does not name are gone. `asked` counts the questions."""

    def __init__(self) -> None:
        self.says: dict[str, NodeAnswer | WhyUnheard] = {}
        self.hangs: set[str] = set()
        self.asked = 0

    async def __call__(self, one: Member) -> NodeAnswer | WhyUnheard:
        node = one.node
        self.asked += 1
        if node in self.hangs:
            await asyncio.Event().wait()
        return self.says.get(node, WhyUnheard.GONE)


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
async def shelf() -> AsyncIterator[Shelf]:
    made = Shelf()
    yield made
    await made.close()


@pytest.fixture
async def membership(shelf: Shelf, nodes: Nodes) -> AsyncIterator[Membership]:
    await shelf.put(lease("a"), lease("b"), lease("c"))
    follower = Membership(shelf, OPEN, kept=UnheardNodes(nodes).kept)
    await follower.open()
    yield follower
    await follower.close()


async def without_leases(shelf: Shelf, *gone: str) -> None:
    for name in gone:
        await shelf.unregister(lease(name))


async def test_nodes_that_answer_stay_while_none_can_write(
    shelf: Shelf, nodes: Nodes, membership: Membership, caplog: pytest.LogCaptureFixture
) -> None:
    """One without a connection does not. When one node writes again, leases decide: after the time in which the others
    register."""
    caplog.set_level(logging.INFO)
    nodes.says = {"a": answer(FAILS), "b": answer(FAILS)}
    await without_leases(shelf, "a", "b", "c")
    for _ in range(3):
        assert names(await membership.refresh()) == ["a", "b"]
    nodes.says = {"a": answer(WRITES), "b": answer(FAILS)}
    await shelf.put(lease("a"))
    assert names(await membership.refresh()) == ["a", "b"]
    await shelf.put(lease("b"))
    asked = nodes.asked
    assert names(await membership.refresh()) == ["a", "b"] and nodes.asked == asked
    lines = [line for line in caplog.messages if "no node can write" in line or "have a lease again" in line]
    assert len(lines) == 2 and lines[0].endswith("a, b")


async def test_a_node_without_a_lease_is_gone_if_another_can_write(
    shelf: Shelf, nodes: Nodes, membership: Membership
) -> None:
    """It is cut off from the store alone: others take its calls over. Nobody waits for nodes that hang."""
    nodes.says, nodes.hangs = {"b": answer(WRITES)}, {"a", "c"}
    await without_leases(shelf, "a")
    async with asyncio.timeout(10):
        assert names(await membership.refresh()) == ["b", "c"]


@pytest.mark.parametrize("back", ["", "b"])
async def test_a_store_that_lost_leases_costs_no_node_its_place(
    back: str, shelf: Shelf, nodes: Nodes, membership: Membership
) -> None:
    """Their last heartbeats were written, and the next ones register them: all of them, or all but the first."""
    nodes.says = dict.fromkeys("abc", answer(WRITES))
    await without_leases(shelf, "a", "b", "c")
    for name in back:
        await shelf.put(lease(name))
    assert names(await membership.refresh()) == ["a", "b", "c"]
    await shelf.put(*(lease(name) for name in "abc" if name != back))
    assert names(await membership.refresh()) == ["a", "b", "c"]


async def test_a_node_that_does_not_register_again_is_gone_in_the_end(
    shelf: Shelf, nodes: Nodes, membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeat stands still: what it says of the last one is no news."""
    nodes.says = dict.fromkeys("abc", answer(WRITES))
    await without_leases(shelf, "a")
    assert names(await membership.refresh()) == ["a", "b", "c"]
    assert names(await membership.refresh()) == ["a", "b", "c"]
    monkeypatch.setattr(fleet_membership, "BACK", 0.0)
    assert names(await membership.refresh()) == ["b", "c"]
    await shelf.put(lease("a"))
    await membership.refresh()
    await without_leases(shelf, "a")
    assert names(await membership.refresh()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "says", [answer(WRITES, draining=True), answer(WRITES, boot="next"), WhyUnheard.LATE, WhyUnheard.GONE]
)
async def test_a_node_that_gave_its_lease_back_or_is_another_one_has_no_place_without_one(
    says: NodeAnswer | WhyUnheard, shelf: Shelf, nodes: Nodes, membership: Membership
) -> None:
    nodes.says = {"a": says, "b": answer(WRITES), "c": answer(WRITES)}
    await without_leases(shelf, "a")
    assert names(await membership.refresh()) == ["b", "c"]


async def test_a_node_may_be_late_once_and_is_back_when_it_answers(nodes: Nodes) -> None:
    nodes.says = dict.fromkeys("ab", answer(FAILS))
    nodes.says["c"] = WhyUnheard.LATE
    found = UnheardNodes(nodes)
    absent = {NodeId(name): member(name, "http://10.0.0.1:80") for name in "abc"}
    views = [await found.kept(absent if look == 0 else {}, {}) for look in range(2)]
    nodes.says["c"] = answer(FAILS)
    views.append(await found.kept({}, {}))
    assert [sorted(view or {}) for view in views] == [["a", "b", "c"], ["a", "b"], ["a", "b", "c"]]


NOT_READ = {
    "it fails": (saying("broken", 500), True),
    "it refuses": (saying({"error": "not you"}, 403), True),
    "another kind of answer": (saying({"node_id": 5}), True),
    "too long": (saying(said("a", more="x" * MAX_STATUS_BYTES)), True),
    "no answer": (hang, False),
}


@pytest.mark.parametrize(("says", "lives"), NOT_READ.values(), ids=NOT_READ)
async def test_a_node_lives_that_answers_whatever_it_says(says: Answer, lives: bool) -> None:
    async with cast_of() as cast:
        await cast.node("a", says)
        client = NodeClient(TRUST, ANSWER_TIMEOUT if lives else 0.05)
        found, absent = UnheardNodes(asking(client)), {one.node: one for one in cast.members}
        views = [await found.kept(absent, {}) for _ in range(MAX_MISSED + 1)]
        await client.close()
    assert [list(view or {}) for view in views] == [["a"]] * (MAX_MISSED - 1) + [["a"] if lives else []] * 2


async def test_what_a_node_says_of_itself_is_in_the_view(nodes: Nodes) -> None:
    nodes.says = {"a": answer(FAILS, draining=True), "b": answer(FAILS, boot="next")}
    kept = await UnheardNodes(nodes).kept({NodeId(name): member(name, "http://10.0.0.1:80") for name in "ab"}, {})
    assert kept is not None
    assert [(one.state, one.boot) for one in kept.values()] == [(DRAINING, "b"), (LIVE, "next")]


async def test_a_silent_store_leaves_the_nodes_that_answer(shelf: Shelf, nodes: Nodes, membership: Membership) -> None:
    """If none answers, or one can write, it may be the router that is cut off: the last view stays."""
    shelf.away = True
    fails = {"a": answer(FAILS), "b": answer(FAILS)}
    late = dict.fromkeys("abc", WhyUnheard.LATE)
    for nodes.says, stay in ((late, "abc"), (fails, "ab"), ({"a": answer(WRITES)}, "ab"), ({}, "ab")):  # type: ignore[assignment]
        assert names(await membership.refresh()) == list(stay)

"""Which node serves a request. Any choice is correct; these tests hold the good ones."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_fleet.members.address import address_of
from framehold_fleet.members.membership import Fleet, Member
from framehold_fleet.members.node_stats import Stats
from framehold_router.routing.learned_owners import Owners
from framehold_router.routing.placement import BOUND, DRAWS, FEW, PASSED_OVER, Placement, PlacementReason, Placer
from framehold_router.routing.request_facts import Facts, RequestKind

START, ANY = Facts(RequestKind.START), Facts(RequestKind.ANY)
A, B, C, D = (NodeId(name) for name in "abcd")


def member(node: NodeId, parked: int | None = 0, state: str = "live", url: str | None = None, beat: int = 0) -> Member:
    url = f"http://{node}:80" if url is None else url
    return Member(node, Incarnation("i"), Boot("b"), state, url, address_of(url), Stats(parked=parked), beat=beat)


def fleet(*nodes: NodeId | Member) -> Fleet:
    return Fleet.of(node if isinstance(node, Member) else member(node) for node in nodes)


def a_round(node: NodeId) -> Placement:
    """A round of some call, at this node."""
    return Placement(node, (node, 80), token_call=CallId("0" * 32))


def a_stream(node: NodeId) -> Placement:
    """A request that stays open at this node, and is no round of a call."""
    return Placement(node, (node, 80))


def a_process(node: NodeId) -> Placement:
    """A request at the process that this node has at first."""
    return Placement(node, (node, 80), boots=(Boot("b"),))


class Stage:
    """A placer that has two like reports of each node, with the fleet and the clock in the test's hands."""

    def __init__(self, *nodes: NodeId | Member, mint: Callable[[], CallId] | None = None) -> None:
        now, self.time = fleet(*nodes), 100.0
        self.fleet = fleet(*(member._replace(beat=member.beat - 1) for member in now.members.values()))
        numbers = count()
        mint = mint or (lambda: CallId(f"{next(numbers):032x}"))
        self.placer = Placer(lambda: self.fleet, lambda: self.time, mint)
        self.placer.where(ANY)
        self.fleet = now
        self.placer.where(ANY)

    def place(self, facts: Facts, *tried: NodeId) -> Placement:
        found = self.placer.place(facts, tried)
        assert found is not None
        return found

    def retry(self, call: CallId, *tried: NodeId) -> NodeId:
        return self.place(Facts(RequestKind.RETRY, call=call), *tried).node

    def serve(self, facts: Facts, by: NodeId) -> None:
        self.placer.learned(self.place(facts), by)

    def unreachable(self, node: NodeId) -> None:
        self.placer.unreachable(a_process(node))

    def declined(self, node: NodeId) -> None:
        self.placer.declined(a_process(node))

    def owner(self, call: CallId) -> NodeId:
        owner = self.fleet.ring.owner(call)
        assert owner is not None
        return owner


def call_of(stage: Stage, node: NodeId) -> CallId:
    return next(call for number in count(10**6) if stage.owner(call := CallId(f"{number:032x}")) == node)


def test_a_call_starts_where_its_id_leads_back() -> None:
    """The ring maps the minted id to the chosen node: any router finds it again without having learned anything."""
    stage = Stage(A, B, C)
    placements = [stage.place(START) for _ in range(300)]
    for placed in placements:
        assert placed.call is not None
        assert placed.call == placed.token_call
        assert stage.owner(placed.call) == placed.node
        assert (placed.address, placed.reason) == ((placed.node, 80), PlacementReason.START)
        assert stage.retry(placed.call) == placed.node
    assert len({placed.call for placed in placements}) == 300
    random = Placer(lambda: stage.fleet, lambda: 0.0)
    drawn = {found.call for _ in range(100) if (found := random.place(START))}
    assert len(drawn) == 100 and all(call is not None and len(call) == 32 for call in drawn), "random by default"


@pytest.mark.parametrize("nodes", [2, 3, 7])
def test_no_node_gets_more_than_its_bound(nodes: int) -> None:
    stage = Stage(*(NodeId(f"node-{number}") for number in range(nodes)))
    held: Counter[NodeId] = Counter()
    for total in range(1, 500):
        node = stage.place(START).node
        stage.placer.began(a_round(node))
        held[node] += 1
        assert held[node] <= -(-BOUND * total // nodes)


FLEET = (A, B, C, D)
REPORTS = {
    "one after the other": (24, (200, 200), [(A,), (B,), (C,), (D,)], 0.1),
    "three together, the fourth later": (16, (60, 300), [(A, B, C), (D,)], 0.05),
}
"""Turns, how many calls start in each, whose heartbeat ends it, and the least share of each that reports last."""


@pytest.mark.parametrize(("turns", "starts", "reporting", "least"), REPORTS.values(), ids=REPORTS.keys())
def test_a_node_is_not_passed_over_for_the_time_of_its_report(
    turns: int, starts: tuple[int, int], reporting: list[tuple[NodeId, ...]], least: float
) -> None:
    """A fleet fills with calls that stay. Between two reports each node gets about its share: none gets all that the
    others are refused."""
    held, reported = dict.fromkeys(FLEET, 0), dict.fromkeys(FLEET, 0)
    stage = Stage(*FLEET)
    for turn in range(turns):
        got = Counter(stage.place(START).node for _ in range(starts[turn % 2]))
        assert all(least * got.total() < got[node] for node in reporting[-1]), (turn, got)
        held = {node: held[node] + got[node] for node in FLEET}
        reported |= {node: held[node] for node in reporting[turn % len(reporting)]}
        stage.fleet = fleet(*(member(node, reported[node]) for node in FLEET))
    assert max(held.values()) < 1.25 * sum(held.values()) / len(FLEET)


def test_a_node_above_the_bound_by_two_reports_gets_no_call() -> None:
    """By one report it may seem so because it reported after the others, or before them."""
    others = member(B, 100), member(C, 100)
    stage = Stage(member(A, 100, beat=1), *others)
    for beat, parked, room in ((2, 200, True), (3, 190, False), (4, 190, False), (5, 100, True), (6, 200, True)):
        stage.fleet = fleet(member(A, parked, beat=beat), *others)
        assert (A in {stage.place(START).node for _ in range(200)}) is room, (beat, parked)


def test_a_router_that_has_just_started_has_one_report_of_each_node() -> None:
    """A node reports between two rounds of its calls, or in the middle of one: by that alone it would get no call."""
    seen = [member(A, 34), member(B, 0), member(C, 0)]
    view = fleet(*seen)
    placer = Placer(lambda: view, lambda: 0.0)
    assert {found.node for _ in range(200) if (found := placer.place(START))} == {A, B, C}
    view = fleet(member(A, 34, beat=1), *seen[1:])
    assert {found.node for _ in range(200) if (found := placer.place(START))} == {B, C}


LOADED = {
    "by parked calls": ([member(A, 100), member(B, 0), member(C, None)], [], {B, C}),
    "a few are no load": ([member(A, 1), member(B, FEW - 1), member(C, 0)], [], {A, B, C}),
    "all alike": ([member(A, 100), member(B, 100), member(C, 100)], [], {A, B, C}),
    "slow, however many are parked": ([member(A, 5000), member(B, 5000), member(C, 5000)], [A] * 50, {B, C}),
    "without those on a draining node": ([A, B, member(C, state="draining")], [*[C] * 300, *[A] * 20], {B}),
}


@pytest.mark.parametrize(("nodes", "busy", "drawn"), LOADED.values(), ids=LOADED.keys())
def test_load_keeps_new_calls_away(nodes: list[NodeId | Member], busy: list[NodeId], drawn: set[NodeId]) -> None:
    stage = Stage(*nodes)
    for node in busy:
        stage.placer.began(a_round(node))
    assert {stage.place(START).node for _ in range(200)} == drawn


@pytest.mark.parametrize("rounds", [20, 100])
def test_a_node_full_of_parked_calls_gets_none_however_busy_the_others_are(rounds: int) -> None:
    """It would refuse them. All rounds in flight are at the nodes with room, as they must be."""
    stage = Stage(member(A, 20_000), member(B, 0), member(C, 0))
    for node in (B, C) * (rounds // 2):
        stage.placer.began(a_round(node))
    placed = [stage.place(START) for _ in range(300)]
    assert {placement.node for placement in placed} == {B, C}
    last = placed[-1].call
    assert last is not None and int(last, 16) < 4 * len(placed), "a few draws find a node"


def test_a_node_that_takes_no_new_calls_moves_no_bound() -> None:
    """A draining node hands thousands off; a node that the fleet does not trust reports what it likes."""
    full, others = member(A, 9000), (member(B, 1000), member(C, 1000))
    stage = Stage(full, *others, member(D, 9000, "draining"))
    for parked in (0, 2**53):
        stage.fleet = fleet(full, *others, member(D, parked, "draining"))
        assert {stage.place(START).node for _ in range(100)} == {B, C}


def test_streams_that_stay_open_keep_no_new_call_away() -> None:
    """A node that was restarted has none. It must not get all new calls for as long as clients keep their streams."""
    stage = Stage(A, B, C)
    for node in (A, B) * 20:
        stage.placer.began(a_stream(node))
    got = Counter(stage.place(START).node for _ in range(300))
    assert all(50 < got[node] < 150 for node in (A, B, C)), got
    for node in (A, B) * 20:
        stage.placer.ended(a_stream(node))


def test_the_bound_moves_with_the_load() -> None:
    stage = Stage(A, B, C)
    for _ in range(300):
        stage.placer.began(stage.place(START))
    last = stage.place(START).call
    # Ids come from a counter: the last one tells how many were drawn.
    assert last is not None and int(last, 16) < 301 * 3

    stage = Stage(A, B)
    for node in (*[A] * 20, *[B] * 300):
        stage.placer.began(a_round(node))
    stage.fleet = fleet(A, B)
    for _ in range(300):
        stage.placer.ended(a_round(B))
    assert {stage.place(START).node for _ in range(100)} == {B}
    for _ in range(20):
        stage.placer.ended(a_round(A))
    assert {stage.place(START).node for _ in range(100)} == {A, B}


def test_of_64_draws_the_least_loaded_is_taken() -> None:
    """When chance names no node with room. Each draw that is looked at is one id."""
    drawn: list[CallId] = []

    def mint() -> CallId:
        # Only ids of the two full nodes come up.
        while True:
            call = CallId(os.urandom(16).hex())
            if view.ring.owner(call) != C:
                drawn.append(call)
                return call

    view = fleet(A, B, C)
    stage = Stage(A, B, C, mint=mint)
    for node in (*[A] * 50, *[B] * 40):
        stage.placer.began(a_round(node))
    placed = stage.place(START)
    assert placed.node == B
    assert placed.call in drawn
    assert DRAWS <= len(drawn) <= DRAWS + 1


def test_a_call_that_was_not_delivered_starts_elsewhere_under_a_new_id() -> None:
    """docs/protocol.md, rule 9: never the same id twice."""
    stage = Stage(A, B, C)
    first = stage.place(START)
    second = stage.place(START, first.node)
    third = stage.place(START, first.node, second.node)
    assert {first.node, second.node, third.node} == {A, B, C}
    assert len({first.call, second.call, third.call}) == 3
    assert stage.placer.place(START, [A, B, C]) is None
    for facts in (START, ANY, Facts(RequestKind.RETRY, call=first.call), Facts(RequestKind.SESSION, node=A)):
        assert Stage().placer.place(facts) is None, "an empty fleet takes nothing"


def test_one_node_left_of_very_many_is_found() -> None:
    """No draw may meet it; the response will say where the call lives."""
    nodes = [NodeId(f"node-{number}") for number in range(400)]
    stage = Stage(*nodes)
    tried = [node for node in nodes if node != "node-7"]
    placed = [stage.place(START, *tried) for _ in range(20)]
    assert {found.node for found in placed} == {"node-7"}
    astray = next(found for found in placed if found.call is not None and stage.owner(found.call) != "node-7")
    assert astray.call is not None
    stage.placer.learned(astray, "node-7")
    assert stage.retry(astray.call) == "node-7"


def test_a_retry_goes_to_the_rings_owner_then_along_the_ring() -> None:
    stage = Stage(A, B, C, D)
    call = CallId("f" * 32)
    tried: list[NodeId] = []
    while (placed := stage.placer.place(Facts(RequestKind.RETRY, call=call), tried)) is not None:
        assert (placed.call, placed.token_call, placed.reason) == (
            None,
            call,
            PlacementReason.NEXT if tried else PlacementReason.RING,
        )
        tried.append(placed.node)
    assert tried == list(stage.fleet.ring.order(call))


def test_a_call_that_lives_elsewhere_is_learned() -> None:
    stage = Stage(A, B, C)
    call = call_of(stage, A)
    facts = Facts(RequestKind.RETRY, call=call)
    stage.serve(facts, by=C)
    assert (stage.place(facts).node, stage.place(facts).reason) == (C, PlacementReason.LEASE)
    assert stage.retry(call, C) == A
    stage.serve(facts, by=A)
    assert (stage.place(facts).node, stage.place(facts).reason) == (A, PlacementReason.RING)
    placed = stage.place(facts, A)
    stage.placer.learned(placed, placed.node)
    assert stage.retry(call) == placed.node != A


def test_what_was_learned_of_a_node_that_is_gone_is_ignored() -> None:
    stage = Stage(A, B, C)
    call = call_of(stage, A)
    facts = Facts(RequestKind.RETRY, call=call)
    for name in ("", "unknown", "a\r\nx: y", "a" * 10_000):
        stage.serve(facts, by=NodeId(name))
        assert stage.retry(call) == A
    stage.serve(facts, by=C)
    stage.fleet = fleet(A, B)
    assert stage.retry(call) == stage.owner(call)
    stage.fleet = fleet(A, B, C)
    assert stage.retry(call) == C


def test_a_draining_node_serves_what_it_holds() -> None:
    stage = Stage(A, B, member(C, state="draining"))
    call = call_of(stage, A)
    stage.serve(Facts(RequestKind.RETRY, call=call), by=C)
    assert stage.retry(call) == C
    others = [*(START for _ in range(50)), *(ANY for _ in range(50)), Facts(RequestKind.RETRY, call=call_of(stage, B))]
    assert {stage.place(facts).node for facts in others} <= {A, B}
    stage = Stage(member(A, state="draining"), member(B, state="draining", url="nowhere"))
    assert stage.retry(CallId("0" * 32)) == A
    assert stage.place(ANY).node == A
    assert stage.placer.place(START) is None
    assert stage.placer.place(ANY, [A]) is None


def test_a_session_goes_to_its_node() -> None:
    """In any state: it lives there and nowhere else, and another node would say that there is no such session. If its
    node is gone, whichever it reaches may say so."""

    def of(node: NodeId) -> Facts:
        return Facts(RequestKind.SESSION, node=node)

    stage = Stage(A, B, member(C, state="draining"))
    for node in (A, B, C):
        assert stage.place(of(node)) == Placement(node, (node, 80), None, None, PlacementReason.SESSION, (Boot("b"),))
    assert stage.placer.place(of(A), [A]) is None
    stage.unreachable(A)
    assert stage.place(of(A)).node == A
    stage = Stage(A, B, member(C, url="nowhere"))
    for gone in (C, D):
        assert {stage.place(of(gone)).node for _ in range(100)} == {A, B}


def test_other_requests_go_to_the_less_busy_of_two() -> None:
    stage = Stage(A, B, C)
    for _ in range(5):
        stage.placer.began(a_round(A))
    assert {stage.place(ANY).node for _ in range(300)} == {B, C}
    assert stage.place(ANY, B, A) == Placement(C, (C, 80), None, None, PlacementReason.ANY, (Boot("b"),))
    assert stage.placer.place(ANY, [A, B, C]) is None
    stage = Stage(member(A, 10), member(B, 1000))
    assert {stage.place(ANY).node for _ in range(100)} == {A}
    stage.placer.began(a_round(A))
    assert {stage.place(ANY).node for _ in range(100)} == {B}


def test_a_node_that_can_not_be_reached_is_passed_over() -> None:
    """By requests of every kind, its own calls too, also those that were learned: an address that swallows packets must
    not cost each a time-out."""
    stage = Stage(A, B, C)
    call = call_of(stage, A)
    stage.unreachable(A)
    stage.time += PASSED_OVER - 0.1
    facts = [*[START] * 50, *[ANY] * 50, Facts(RequestKind.RETRY, call=call)]
    assert {stage.place(fact).node for fact in facts} == {B, C}
    assert stage.retry(call) == list(stage.fleet.ring.order(call))[1]
    assert stage.retry(call, B, C) == A
    stage = Stage(A, B, C)
    stage.serve(Facts(RequestKind.RETRY, call=call), by=C)
    stage.unreachable(C)
    assert stage.retry(call) == A


def test_a_round_at_its_first_choice_says_so_though_another_node_is_out_of_reach() -> None:
    stage = Stage(A, B, C)
    stage.serve(Facts(RequestKind.RETRY, call=(elsewhere := call_of(stage, A))), by=C)
    facts = {node: Facts(RequestKind.RETRY, call=call_of(stage, node)) for node in (B, C)}
    stage.unreachable(B)
    assert stage.place(facts[C]).reason is PlacementReason.RING
    assert stage.place(Facts(RequestKind.RETRY, call=elsewhere)).reason is PlacementReason.LEASE
    assert stage.place(facts[B]).reason is PlacementReason.NEXT
    for node in (A, C):
        stage.unreachable(node)
    assert stage.place(facts[B]).reason is PlacementReason.RING, "where all are, none is passed over"


def test_after_a_while_one_request_tries_it() -> None:
    stage = Stage(A, B)
    call = call_of(stage, A)
    stage.unreachable(A)
    stage.time += PASSED_OVER
    facts = Facts(RequestKind.RETRY, call=call)
    assert [found.node for _ in range(3) if (found := stage.placer.where(facts))] == [A] * 3, "a look-up tries nothing"
    assert [stage.retry(call) for _ in range(5)] == [A, B, B, B, B]
    assert [found.node for _ in range(3) if (found := stage.placer.where(facts))] == [B] * 3
    stage.unreachable(A)
    stage.time += PASSED_OVER - 0.1
    assert stage.retry(call) == B
    stage.time += 0.1
    stage.serve(facts, by=A)
    assert [stage.retry(call) for _ in range(3)] == [A, A, A], "a response ends it at once, for everyone"


@pytest.mark.parametrize("facts", [START, ANY], ids=["start", "any"])
def test_after_a_while_one_new_request_tries_it(facts: Facts) -> None:
    """The others are given to it again as soon as it has answered."""
    stage = Stage(A, B)
    for _ in range(2):
        stage.unreachable(A)
        assert {stage.place(facts).node for _ in range(50)} == {B}
        stage.time += PASSED_OVER
        assert Counter(stage.place(facts).node for _ in range(50))[A] == 1
        stage.time += PASSED_OVER
        stage.placer.learned(next(found for _ in range(50) if (found := stage.place(facts)).node == A), A)
        assert {stage.place(facts).node for _ in range(50)} == {A, B}


@pytest.mark.parametrize("trouble", ["declined", "unreachable"])
def test_a_choice_costs_no_more_for_many_nodes_of_which_some_are_left_out(trouble: str) -> None:
    """But for the first one after another was left out, or comes back."""
    stage, calls = Stage(*(NodeId(f"node-{number}") for number in range(500))), 0

    def called(*_: object) -> None:
        nonlocal calls
        calls += 1

    for number in range(3):
        getattr(stage, trouble)(NodeId(f"node-{number}"))
    for wait in (0, PASSED_OVER):
        stage.time += wait
        assert all(stage.placer.where(facts) for facts in (START, ANY))
        sys.setprofile(called)
        try:
            assert all(stage.placer.where(facts) for facts in (START, ANY) * 5)
        finally:
            sys.setprofile(None)
        assert calls < 1000, "ten choices"


def test_where_there_is_no_choice_nobody_is_passed_over() -> None:
    """One node, or all of them out of reach: trying is better than refusing."""
    stage = Stage(A, B)
    for node in (A, B):
        stage.unreachable(node)
    assert {stage.place(START).node for _ in range(100)} == {A, B}
    assert stage.place(ANY).node in (A, B)
    assert stage.retry(call_of(stage, A)) == A


def test_nodes_that_are_passed_over_leave_room_on_the_others() -> None:
    """The bound is of the mean of those that are left: a lone one takes everything at the first draw of its own."""
    stage = Stage(member(A, 0), member(B, 1000))
    stage.unreachable(A)
    minted = Counter(stage.place(START).call for _ in range(50))
    assert len(minted) == 50
    # Ids come from a counter, so the last one tells how many were drawn: about two for each call, not 64.
    assert max(int(call, 16) for call in minted if call is not None) < 50 * 8


def test_a_node_stands_while_its_lease_does_or_while_there_is_no_other() -> None:
    """A round that runs is cut off where it is given up: for nothing, where nobody else can be asked."""
    stage = Stage(A, B)
    placed = stage.place(Facts(RequestKind.RETRY, call=call_of(stage, A)))
    assert stage.placer.stands(placed)
    for other in ({"url": "http://elsewhere:80", "address": ("elsewhere", 80)}, {"boot": Boot("b2")}):
        stage.fleet = fleet(member(A)._replace(**other), B)
        assert not stage.placer.stands(placed), "the next process of its node"
    stage.fleet = fleet(member(A)._replace(inc=Incarnation("i2")), B)
    assert stage.placer.stands(placed), "the same process, after a lapse"
    stage.fleet = fleet(member(B, state="draining"))
    assert not stage.placer.stands(placed)
    for nobody in (fleet(), fleet(member(A)._replace(boot=Boot("b2")), member(B, url="nonsense"))):
        stage.fleet = nobody
        assert stage.placer.stands(placed)


def test_another_life_of_a_node_is_not_out_of_reach() -> None:
    """A pod that comes back under its name has a new address, also where its lease never went missing from the view."""
    stage = Stage(A, B)
    call = call_of(stage, A)
    stage.unreachable(A)
    stage.fleet = fleet(member(A, 7), B)
    assert stage.retry(call) == B
    stage.fleet = fleet(member(A)._replace(boot=Boot("b2")), B)
    assert stage.retry(call) == A
    for late in (stage.unreachable, stage.declined):
        late(A)
        assert stage.retry(call) == A and A in {stage.place(START).node for _ in range(50)}, "heard of its last life"
    stage.fleet = fleet(A, B)
    stage.unreachable(A)
    for nodes, owner in (((B,), B), ((A, B), A)):
        stage.fleet = fleet(*nodes)
        assert stage.retry(call) == owner


def test_what_is_learned_is_bounded() -> None:
    owners = Owners(limit=3)
    calls = [CallId(str(number)) for number in range(4)]
    for call in calls[:3]:
        owners.learn(call, A)
    assert owners.get(calls[0]) == A
    owners.learn(calls[3], B)
    assert [owners.get(call) for call in calls] == [A, None, A, B]
    owners.learn(calls[3], C)
    owners.forget(calls[0])
    owners.forget(calls[0])
    assert ([owners.get(call) for call in calls], len(owners)) == ([None, None, A, C], 2)


states = st.sampled_from(("live", "live", "draining", "odd"))
urls = st.sampled_from((None, None, None, "nowhere"))
members = st.lists(st.tuples(st.sampled_from((A, B, C, D)), states, urls), unique_by=lambda item: item[0])
some = st.sets(st.sampled_from((A, B, C, D)))
facts_of_all_kinds = st.one_of(
    st.just(START),
    st.just(ANY),
    st.builds(lambda number: Facts(RequestKind.RETRY, call=CallId(f"{number:032x}")), st.integers(0, 50)),
    st.builds(lambda node: Facts(RequestKind.SESSION, node=node), st.sampled_from((A, B, C, D))),
)


@settings(deadline=None)
@given(members, some, some, st.lists(facts_of_all_kinds, min_size=1, max_size=4))
def test_only_members_with_an_address_that_were_not_tried(
    found: list[tuple[NodeId, str, str | None]], tried: Collection[NodeId], lost: set[NodeId], wanted: list[Facts]
) -> None:
    stage = Stage(*(member(node, 0, state, url) for node, state, url in found))
    for node in lost:
        stage.unreachable(node)
    for facts in wanted:
        placed = stage.placer.place(facts, tried)
        if placed is None:
            assert facts.node in tried or not stage.fleet.ring.nodes - set(tried)
            continue
        assert placed.node not in tried
        assert placed.address == stage.fleet.members[placed.node].address
        assert (placed.call is not None) == (facts.kind is RequestKind.START)
        assert facts.kind is not RequestKind.START or placed.node in stage.fleet.ring.nodes

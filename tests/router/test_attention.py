"""The verdict on a fleet: what is wrong, how bad it is, where, and what to do. Nothing is a problem by itself that
follows from another one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framehold_core.ids import NodeId
from framehold_fleet.members.store_health import ANSWERS, FULL, REFUSES, SILENT, StoreLook
from framehold_fleet.models.events import EndView, EventView
from framehold_fleet.models.nodes import (
    OF_STORE,
    DepartedView,
    FailingView,
    LossView,
    NodeView,
    PauseView,
    RefusedView,
    StallView,
)
from framehold_fleet.models.problems import ProblemView
from framehold_fleet.models.routers import RouterView
from framehold_fleet.telemetry.descriptors import Descriptors
from framehold_router.routing.refused_hosts import SHOWN, RefusedHosts
from framehold_router.verdict import rules
from framehold_router.verdict.seen import RUNBOOK, FleetFacts
from framehold_store.base import MemoryUse
from tests.kit.processes import ROOT
from tests.router.cast import NOW


def node(name: str = "a", **other: Any) -> NodeView:
    fields = {"incarnation": "i", "boot": "b", "state": "live", "address": "http://a:1", "store": ANSWERS}
    return NodeView(node_id=name, **{**fields, **other})


def lost(name: str, how: Any = "lost", ago: float = 180.0, store: str | None = None) -> DepartedView:
    at = NOW - ago
    return DepartedView(node_id=name, boot=name, how=how, last_heartbeat=at - 5, detected=at, store=store)


def seen(
    *nodes: NodeView, departed: Any = (), events: Any = (), stuck: int = 0, store: StoreLook | None = None, **tools: Any
) -> list[ProblemView]:
    return rules.of(FleetFacts(NOW, nodes, list(departed), list(events), stuck, store or StoreLook(), **tools))


def kinds(problems: list[ProblemView]) -> list[tuple[str, str, str]]:
    return [(problem.severity.value, problem.kind, problem.node) for problem in problems]


def one(problems: list[ProblemView], wanted: tuple[str, str, str], *texts: str) -> ProblemView:
    """The only problem: severity, kind and node are these, and each text is in what it says or says to do."""
    assert kinds(problems) == [wanted]
    [problem] = problems
    told = f"{problem.text}\n{problem.next}\n{problem.link}"
    assert [text for text in texts if text not in told] == []
    return problem


def test_a_fleet_in_health() -> None:
    well = node(
        frames=70, max_parked=100, rss=7, memory_limit=10, heartbeat_age=1.0, loop_lag_p99=0.2, clock_offset=-19.0
    )
    assert seen(well, node("b", state="draining"), departed=[lost("c", "left")]) == []
    live = RouterView(name="r1:8080", boot="b", version="0.1", state="live", heard=NOW)
    spent = (Descriptors(9, 100), 61.0)
    assert seen(node(), routers=(live,), own_descriptors=spent, store=StoreLook(ANSWERS, MemoryUse(79, 100))) == []
    assert seen(node(descriptors=79, descriptors_limit=100), node("c", descriptors=900)) == []


@pytest.mark.parametrize(
    ("fields", "severity", "kind"),
    [
        ({"state": "unreachable"}, "harm", "node_unreachable"),
        ({"state": "other keys"}, "risk", "node_other_keys"),
        ({"state": "lapsed", "heartbeat_age": 48.0}, "harm", "node_lapsed"),
        ({"state": "lost"}, "harm", "node_name_taken"),
        ({"state": "confused"}, "risk", "node_state"),
        ({"heartbeat_age": 48.0}, "risk", "heartbeat_late"),
        ({"state": "draining", "heartbeat_age": 48.0}, "risk", "heartbeat_late"),
        ({"frames": 81, "max_parked": 100}, "risk", "frames_near_limit"),
        ({"rss": 85, "memory_limit": 100}, "risk", "memory_near_limit"),
        ({"loop_lag_p99": 2.5}, "harm", "loop_stood"),
        ({"clock_offset": 90.0}, "risk", "clock_wrong"),
        ({"clock_offset": -20.0}, "risk", "clock_wrong"),
    ],
)
def test_a_node_that_needs_an_operator(fields: dict[str, Any], severity: str, kind: str) -> None:
    problem = one(seen(node("b c", **fields), node("a")), (severity, kind, "b c"))
    assert "b c" in problem.text and problem.link == "/dashboard/nodes/b%20c" and problem.next


@pytest.mark.parametrize(
    ("wrong", "says"), [(1200.0, "20m ahead of all nodes'.* end 20m early"), (-1200.0, "20m behind all .*end 20m late")]
)
def test_a_clock_of_the_store_that_is_wrong(wrong: float, says: str) -> None:
    """All differ from it, and agree with each other: no node is blamed. With one node who is wrong is not known."""
    nodes = [node(clock_offset=wrong), node("b", clock_offset=wrong - 2)]
    problem = one(seen(*nodes, node("c"), own_offset=wrong), ("risk", "clock_wrong", ""))
    assert re.search(says, problem.text) and problem.next.endswith("on the store's machine")
    for own, some in ((0.0, nodes), (wrong + 9, nodes), (wrong, nodes[:1])):
        assert [found.node for found in seen(*some, own_offset=own)] == [each.node_id for each in some]


def test_no_stranger_makes_a_node_refuse_hosts() -> None:
    """One Host among others is one client's, and a row that has ended says nothing of now."""
    at = 0.0
    rows, b = RefusedHosts(lambda: at), NodeId("b")
    for status in (421, 421, 200, 421, 421, 404, 421, 421):
        rows.answered(b, status)
        rows.answered(NodeId("c"), 200)
        assert not rows.now()
    rows.answered(b, 421)
    assert rows.now() == {b: 3}
    at = SHOWN + 1
    assert not rows.now()


ROUTER = RouterView(name="r2:8080", boot="b", version="0.1", state="live", heard=NOW)
SPENT = ROUTER.model_copy(update={"descriptors": 60, "descriptors_limit": 60})
REFUSES_US = node("b", state="unreachable", unanswered="it answered HTTP 403", answer_status=403, lives=True)
PAUSE = PauseView(tool="pay", at=NOW, by="framehold", why="its calls ended 3 processes")
SERVERS = node(server="shop"), node("b", server="bank"), node("c", server="till"), node("d")
OWN = "router_descriptors"
PROBLEMS: dict[str, tuple[Callable[[], list[ProblemView]], tuple[str, str, str], list[str]]] = {
    "no node": (
        lambda: seen(node(state="draining")),
        ("harm", "no_live_node", ""), ["framehold node TARGET", "docs/runbook.md#frameholdnolivenode"],
    ),
    "a node refuses the name of the fleet": (
        lambda: seen(node("b"), node(), refused_hosts={NodeId("b"): 4}),
        ("risk", "host_refused", "b"), ["refused the last 4 requests", "FRAMEHOLD_ALLOWED_HOSTS"],
    ),
    "a node refuses this router": (
        lambda: seen(REFUSES_US, node()),
        ("harm", "node_unreachable", "b"), ["does not believe that this router asks", "FRAMEHOLD_KEYS"],
    ),
    "a router that vanished": (
        lambda: seen(node(), routers=(ROUTER, ROUTER.model_copy(update={"state": "lost"}))),
        ("risk", "router_lost", ""), ["r2:8080 has written nothing"],
    ),
    "what a router that vanished wrote is old": (
        lambda: seen(node(), routers=(SPENT.model_copy(update={"state": "lost"}),)), ("risk", "router_lost", ""), [],
    ),
    "few descriptors": (
        lambda: seen(node(descriptors=80, descriptors_limit=100)),
        ("risk", "descriptors", "a"), ["80 of 100 descriptors open, 80%"],
    ),
    "the router had no descriptors": (
        lambda: seen(node(), own_descriptors=(Descriptors(9, 100), 12.0)),
        ("harm", OWN, ""), ["had all 100 descriptors open", "12s ago", "LimitNOFILE", "runbook.md#out-of-descriptors"],
    ),
    "the router has no descriptors": (
        lambda: seen(node(), own_descriptors=(Descriptors(100, 100), 0.0)),
        ("harm", OWN, ""), ["the router that answers has all 100 descriptors open"],
    ),
    "the router has few descriptors": (
        lambda: seen(node(), own_descriptors=(Descriptors(80, 100), 61.0)), ("risk", OWN, ""), [],
    ),
    "another router has none, as it wrote; what the one that answers wrote is old": (
        lambda: seen(node(), routers=(SPENT, SPENT.model_copy(update={"name": "r1:8080", "answers": True}))),
        ("harm", OWN, ""), ["the router r2:8080 has all 60"],
    ),
    "a node died": (
        lambda: seen(node(), departed=[lost("z"), lost("y", "left", 10), lost("y", ago=20), lost("z", ago=500)]),
        ("risk", "node_lost", "z"),
        ["node lease of z ran out 3m ago, and it is not back: its calls go on elsewhere", "see whether its process"],
    ),
    "a node died with calls": (
        lambda: seen(node(), departed=[lost("z").model_copy(update={"calls": 1200})]),
        ("risk", "node_lost", "z"), ["its calls (1,200 were parked there) go on elsewhere"],
    ),
    "a node died unseen": (
        lambda: seen(node(), departed=[lost("z").model_copy(update={"last_heartbeat": None})]),
        ("risk", "node_lost", "z"), ["was missed 3m ago, and no router saw it run out, and it is not back"],
    ),
    "servers share a namespace": (
        lambda: seen(*SERVERS),
        ("harm", "servers_differ", ""),
        ["3 servers share one namespace", "bank (b); shop (a); till (c)", "FRAMEHOLD_NAMESPACE", "#frameholdservers"],
    ),
    "lists of tools stay different": (
        lambda: seen(node(tools_digest="1"), node("b", tools_digest="2"), tools_steady=True),
        ("risk", "tools_differ", ""), ["a; b"],
    ),
    "a process that was stopped": (
        lambda: seen(node(last_stall=StallView(at=NOW - 3.0, seconds=2.0))),
        ("harm", "loop_stood", "a"), ["while its process was stopped or got no processor"],
    ),
    "a tool that is paused by itself": (
        lambda: seen(node(), paused=[PAUSE]),
        ("harm", "tool_paused", ""), ["paused by itself (its calls ended 3 processes)", "framehold resume pay"],
    ),
    "a tool that is paused by an operator": (
        lambda: seen(node(), paused=[PauseView(tool="b", at=NOW, by="operator")]),
        ("harm", "tool_paused", ""), ["tool b is paused by an operator:"],
    ),
    "a tool fails": (
        lambda: seen(node(), failing=[
            FailingView(tool=tool, ended=ended, failed=failed)
            for tool, ended, failed in (("a/b", 503, 258), ("c", 100, 20), ("d", 5, 5))
        ]),
        ("harm", "calls_fail", ""),
        ["51% of the calls of a/b failed", "/dashboard/calls?failed=true&tool=a%2Fb"],
    ),
    "a store that is silent to some": (
        lambda: seen(node(store=SILENT), node("b"), node("c", store=SILENT, state="lapsed")),
        ("harm", "store_silent", ""),
        ["does not answer a, c:", "rounds that need it wait, new calls that ask get 503"],
    ),
    "a store that is silent to the router": (
        lambda: seen(node(), store=StoreLook(SILENT)), ("harm", "store_silent", ""), ["does not answer the router:"],
    ),
    "a store that does not save": (
        lambda: seen(node(), store=StoreLook(ANSWERS, unsaved="rdb_last_bgsave_status:err")),
        ("risk", "store_unsaved", ""),
        ["rdb_last_bgsave_status:err", "do not restart it", "docs/runbook.md#a-store-that-does-not-save"],
    ),
    "a store that is nearly full": (
        lambda: seen(node(), store=StoreLook(ANSWERS, MemoryUse(80, 100))), ("risk", "store_memory", ""), ["80%"],
    ),
    "a node gone without a word is no trouble of the store": (
        lambda: seen(node("b"), departed=[lost("a", store=SILENT)]), ("risk", "node_lost", "a"), [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("problems", "wanted", "texts"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_a_problem_says_what_is_wrong_and_what_to_do(
    problems: Callable[[], list[ProblemView]], wanted: tuple[str, str, str], texts: list[str]
) -> None:
    one(problems(), wanted, *texts)


def test_what_a_problem_does_not_say() -> None:
    """A node that answered: the network is no suspect. A process that was stopped blames no code."""
    assert "network" not in seen(REFUSES_US, node())[0].next
    assert seen(node(last_stall=StallView(at=NOW - 3.0, seconds=2.0)))[0].tool == ""
    assert [found.kind for found in seen(SERVERS[0], node("b", server="bank", state="other keys"))] == [
        "node_other_keys"
    ]
    assert seen(SERVERS[0], node("b", server="shop"), node("c")) == []
    mixed = seen(node(rss=9, memory_limit=10), node("b", state="unreachable"), departed=[lost("c")])
    assert [problem.severity.value for problem in mixed] == ["harm", "risk", "risk"], "harm comes first"
    old, new = node(tools_digest="1"), node("b", tools_digest="2")
    assert seen(old, new) == seen(old, node("c", tools_digest="1"), tools_steady=True) == [], "a rolling update"


def test_a_node_that_can_not_be_reached_for_want_of_descriptors() -> None:
    out, mute = seen(node("b", state="unreachable", descriptors=60, descriptors_limit=60), node())[::-1]
    assert kinds([mute, out]) == [("harm", "node_unreachable", "b"), ("harm", "descriptors", "b")]
    one(
        [out], ("harm", "descriptors", "b"), "b has all 60 descriptors open", "LimitNOFILE", "ulimit -n", "#out-of-desc"
    )


def met(limit: str, ago: float, *, of_one: bool = False) -> RefusedView:
    return RefusedView(limit=limit, of_one=of_one, count=24, at=NOW - ago)


def test_a_node_that_refuses_new_calls() -> None:
    full = node(refused=(met("FRAMEHOLD_MAX_PARKED", 3.0), met("FRAMEHOLD_MEMORY_LIMIT", 61.0)))
    says = "FRAMEHOLD_MAX_PARKED is met: the last one 3s ago, 24 since its start", "raise FRAMEHOLD_MAX_PARKED"
    one(seen(full, node("b")), ("harm", "node_full", "a"), *says)
    of_one = node(refused=(met("FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL", 3.0, of_one=True),))
    one(seen(of_one), ("risk", "node_full", "a"), "of a user who has all")
    short = seen(node(refused=(met(OF_STORE, 3.0),)), store=StoreLook(ANSWERS, MemoryUse(95, 100)))
    one(short, ("harm", "store_memory", ""), "as a did within the last minute")


def test_a_store_that_was_emptied() -> None:
    loss = LossView(at=NOW - 60.0, since=NOW - 72.0, emptied=True, calls=3, pauses=1)
    old = loss.model_copy(update={"at": NOW - 3600.0})
    without = loss.model_copy(update={"pauses": 0})
    one(
        seen(node(store_loss=loss), node("b", store_loss=without), node("c", store_loss=old)),
        ("risk", "store_emptied", ""),
        "was emptied, or replaced by another: noticed 1m ago, at most 12s after it was whole",
        "at least 6 calls with live frames and 1 paused tool were written again",
        "calls without a frame",
    )
    older = seen(node(store_loss=loss.model_copy(update={"emptied": False})))
    one(older, ("risk", "store_emptied", ""), "the store went back to an older state")
    assert seen(node(store_loss=old), node("b")) == []
    assert [problem.kind for problem in seen(node(), loss=loss)] == ["store_emptied"], "a router may know it alone"


def test_a_store_that_is_nearly_too_slow() -> None:
    fast, near, over = (
        node(name, round_trip=trip, longest_round_trip=0.5) for name, trip in zip("abc", (0.29, 0.48, 0.6), strict=True)
    )
    risk, harm = ("risk", "store_slow", ""), ("harm", "store_slow", "")
    assert seen(fast) == []
    one(seen(fast, near), risk, "heartbeats take 480 of 500 ms at the store (b); with more, requests")
    often = near.model_copy(update={"slow_heartbeats": 3})
    one(seen(fast, often), risk, "at the store (b) 3 times in the last minute; with more, requests")
    one(seen(fast, near, over), harm, "600 of 500 ms at the store (b, c)", "docs/runbook.md#frameholdstoretooslow")
    assert [found.kind for found in seen(near.model_copy(update={"store": SILENT}))] == ["store_silent"]


def test_a_node_that_does_not_answer_is_told_with_what_was_seen() -> None:
    """And as cut off only where a later heartbeat shows that it lives."""
    [dead] = seen(node(state="unreachable", unanswered="it accepts no connection", heartbeat_age=0.4))
    assert "it accepts no connection; its last heartbeat was 0.4 s ago, and none has come since" in dead.text
    assert "if it is dead" in dead.text
    [cut] = seen(node(state="unreachable", unanswered="it accepts no connection", heartbeat_age=0.4, lives=True))
    assert "0.4 s ago, came after the first request that failed: its process runs" in cut.text
    assert "if it is dead" not in cut.text and "restarting it ends" in cut.next
    silent = seen(node(state="unreachable", heartbeat_age=40.0), store=StoreLook(SILENT))
    assert "heartbeat was" not in silent[-1].text, "while the store is silent no heartbeat can be read"


def ended(name: str, ago: float, *, left: bool = False) -> EndView:
    at = NOW - ago
    return EndView(node_id=name, boot=str(ago), state="live", left=left, last_heartbeat=at - 5, detected=at)


def test_a_node_that_dies_again_and_again() -> None:
    four = [ended("b", ago) for ago in (1.0, 12.0, 25.0, 40.0)]
    problems = seen(node(), node("b"), ends=[*four, ended("a", 3.0, left=True), ended("c", 5.0)])
    one(problems, ("harm", "nodes_dying", "b"), "b died 4 times in the last 40s")
    assert seen(node(), node("b"), ends=[*four[:2], ended("b", 601.0), ended("b", 30.0, left=True)]) == []
    assert "nodes_dying" not in {found.kind for found in seen(node(store=SILENT), ends=four)}


@pytest.mark.parametrize(("ago", "found"), [(1.0, ["harm"]), (59.0, ["harm"]), (61.0, ["risk"]), (601.0, [])])
def test_a_loop_that_stood_is_reported_with_what_stood_there(ago: float, found: list[str]) -> None:
    """Whether or not anybody has looked meanwhile; the lag of the last minute is not reported beside it."""
    stall = StallView(at=NOW - ago - 12.0, seconds=12.0, tool="refund", where="shop:charge:42")
    problems = seen(node(last_stall=stall, loop_lag_p99=2.0 if ago < 60 else 0.0))
    assert [problem.severity.value for problem in problems] == found
    for problem in problems:
        assert "stood for 12.0 s in tool 'refund', at shop:charge:42" in problem.text and problem.tool == "refund"


@pytest.mark.parametrize(
    "inner", [("logging:StreamHandler.emit:1",), ("rich.console:Console.print:1", "logging:Handler.handle:2")]
)
def test_a_log_that_nobody_reads_is_no_fault_of_the_tool(inner: tuple[str, ...]) -> None:
    at = "shop:charge:42"
    stall = StallView(at=NOW - 13.0, seconds=12.0, tool="refund", where=at, stack=(*inner, at, "mcp:call:3"))
    [problem] = seen(node(last_stall=stall))
    assert "what reads its stderr" in problem.next and "await" not in problem.next and problem.tool == ""
    assert "while it wrote its log" in problem.text and "refund" not in problem.text
    inside = stall.model_copy(update={"stack": (at, *inner)})
    [problem] = seen(node(last_stall=inside))
    assert "await" in problem.next and problem.tool == "refund", "a filter or formatter of the tool's own"


def test_calls_that_are_stuck_or_diverged() -> None:

    def diverged(number: int, call: str, tool: str, at: float = NOW - 60) -> EventView:
        return EventView(id=str(number), at=at, node_id="a", kind="diverged", call=call, tool=tool, text="so")

    events = [diverged(1, "c1", "book"), diverged(2, "c1", "book"), diverged(3, "c2", "book")]
    events += [diverged(4, "c3", "pay"), diverged(5, "c4", "old", NOW - 3601)]
    stuck, book, pay = seen(node(), events=events, stuck=2)
    assert (stuck.kind, stuck.severity, stuck.link) == ("calls_stuck", "harm", "/dashboard/leases?state=stuck")
    assert (book.kind, book.tool, pay.tool) == ("diverged", "book", "pay")
    assert book.text.startswith("2 calls of book took another way") and pay.text.startswith("1 call of pay")


def test_clients_that_leave() -> None:
    many = node(recent_rounds=30, recent_left=9, leaving="slow")
    few = node("b", recent_rounds=10, recent_left=1, leaving="fast")
    [leave] = seen(many, few)
    assert (leave.kind, leave.severity, leave.tool) == ("clients_leave", "risk", "slow")
    assert "clients left 25% of the rounds of the last five minutes" in leave.text and "10 of 40" in leave.text
    assert seen(node(recent_rounds=40, recent_left=8, leaving="slow")) == []
    assert seen(node(recent_rounds=19, recent_left=19, leaving="slow")) == []
    assert [problem.kind for problem in seen(many, few, store=StoreLook(FULL))] == ["store_full"]


def test_each_link_leads_somewhere() -> None:
    files = Path(rules.__file__).parent.glob("of_*.py")
    source = "".join(file.read_text(encoding="utf-8") for file in files).replace("{RUNBOOK}", RUNBOOK)
    links = set(re.findall(r"(docs/[a-z]+\.md)#([a-z-]+)", source))
    assert len(links) >= 5
    for page, anchor in links:
        text = (ROOT / page).read_text(encoding="utf-8")
        headings = {
            re.sub(r"[^a-z0-9 -]", "", found.lower()).replace(" ", "-")
            for found in re.findall(r"^#+ (.*)$", text, re.M)
        }
        assert anchor in headings, (page, anchor)


# ---- the store


@pytest.mark.parametrize("how", ["router", "node"])
def test_a_full_store_is_the_one_problem(how: str) -> None:
    """Lapsed leases and late heartbeats follow from it. Nobody is told to start or to restart a node."""
    look = StoreLook(FULL if how == "router" else ANSWERS, MemoryUse(11, 10) if how == "router" else None)
    word = FULL if how == "node" else ANSWERS
    nodes = [node(state="lapsed", store=word, heartbeat_age=48.0), node("b", state="lapsed", store=SILENT)]
    [problem] = seen(*nodes, store=look)
    assert kinds([problem]) == [("harm", "store_full", "")]
    assert "do not restart nodes" in problem.next and "start one" not in problem.next
    assert problem.link == "docs/runbook.md#a-full-store"


@pytest.mark.parametrize("word", [FULL, REFUSES, SILENT])
def test_leases_that_ran_out_all_at_once_are_no_dead_nodes(word: str) -> None:
    [problem] = seen(departed=[lost("a", store=word), lost("b", store=SILENT)])
    assert problem.kind == f"store_{word}"
    found = seen(departed=[lost("a", store=word), lost("b", store=ANSWERS)])
    assert [problem.kind for problem in found] == ["no_live_node", "node_lost", "node_lost"]
    [problem] = seen(node(), store=StoreLook(REFUSES, unsaved="rdb_last_bgsave_status:err"))
    assert problem.kind == "store_refuses", "that it does not save is the cause"


def test_a_store_that_refuses_is_reported_with_its_own_word() -> None:
    """It answers, so nothing says that it does not; and what is to be done follows from its word."""
    for found in (
        seen(node(store=REFUSES, store_says="MISCONF no disk"), node("b", store=SILENT)),
        seen(node(), store=StoreLook(REFUSES, None, "MISCONF no disk")),
    ):
        assert kinds(found) == [("harm", "store_refuses", "")]
        assert "'MISCONF no disk'" in found[0].text and "disk" in found[0].next and "not answer" not in found[0].text
    [problem] = seen(node(store=REFUSES, store_says="NOPERM no right"))
    assert "rights" in problem.next and "do not restart nodes" in problem.next

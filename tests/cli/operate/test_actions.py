"""`framehold cancel`, `evict`, `drain`, `pause` and `resume`: their requests, their confirmation, and their output."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest
import typer

from tests.cli.fake_router import CALL, LEASE, NODE, TOKEN, FakeRouter, Operator

GIVEN = ("--token", TOKEN)


def node(**changed: Any) -> dict[str, Any]:
    return {"nodes": [{**NODE, **changed}, {**NODE, "node_id": "n2"}]}


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Makes `time.sleep` return at once. The list has the pauses in seconds."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


@pytest.mark.parametrize("action", ["cancel", "evict"])
def test_a_script_is_not_asked(action: str, operator: Operator, router: FakeRouter) -> None:
    """A call is named by its whole id or by a prefix of it. The request is signed with the admin token."""
    router.say("leases", {"items": [LEASE], "total": 1})
    router.say(f"POST leases/{CALL}/{action}", {"done": "it was done\x1b[2J"})
    for name, found in ((CALL, ""), ("0123", f"it is found by its whole id: framehold lease {CALL}\n")):
        assert operator(action, name, *GIVEN) == (0, f"it was done\\x1b[2J\n{found}", "")
        assert router.asked[-1].token == TOKEN


@pytest.mark.parametrize(("answer", "code", "sent"), [(True, 0, 1), (False, 1, 0)])
def test_a_person_is_asked_first(
    answer: bool, code: int, sent: int, operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question has the call's prefix and the consequence. With --yes nothing is asked."""
    asked: list[str] = []

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", confirm)
    router.say(f"POST leases/{CALL}/cancel", {"done": "ok"})
    assert operator("cancel", CALL, *GIVEN).code == code
    assert len(router.asked) == sent and len(asked) == 1 and asked[0].startswith("cancel call 01234567 for good?")
    assert operator("cancel", CALL, "--yes", *GIVEN).code == 0 and len(asked) == 1


def test_a_refusal_is_the_routers_own_words(operator: Operator, router: FakeRouter) -> None:
    """Exit code 1 if the action is impossible now, 2 if the caller has no right to it."""
    router.refuse(f"POST leases/{CALL}/evict", 409, "a write is under way: nothing was done; try again")
    assert operator("evict", CALL, *GIVEN) == (
        1,
        "",
        "framehold: 409: a write is under way: nothing was done; try again\n",
    )
    router.refuse(f"POST leases/{CALL}/evict", 403, "nothing was done; set FRAMEHOLD_ADMIN_TOKEN")
    assert operator("evict", CALL) == (2, "", "framehold: 403: nothing was done; set FRAMEHOLD_ADMIN_TOKEN\n")


def test_a_tool_is_paused_and_resumed(operator: Operator, router: FakeRouter) -> None:
    router.say("POST tools/pause", {"done": "tool a/b is paused"})
    router.say("POST tools/resume", {"done": "tool a/b takes calls again"})
    assert operator("pause", "a/b", "--why", "it bills twice", *GIVEN) == (0, "tool a/b is paused\n", "")
    assert operator("resume", "a/b", *GIVEN) == (0, "tool a/b takes calls again\n", "")
    assert [json.loads(one.body) for one in router.asked] == [{"tool": "a/b", "why": "it bills twice"}, {"tool": "a/b"}]
    assert all(one.token == TOKEN for one in router.asked)
    router.refuse("POST tools/resume", 404, "tool a/b is not paused; nothing was done")
    assert operator("resume", "a/b", *GIVEN) == (1, "", "framehold: 404: tool a/b is not paused; nothing was done\n")


@pytest.mark.parametrize(("answer", "code", "sent"), [(True, 0, 1), (False, 1, 0)])
def test_a_person_is_asked_before_a_tool_is_paused(
    answer: bool, code: int, sent: int, operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", lambda text, **_: answer and text.startswith("pause book? New calls of it"))
    router.say("POST tools/pause", {"done": "ok"})
    assert operator("pause", "book", *GIVEN).code == code and len(router.asked) == sent
    assert operator("pause", "book", "--yes", *GIVEN).code == 0


def test_a_drain_is_taken_back(operator: Operator, router: FakeRouter) -> None:
    router.say("POST nodes/n1/undrain", {"done": "this node takes calls again"})
    assert operator("drain", "n1", "--undo", *GIVEN) == (0, "this node takes calls again\n", "")
    router.refuse("POST nodes/n1/undrain", 409, "it does not drain; nothing was done")
    assert operator("drain", "n1", "--undo", *GIVEN).code == 1


def test_a_drain_is_followed_until_the_node_is_empty(operator: Operator, router: FakeRouter, fast: list[float]) -> None:
    """Each change is printed once. A router that is away for a moment doesn't end the command."""
    router.say("POST nodes/n1/drain", {"done": "n1 drains"})
    router.says["GET nodes"] = [
        (200, node()),
        (200, node()),
        (200, node(state="draining", parked=2, in_flight=1)),
        (200, node(state="draining", parked=2, in_flight=1)),
        (503, {"error": "away"}),
        (200, node(state="draining", parked=0, in_flight=1, handed_off=2)),
        (200, node(state="draining", parked=0, in_flight=0, handed_off=2)),
    ]
    result = operator("drain", "n1", *GIVEN)
    assert (result.code, result.err) == (0, "") and len(fast) == 5
    assert result.out.splitlines() == [
        "n1 drains",
        "n1 is live: 2 parked, 0 in flight",
        "n1 is draining: 2 parked, 1 in flight",
        "503: away; it is asked again",
        "n1 is draining: 0 parked, 1 in flight, 2 handed off",
        "n1 holds nothing any more: its process can be stopped",
    ]


@pytest.mark.parametrize("after", [{"nodes": [{**NODE, "node_id": "n2"}]}, node(boot="b2")])
def test_a_drained_node_may_be_gone_or_back(
    after: dict[str, Any], operator: Operator, router: FakeRouter, fast: list[float]
) -> None:
    """A process that was started later under the same name is another one."""
    router.say("POST nodes/n1/drain", {"done": "n1 drains"})
    router.say("nodes", node(), node(state="draining"), after)
    result = operator("drain", "n1", *GIVEN)
    assert result.code == 0 and result.out.endswith("\nn1 has left the fleet\n")


def test_a_drain_that_takes_too_long(operator: Operator, router: FakeRouter) -> None:
    """The exit code is 1, and the line says what the node still holds and that it continues to drain."""
    router.say("POST nodes/n1/drain", {"done": "n1 drains"})
    router.say("nodes", node(state="draining"))
    result = operator("drain", "n1", "--timeout", "0", *GIVEN)
    assert result.code == 1
    assert result.out.endswith(
        "after 0 s: n1 is draining: 2 parked, 0 in flight; it drains on; look again with framehold nodes\n"
    )


def test_a_drain_without_waiting(operator: Operator, router: FakeRouter) -> None:
    router.say("POST nodes/n1/drain", {"done": "n1 drains"})
    assert operator("drain", "n1", "--no-wait", *GIVEN) == (0, "n1 drains\n", "")
    assert [one.method for one in router.asked] == ["GET", "POST"]


def test_an_unknown_node_is_not_drained(operator: Operator, router: FakeRouter) -> None:
    """The error lists the names of the nodes."""
    result = operator("drain", "n9\x1b[2J", *GIVEN)
    assert result == (2, "", "framehold: there is no node n9\\x1b[2J; there are: n1; nothing was done\n")
    assert [one.method for one in router.asked] == ["GET"]


def test_who_stops_looking_stops_no_drain(
    operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    router.say("POST nodes/n1/drain", {"done": "n1 drains"})
    result = operator("drain", "n1", *GIVEN)
    assert result.code == 130 and result.err == "stopped looking; n1 drains on\n"


def test_in_a_terminal_a_drain_ends_with_one_line(
    operator: Operator, router: FakeRouter, fast: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    router.say("POST nodes/n1/drain", {"done": "n1 drains"})
    router.say("nodes", node(), node(state="draining", parked=0))
    assert "n1 holds nothing any more" in operator("drain", "n1", *GIVEN).out

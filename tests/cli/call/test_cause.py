"""Where the cause of a failed call stands, as the fleet tells its own user."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from framehold_cli.call import cause
from framehold_cli.call.cause import Cause, Failed
from framehold_cli.call.target import CallTarget, TargetKind
from framehold_cli.client import local_fleets
from framehold_cli.client.local_fleets import LocalFleet
from tests.cli.fake_router import CALL, TOKEN, FakeRouter

BEGAN = 1_790_000_000.0
ENDED: dict[str, Any] = {
    "call_id": CALL,
    "tool": "refund",
    "node_id": "n2",
    "outcome": "tool_error",
    "error": "shop.NoStock",
    "place": "shop:refund:2",
    "rounds": 1,
    "reentrant": True,
    "began": BEGAN + 1,
    "ended": BEGAN + 2,
    "seconds": 1.0,
}
REFUND = CallTarget(TargetKind.TOOL, "refund")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runtime folder of the user."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(cause, "_PATIENCE", 0.2)
    return tmp_path


def runs_here(router: FakeRouter, folder: Path) -> None:
    """The fake router is that of a `framehold up` of this user, which serves shop.py."""
    (folder / "shop.py").write_text("def refund():\n    raise NoStock('secret text')\n")
    port = int(router.url.rpartition(":")[2])
    local_fleets.keep(LocalFleet(port=port, serves="shop.py", folder=str(folder), admin_token=TOKEN))


def listed(router: FakeRouter, *items: dict[str, Any]) -> None:
    router.say("calls", {"items": items, "total": len(items), "next": None})


def failed(router: FakeRouter, node: str = "n2", state: str = "", reason: str = "") -> Failed:
    return Failed(REFUND, f"{router.url}/mcp", node, state, BEGAN, reason)


def test_on_this_machine_the_author_s_line_is_shown(router: FakeRouter, folder: Path) -> None:
    """The class, the place and the line, not the text of the exception: the API does not have it."""
    runs_here(router, folder)
    listed(router, ENDED)
    found = failed(router).cause(None)
    assert found.lines == [
        "shop.NoStock at shop:refund:2, on n2; the output of framehold up has its traceback",
        "  shop.py:2  raise NoStock('secret text')",
    ]
    [asked] = router.asked
    assert asked.query["tool"] == "refund" and asked.token == TOKEN


def test_a_line_that_is_not_found_is_left_out(router: FakeRouter, folder: Path) -> None:
    runs_here(router, folder)
    for place in ("elsewhere:refund:2", "shop:refund:99", "shop", ""):
        listed(router, {**ENDED, "place": place})
        assert len(failed(router).cause(None).lines) == 1


def test_an_error_for_the_caller_has_no_traceback(router: FakeRouter, folder: Path) -> None:
    """No log has one: the SDK takes its own errors for answers."""
    runs_here(router, folder)
    listed(router, {**ENDED, "error": "mcp.server.mcpserver.exceptions.ToolError"})
    assert failed(router).cause(None).lines[0].endswith("ToolError at shop:refund:2, on n2")


def test_a_call_that_is_not_listed_yet_is_looked_for_again(
    router: FakeRouter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node writes it a quarter of a second after its end."""
    runs_here(router, folder)
    listed(router)
    monkeypatch.setattr(time, "sleep", lambda seconds: listed(router, ENDED))
    assert failed(router).cause(None).place == "shop:refund:2"
    assert len(router.asked) == 2


def test_of_several_failures_none_is_guessed(router: FakeRouter, folder: Path) -> None:
    """Failures of other nodes, and those from before this call, are none of them."""
    runs_here(router, folder)
    other = {**ENDED, "place": "shop:refund:1"}
    listed(router, ENDED, other)
    assert failed(router).cause(None) == Cause("n2", log="the output of framehold up")
    listed(router, ENDED, {**other, "node_id": "n1"}, {**other, "ended": BEGAN - 1})
    assert failed(router).cause(None).place == "shop:refund:2"


def test_elsewhere_only_a_call_whose_id_is_known_is_looked_up(router: FakeRouter) -> None:
    """With the admin token that the user gave. No file of this machine is read."""
    listed(router, ENDED)
    assert failed(router).cause(TOKEN).lines == ["if the tool raised an exception, the log of n2 has its traceback"]
    assert not router.asked
    found = failed(router, state=f"h1.{CALL}.sealed").cause(TOKEN)
    assert found.lines == ["shop.NoStock at shop:refund:2, on n2; the log of n2 has its traceback"]
    assert router.asked[0].query == {"call": CALL, "limit": "1"}


def test_a_server_of_others_is_asked_nothing(router: FakeRouter) -> None:
    assert failed(router, node="").cause(None).lines == []
    assert failed(router).cause(None).lines == ["if the tool raised an exception, the log of n2 has its traceback"]
    assert not router.asked


def test_a_router_that_does_not_tell(router: FakeRouter, folder: Path) -> None:
    """The call has failed already: this is no further error."""
    runs_here(router, folder)
    router.refuse("calls", 401, "wrong token")
    assert failed(router).cause(None) == Cause("n2", log="the output of framehold up")


def test_a_call_that_framehold_ended_has_no_traceback(router: FakeRouter, folder: Path) -> None:
    """The tool raised nothing, so nothing is looked up."""
    runs_here(router, folder)
    [lost] = failed(router, reason="lost").cause(None).lines
    assert "the tool raised nothing: the process that ran the call is gone" in lost and "traceback" not in lost
    assert "marked @framehold.reentrant goes on" in lost
    assert failed(router, reason="diverged").cause(None).lines == ["the output of framehold up says why"]
    assert failed(router, reason="paused").cause(None).lines == []
    assert not router.asked

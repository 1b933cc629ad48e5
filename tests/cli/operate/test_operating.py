"""The operator's commands at a real fleet: the parked calls, one call at a time, and a node that is drained."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cli.fake_router import Operator
from tests.cli.processes import Up, up
from tests.kit.client import Caller, Reply
from tests.kit.processes import until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """A fleet of two nodes with the booking example. Each test leaves it usable for the next one."""
    folder = tmp_path_factory.mktemp("fleet")
    async with up(folder, "--port", "0", "--nodes", "2", FRAMEHOLD_LEASE_TTL="3") as running:
        await running.hears("Ctrl-C stops everything.")
        yield running


class Told:
    """Runs a command at the fleet as the user who runs the fleet."""

    def __init__(self, operator: Operator) -> None:
        self.exactly = operator

    def __call__(self, *words: str) -> str:
        result = self.exactly(*words)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))


@pytest.fixture
def told(fleet: Up, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    monkeypatch.delenv("FRAMEHOLD_ADMIN_TOKEN", raising=False)
    for name, value in fleet.beside.items():
        monkeypatch.setenv(name, value)
    return Told(Operator(fleet, monkeypatch, capsys))


async def asked(fleet: Up) -> tuple[Reply, str]:
    """Start a call that waits for its first answer. Return the response and the call's id."""
    async with Caller(f"{fleet.url}/mcp") as caller:
        reply = await caller.call("book", arguments={"restaurant": "Luna"})
        return reply, reply.token.split(".")[1]


async def retried(fleet: Up, reply: Reply) -> Reply:
    async with Caller(f"{fleet.url}/mcp") as caller:
        answers = reply.accept(guests=2)
        return await caller.retry("book", reply.token, answers, arguments={"restaurant": "Luna"})


async def test_a_parked_call_is_found_and_shown(fleet: Up, told: Told) -> None:
    """The command shows the call's node, step and fate. It shows neither the question nor its text."""
    _, call = await asked(fleet)
    page = told.json("leases", "--state", "parked", "--call", call[:10])
    [item] = page["items"]
    assert (item["call_id"], item["tool"], page["total"]) == (call, "book", 1)
    shown = told("lease", call[:10])
    assert f"parked on {item['node_id']}" in shown and "it continues when its client answers" in shown
    assert call not in shown and "Luna" not in shown and "guests" not in shown
    assert call[:8] in told("leases", "--all")
    assert "parked" in told("status")


async def test_an_evicted_call_goes_on(fleet: Up, told: Told) -> None:
    reply, call = await asked(fleet)
    assert "its frame was dropped" in told("evict", call[:10])
    assert "no node holds one" in told("lease", call)
    assert (await retried(fleet, reply)).result["resultType"] == "input_required"


async def test_a_cancelled_call_is_over_for_its_client(fleet: Up, told: Told) -> None:
    reply, call = await asked(fleet)
    assert "was cancelled" in told("cancel", call)
    assert "An operator cancelled this call" in (await retried(fleet, reply)).text
    assert "ended    cancelled" in told("lease", call)
    code, _, err = told.exactly("cancel", call)
    assert code == 1 and err.startswith("framehold: 404: ")


async def test_a_takeover_is_marked_in_the_calls_steps(fleet: Up, told: Told) -> None:
    """The call's node dies and its client retries. The steps show which process took the call over."""
    reply, call = await asked(fleet)
    name = reply.headers["framehold-node"]
    os.kill(next(one["pid"] for one in told.json("nodes") if one["node_id"] == name), signal.SIGKILL)
    assert (await retried(fleet, reply)).result["resultType"] == "input_required"
    shown = told("lease", call)
    assert f"<- taken over from {name}" in shown or "<- entered again" in shown
    await until(lambda: f"{name} is back" in fleet.said, "the node's next life")


async def test_a_drained_node_holds_nothing(fleet: Up, told: Told) -> None:
    """The command says so, and the process of the node continues."""
    reply, call = await asked(fleet)
    name = reply.headers["framehold-node"]
    text = told("drain", name)
    assert text.splitlines()[-1] == f"{name} holds nothing any more: its process can be stopped"
    [node] = [one for one in told.json("nodes") if one["node_id"] == name]
    assert (node["state"], node["parked"]) == ("draining", 0)
    assert (await retried(fleet, reply)).headers["framehold-node"] != name
    assert f"<- taken over from {name}" in told("lease", call)

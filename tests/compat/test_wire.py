"""Routers and nodes of the code that is here now beside those of an earlier release: what those say is understood, and
what is said to them is what they understand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from framehold_core.ids import is_call_id
from framehold_fleet.members.membership import DRAINING, LIVE, Fleet, Member
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models.nodes import NodeStatus
from framehold_store import StoreConfig
from framehold_store.redis import RedisStore
from tests.compat import wire
from tests.compat.dumps import FIXTURES, NAMESPACE, Dump, at, node, put, store_url, versions
from tests.compat.tools import Life
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio
SOON = 10.0


@dataclass(frozen=True)
class Earlier:
    """What a release said: its node's leases, the headers of its hops, and a call that its node holds."""

    leases: dict[str, str]
    wire: dict[str, list[tuple[str, str]]]
    parked: Dump


@pytest.fixture(params=versions())
def earlier(request: pytest.FixtureRequest) -> Earlier:
    folder: Path = FIXTURES / request.param
    text = {name: [(key, value) for key, value in found] for name, found in _json(folder / "wire.json").items()}
    return Earlier(_json(folder / "leases.json"), text, Dump.load(folder / "calls" / "book-1.json"))


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


async def test_what_is_said_on_the_wire_is_what_it_was(store: RedisServer, earlier: Earlier) -> None:
    """By routers and nodes, on requests and on responses: nothing that an earlier release looks for is missing, though
    more may be said than it knows."""
    text = await wire.heard(store, earlier.leases["live"], earlier.parked)
    for name, headers in earlier.wire.items():
        mine, theirs = dict(text[name]), dict(headers)
        for result in (mine, theirs):
            if "framehold-call-id" in result:
                assert is_call_id(result.pop("framehold-call-id"))
                result["framehold-call-id"] = "an id"
        assert theirs.items() <= mine.items(), name


async def test_a_router_of_an_earlier_release_is_believed(store: RedisServer, earlier: Earlier) -> None:
    """The id that it gave the call is taken, and it is told who served. What it says besides changes nothing."""
    start = [*earlier.wire["a router starts a call"], ("framehold-colour", "blue")]
    async with node(store, "heir", Life()) as client:
        begun = await wire.send(client, start)
        assert begun.token.split(".")[1] == dict(start)["framehold-call-id"]
        assert begun.headers["framehold-node"] == "heir"
        # Without a statement the same headers are a client's, and count for nothing.
        forged = await wire.send(client, [item for item in start if item[0] != "framehold-proof"])
        assert forged.token.split(".")[1] != begun.token.split(".")[1]
        assert "framehold-node" not in forged.headers


async def test_a_relay_of_an_earlier_release_is_told_what_is_not_held(store: RedisServer, earlier: Earlier) -> None:
    """And is not relayed again (docs/protocol.md, rule 19), though the owner's lease stands. A node that hears such a
    refusal of an earlier release gives its client another answer: the record is read again."""
    relayed, text = earlier.wire["a node passes a retry on"], earlier.wire["a node does not hold the call"]
    refusal, status = [item for item in text if item[0] != "status"], dict(text)["status"]
    put(store, earlier.parked)
    old_node = wire.listener(store, earlier.leases["live"], refusal, f"{status} Misdirected")
    async with old_node as old, node(store, "heir", Life()) as client:
        with at(earlier.parked.minted + 1):
            result = await wire.send(client, relayed, earlier.parked)
            assert str(result.status) == status and result.headers["framehold-not-held"] == "1"
            assert old.requests == []
            reply = await client.go_on(earlier.parked)
    assert len(old.requests) >= 1 and reply.status != 421 and reply.text != "old"


async def test_an_owner_of_an_earlier_release_is_relayed_to(store: RedisServer, earlier: Earlier) -> None:
    """Its answer reaches the client, with who served and how; nothing is claimed from it."""
    put(store, earlier.parked)
    text, life = earlier.wire["a node answers"], Life()
    old_node = wire.listener(store, earlier.leases["live"], text)
    async with old_node as old, node(store, "heir", life, route_headers=True) as client:
        with at(earlier.parked.minted + 1):
            result = await client.go_on(earlier.parked)
    assert result.text == "old" and len(old.requests) == 1 and life.entered == []
    assert (result.headers["framehold-node"], result.headers["framehold-route"]) == (
        dict(text)["framehold-node"],
        "lease",
    )


@pytest.mark.parametrize("shown", [True, False])
async def test_a_router_understands_the_answers_of_an_earlier_release(
    store: RedisServer, earlier: Earlier, shown: bool
) -> None:
    """And shows a client none of what only the fleet may know, what it has never heard of least of all."""
    text = [*earlier.wire["a node answers"], ("framehold-colour", "blue")]
    old_node = wire.listener(store, earlier.leases["live"], text)
    async with old_node, wire.router(store, route_headers=shown) as caller:
        result = await caller.call("plain")
    assert result.text == "old"
    names = {name for name, _ in earlier.wire["a node answers"]} if shown else set()
    assert {name for name, _ in wire.internal(result.headers.items())} == names


async def test_a_lease_of_an_earlier_release_is_a_member_like_any_other(store: RedisServer, earlier: Earlier) -> None:
    """Live ones are on the ring, draining ones are known and are not, and what they tell of themselves is read."""
    for state in ("live", "draining"):
        wire.register(store, earlier.leases[state], ("127.0.0.1", 8081))
    opened = RedisStore(StoreConfig(store_url(store), NAMESPACE))
    leases = await opened.nodes()
    await opened.close()
    members = {lease.state: Member.of(lease, wire.SEALS) for lease in leases}
    assert set(members) == {LIVE, DRAINING}
    for state, member in members.items():
        fields = json.loads(earlier.leases[state])
        assert [member.inc, member.boot, member.node] == [fields[2], fields[3], fields[5]]
        assert member.address == ("127.0.0.1", 8081) and member.stats != Stats()
    assert Fleet.of(members.values()).ring.nodes == {members[LIVE].node}


def test_what_a_node_of_an_earlier_release_says_of_itself_is_read(earlier: Earlier) -> None:
    """To the routers that ask it; more than they know is passed over."""
    result = json.loads(earlier.leases["probe"])
    text = NodeStatus.model_validate_json(json.dumps({**result, "colour": "blue"}))
    assert text.node_id == "node-9" and text.state == LIVE
    assert text.model_dump(mode="json", exclude_unset=True).items() <= result.items()

"""What a fleet goes by: its secret and the names of its keys, sessions, the ring, what leases tell of their nodes, and
the events that nodes tell each other."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import Counter

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from framehold.engine.tasks import Tasks
from framehold.hosts.event_bus import FleetBus
from framehold_core.ids import Boot, NodeId
from framehold_fleet.identity.statements import Introduced, Role
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members import session_ids
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.members.node_stats import read as read_stats
from framehold_fleet.members.ring import Ring
from framehold_store.memory import MemoryStore
from tests.compat.dumps import KEY
from tests.compat.forms import BOOT, Form, Meaning, sealer


def _write_session(means: Meaning) -> str:
    return session_ids.wrap(NodeId(means["node"]), Boot(means["boot"]), means["session"])


def _read_session(text: str) -> Meaning:
    found = session_ids.parse(text)
    assert found is not None, text
    return found._asdict()


_TO, _AT = Introduced(Boot("b"), "10.0.0.1:40000"), 1_700_000_000.0


def _write_trust(means: Meaning) -> str:
    trust = Trust([means["key"].encode()])
    own = trust.statements
    texts = (
        own.stating(Role.ROUTER, _TO, lambda: _AT)(),
        own.answer(b"nonce.b", ("b",), _TO.peer) or b"",
        own.not_taken("b", "call"),
    )
    return json.dumps([text.decode() for text in texts])


def _read_trust(text: str) -> Meaning:
    line, answer, not_taken = json.loads(text)
    trust = Trust([b"another key, which seals since: 32 bytes", KEY.encode()])
    own, (name, _, shown) = trust.statements, line.strip().partition(": ")
    assert name == "framehold-proof"
    assert own.role(shown.encode(), ("b",), _TO.peer, _AT) is Role.ROUTER, "an old sender is not believed"
    assert own.introduced(answer.encode(), "nonce", (_TO.boot,)) == _TO, "an old receiver is not believed"
    assert own.is_not_taken(not_taken.encode(), "b", "call"), "an old refusal is not believed"
    return {"key": KEY}


def _read_ring(text: str) -> Meaning:
    nodes: list[str] = json.loads(text)[0]
    assert _write_ring({"nodes": nodes}) == text, "calls would move between nodes"
    return {"nodes": nodes}


def _write_ring(means: Meaning) -> str:
    """Who owns some calls, and the digest of who owns many: one point more or less moves few."""
    ring = Ring(NodeId(name) for name in means["nodes"])
    owners = [str(ring.owner(hashlib.sha256(b"%d" % number).hexdigest()[:32])) for number in range(5000)]
    return json.dumps([means["nodes"], owners[:8], hashlib.sha256(" ".join(owners).encode()).hexdigest()])


def _read_news(text: str) -> Meaning:
    return read_stats(text)._asdict()


def _write_news(means: Meaning) -> str:
    return Stats(**means).dump()


def _event(means: Meaning) -> ServerEvent:
    kinds = {kind.__name__: kind for kind in (ToolsListChanged, PromptsListChanged, ResourcesListChanged)}
    kind = kinds.get(means["kind"])
    return ResourceUpdated(means["uri"]) if kind is None else kind()


def _write_event(means: Meaning) -> str:
    result: list[bytes] = []

    async def tell() -> None:
        store = MemoryStore(lambda: 0.0)
        store.subscribe(result.append)
        bus = FleetBus(InMemorySubscriptionBus(), store, sealer, means["boot"], Tasks(Counter()))
        await bus.publish(_event(means))

    asyncio.run(tell())
    return base64.b64encode(result[0]).decode()


def hear(*messages: bytes) -> list[ServerEvent]:
    """What listeners of another process hear of them."""
    reply: list[ServerEvent] = []

    async def told() -> None:
        store, local, tasks = MemoryStore(lambda: 0.0), InMemorySubscriptionBus(), Tasks(Counter())
        local.subscribe(reply.append)
        FleetBus(local, store, sealer, "another process", tasks).open()
        for message in messages:
            await store.publish(message)
        # It is delivered by a task that this has spawned, with the next turn of the loop.
        await asyncio.sleep(0)

    asyncio.run(told())
    return reply


def _read_event(text: str) -> Meaning:
    (event,) = hear(base64.b64decode(text))
    return {"boot": BOOT, "kind": type(event).__name__, "uri": getattr(event, "uri", "")}


_EVENTS: tuple[Meaning, ...] = (
    {"boot": BOOT, "kind": "ToolsListChanged", "uri": ""},
    {"boot": BOOT, "kind": "PromptsListChanged", "uri": ""},
    {"boot": BOOT, "kind": "ResourcesListChanged", "uri": ""},
    {"boot": BOOT, "kind": "ResourceUpdated", "uri": "test://thing/\u00fc"},
)
_STATS: tuple[Meaning, ...] = (
    {"pid": 12, "parked": 3, "in_flight": 1, "version": "0.1.0", "started": 1.5, "admin_port": 9090},
    {"pid": None, "parked": None, "in_flight": None, "version": None, "started": None, "admin_port": None},
)
SESSIONS = Form(_write_session, _read_session, ({"node": "node-1", "boot": BOOT, "session": "a.b-c_d"},))
SECRETS = Form(_write_trust, _read_trust, ({"key": KEY},))
RINGS = Form(_write_ring, _read_ring, ({"nodes": ["node-1", "node-2", "node-3"]},))
STATS = Form(_write_news, _read_news, _STATS)
EVENTS = Form(_write_event, _read_event, _EVENTS)

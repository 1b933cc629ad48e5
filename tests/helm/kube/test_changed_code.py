"""`helm upgrade` with a changed source: parked calls go on with the code that they began with."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.fleet.ledger import Ledger
from tests.fleet.shop import write
from tests.fleet.shopper import Shopper
from tests.helm.kube.cluster import Cluster
from tests.helm.kube.rehearsal import Facts, rehearse
from tests.helm.kube.values import changed, values
from tests.wire import Caller, Envelope

CALLS = 12
OLD, NEW = "before", "after"


class Forwarded(Caller):
    """A client that reaches a router under the name localhost, as through a port-forward."""

    def envelope(self, method: str, params: dict[str, Any], **options: Any) -> Envelope:
        """A request that names this host."""
        return super().envelope(method, params, **{**options, "headers": {"host": "localhost"}})


async def upgrade(cluster: Cluster) -> Facts:
    """Calls are parked in two rounds; then each node is replaced by one with the other source."""
    folder = cluster.root.folder("ledger", mode=0o777)
    for release in (OLD, NEW):
        await asyncio.to_thread(write, folder / release, "MCPServer", release == NEW)
    text = values(folder, node__target=f"/ledger/{OLD}/shop.py")
    await cluster.install(text)
    await cluster.settled()
    (router, *_) = cluster.pods("router")
    async with Forwarded(f"http://{router.address}:8080/mcp") as caller:
        calls = [Shopper(caller, "buy", f"call-{number}") for number in range(CALLS)]
        await asyncio.gather(*(call.begin() for call in calls))
        await asyncio.gather(*(call.answer(count=2) for call in calls[::2]))
        owners = {call.heard.headers["framehold-node"] for call in calls}
        before = {pod.name: pod.uid for pod in cluster.pods("node")}
        await cluster.install(changed(text, node__target=f"/ledger/{NEW}/shop.py"))
        await cluster.settled(90)
        await asyncio.gather(*(call.answer(count=2) for call in calls[1::2]))
        ends = await asyncio.gather(*(call.answer(count=4) for call in calls))
        fresh = await Shopper(caller, "buy", "fresh").begin()
    ledger = Ledger(folder / "ledger")
    return {
        "owners": len(owners),
        "same": [name for name, uid in before.items() if cluster.pod(name).uid == uid],
        "ends": [end.text for end in ends],
        "code": sorted({end.headers.get("framehold-code", "") for end in ends}),
        "effects": [ledger.effects(call.name) for call in calls],
        "fresh": fresh.messages,
    }


def test_a_changed_source_breaks_no_parked_call() -> None:
    """All nodes are new, and each call ends as the old source says; a new call runs the new source."""
    facts = rehearse(upgrade)
    assert facts["owners"] == 3 and facts["same"] == []
    assert [end.partition(", the old till")[0] for end in facts["ends"]] == [
        f"call-{number}: old, 18" for number in range(CALLS)
    ]
    assert facts["code"] == ["kept"]
    assert facts["effects"] == [["reserve", "charge", "send"]] * CALLS
    assert facts["fresh"] == ["fresh: how many, and which colour?"]

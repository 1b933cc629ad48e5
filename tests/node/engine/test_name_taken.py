"""Another process registers under a node's name: the first one may not go on (docs/protocol.md, rule 4)."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from framehold_core.ids import Boot
from framehold_core.lease import end_of
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store import lease_codec
from tests.node.nodes import KEY, entries, node
from tests.processes import until
from tests.store.server import RedisServer
from tests.wire import Caller

pytestmark = pytest.mark.anyio

TTL = 3.0


async def test_whoever_waits_is_answered_and_the_process_ends_within_a_lease(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows how far a first round came, and its client is told so. A handler that can't be cancelled keeps the
    process no longer than one lease's life."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    settings = {"store_url": redis.url, "namespace": tmp_path.name, "node_id": "a", "lease_ttl": f"{TTL:g}"}
    async with (
        node("tests/node/draining_server.py", tmp_path, **settings) as lost,
        Caller(lost.url) as caller,
    ):
        calls = [asyncio.create_task(caller.call(tool, arguments={"name": "Al"})) for tool in ("long", "stubborn")]
        await until(lambda: len(entries(tmp_path / "entries")) == 2, "both rounds")
        with redis.client() as client:
            key = f"fh:{tmp_path.name}:node:a"
            await until(lambda: json.loads(client.get(key))[1] > 1, "a renewal: the other process comes later")
            lease = lease_codec.read("a", client.get(key))
            assert lease is not None
            other = replace(lease, boot=Boot("another"), expires=end_of(time.time(), TTL))
            client.set(key, lease_codec.dump(LeaseSeal(Trust([KEY.encode()]), tmp_path.name).seal(other)))
        for result in await asyncio.gather(*calls):
            assert (result.status, result.code) == (503, -32603) and "is not known" in result.text
        reply = time.monotonic()
        await until(lambda: not lost.alive, "the process's end")
        # A second for a busy machine.
        assert time.monotonic() - reply < TTL + 1
        assert "another process is registered as node 'a'" in lost.log()

"""Writes the fixtures of one version: `python -m tests.compat.write v1`. What is there already is never written over:
it is what that version wrote, and no later code can write it again."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import NodeRecord, end_of
from tests.compat import wire
from tests.compat.catalogue import FORMS
from tests.compat.dumps import FIXTURES, NAMESPACE, admin, node
from tests.compat.forms import BOOT, pairs
from tests.compat.parked import FIRST, calls
from tests.compat.tools import Life
from tests.store.server import RedisServer


def main(version: str) -> None:
    """Write all files of `version`, or none."""
    folder = FIXTURES / version
    if not version.removeprefix("v").isdigit() or not version.startswith("v"):
        raise SystemExit(f"{version!r} is no version; nothing was written; say v1, or v2")
    if folder.exists():
        raise SystemExit(f"{folder} is there already; nothing was written; a new format needs a version of its own")
    logging.disable(logging.WARNING)
    made = {f"{name}.json": dumped(pairs(form)) for name, form in FORMS.items()}
    redis = RedisServer()
    redis.start()
    try:
        made |= asyncio.run(_recorded(redis))
    finally:
        redis.remove()
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(made)} files in {folder}")


async def _recorded(redis: RedisServer) -> dict[str, str]:
    """What only running processes write."""
    dumps = await calls(redis)
    parked = dumps["book-1"]
    leases = await _leases(redis, parked.record["inc"], parked.record["boot"])
    text = await wire.heard(redis, leases["live"], parked)
    found = {f"calls/{name}.json": dump.dumped() for name, dump in dumps.items()}
    return {**found, "leases.json": dumped(leases), "wire.json": dumped(text)}


async def _leases(redis: RedisServer, inc: str, boot: str) -> dict[str, str]:
    """A node's lease as the script writes it, by the node's state; the live one is of the process that held the calls.
    And what such a node says of itself."""
    found: dict[str, str] = {}
    async with node(redis, "node-9", Life()) as client:
        found["probe"] = await wire.probed(client)
        stats, store = client.runtime.stats(), client.runtime.store
        for state, names in (("live", (inc, boot)), ("draining", (BOOT, BOOT))):
            of = NodeId(FIRST if state == "live" else "node-3"), Incarnation(names[0]), Boot(names[1])
            lease = NodeRecord(*of, 0, "http://127.0.0.1:8081", state, "", stats.dump(), end_of(time.time(), 60.0))
            await store.register(wire.SEALS.seal(lease), 60.0)
            with admin(redis) as behind:
                found[state] = behind.get(f"fh:{NAMESPACE}:node:{of[0]}").decode()
    return found


def dumped(value: object) -> str:
    """As a file, so that people can read what is said of it."""
    return json.dumps(value, indent=1) + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])

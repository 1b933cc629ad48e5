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
from tests.compat import journals, names, states, wire
from tests.compat.dumps import FIXTURES, NAMESPACE, admin, node
from tests.compat.forms import BOOT, Form, pairs
from tests.compat.parked import calls
from tests.compat.tools import Life
from tests.kit.redis_server import RedisServer, running

FORMS: dict[str, Form] = {
    "entries": journals.ENTRIES,
    "seals": journals.SEALS,
    "heads": journals.HEADS,
    "tokens": states.TOKENS,
    "sagas": states.SAGAS,
    "sessions": names.SESSIONS,
    "secrets": names.SECRETS,
    "ring": names.RINGS,
    "stats": names.STATS,
    "events": names.EVENTS,
}
"""The forms by the names of their files."""


def main(version: str) -> None:
    """Write all files of `version`, or none."""
    folder = FIXTURES / version
    if not version.startswith("v") or not version[1:].isdigit() or folder.exists():
        raise SystemExit(f"{version!r} is there already, or is none; nothing was written; say v1, or v2")
    logging.disable(logging.WARNING)
    made: dict[str, object] = {f"{name}.json": pairs(form) for name, form in FORMS.items()}
    with running(RedisServer()) as redis:
        made |= asyncio.run(_recorded(redis))
    for name, value in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1) + "\n")


async def _recorded(redis: RedisServer) -> dict[str, object]:
    """What only running processes write."""
    dumps = await calls(redis)
    parked = dumps["book-1"]
    leases = await _leases(redis, parked.record["inc"], parked.record["boot"])
    found = {f"calls/{name}.json": vars(dump) for name, dump in dumps.items()}
    return {**found, "leases.json": leases, "wire.json": await wire.heard(redis, leases["live"], parked)}


async def _leases(redis: RedisServer, inc: str, boot: str) -> dict[str, str]:
    """A node's lease as the script writes it, by the node's state; the live one is of the process that held the calls.
    And what such a node says of itself."""
    found: dict[str, str] = {}
    async with node(redis, "node-9", Life()) as client:
        found["probe"] = await wire.probed(client)
        stats, store = client.runtime.stats(), client.runtime.store
        for state, name, life in (("live", "node-1", (inc, boot)), ("draining", "node-3", (BOOT, BOOT))):
            of = NodeId(name), Incarnation(life[0]), Boot(life[1])
            lease = NodeRecord(*of, 0, "http://127.0.0.1:8081", state, "", stats.dump(), end_of(time.time(), 60.0))
            await store.register(wire.SEALS.seal(lease), 60.0)
            with admin(redis) as behind:
                found[state] = behind.get(f"fh:{NAMESPACE}:node:{name}").decode()
    return found


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])

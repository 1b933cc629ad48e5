"""A call that an earlier release parked is carried on by the code that is here now: all of that release's nodes are
gone, the store holds what they wrote, the client has the token that they gave it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framehold_core.ending import COMPLETED
from framehold_core.ending import LOST as GONE
from framehold_core.ids import CallId
from framehold_core.requests import Read
from framehold_core.trail import Moved
from framehold_core.value import astuple
from framehold_store.codec import decode
from tests.compat.dumps import FIXTURES, Dump, _raw, admin, at, keys, node, put, taken, versions
from tests.compat.parked import LOST
from tests.compat.tools import Life
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio


def _dumps(*names: str) -> list[Any]:
    """All calls of every version, or those of these names."""
    found = [path for version in versions() for path in sorted((FIXTURES / version / "calls").glob("*.json"))]
    chosen: list[Path] = [path for path in found if not names or path.stem in names]
    return [pytest.param(Dump.load(path), id=f"{path.parts[-3]} {path.stem}") for path in chosen]


@pytest.mark.parametrize("dump", _dumps())
async def test_a_call_ends_as_it_would_have_where_it_began(store: RedisServer, dump: Dump) -> None:
    """Each recorded effect runs no more, the rest runs once; what may not be entered again is lost, and says so."""
    put(store, dump)
    life = Life()
    async with node(store, "heir", life) as client:
        with at(dump.minted + 1):
            result = await client.finish(dump, await client.go_on(dump))
    assert dump.end in result.text, result.message
    assert life.ran == dump.ran
    over = dump.end == LOST or dump.record.get("state") == "done"
    # A call that is held is rebuilt once; of one whose token is all of it, each round enters the handler.
    entered = life.entered if dump.record else life.entered[:1]
    assert entered == ([] if over else [dump.tool])


def test_the_store_was_written_in_every_state() -> None:
    """Or the test above would say less than it seems to."""
    for version in versions():
        records = [Dump.load(path).record for path in (FIXTURES / version / "calls").glob("*.json")]
        assert {record.get("state") for record in records} == {None, "open", "released", "done", "lost"}
        assert {record.get("round") for record in records} >= {"1", "2", "3"}
        assert any(value == "i" for record in records for name, value in record.items() if name.startswith("k:"))


@pytest.mark.parametrize("dump", _dumps("book-2"))
@pytest.mark.parametrize(
    ("field", "value"),
    [("v", "2"), ("state", "paused"), ("a:1", '{"digest": "x"}')],
    ids=["a newer format", "a newer state", "a newer form of answers"],
)
async def test_a_record_of_a_newer_release_is_left_to_it(
    store: RedisServer, dump: Dump, field: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """503: the client tries again, at a newer node perhaps; nothing was claimed, entered or written meanwhile."""
    put(store, dump)
    with admin(store) as client:
        client.hset(keys(dump.call)[0], field, value)
    before, life = taken(store, dump.call), Life()
    async with node(store, "heir", life) as client:
        with at(dump.minted + 1):
            result = await client.go_on(dump)
            assert (result.status, result.code) == (503, -32603)
            assert "retry-after" in result.headers and life.entered == []
            assert "can't be read" in caplog.text and taken(store, dump.call) == before
            put(store, dump)
            assert dump.end in (await client.finish(dump, await client.go_on(dump))).text
    assert life.ran == dump.ran


BOOKED = [(Moved.PARKED, 1, 1, "node-1"), (Moved.PARKED, 2, 1, "node-1")]
ENDS = {"book-2": (None, ""), "book-done": (COMPLETED, "completed"), "plain-lost": (GONE, "gone after round 1")}


@pytest.mark.parametrize("dump", _dumps(*ENDS))
def test_the_trail_and_the_end_of_a_call_are_read(dump: Dump, request: pytest.FixtureRequest) -> None:
    """By their bytes: who moved it, and how its handler had ended, or that it was lost."""
    name = request.node.callspec.id.split()[1]
    flat = [part for name, value in dump.record.items() for part in (name.encode(), _raw(name, value))]
    journal = [line.encode() for line in dump.journal]
    reply = decode(Read(CallId("0" * 32)), [b"ok", int(dump.record["epoch"]), flat, journal])
    assert reply.stored is not None
    record = reply.stored.record
    assert (record.ending, record.cause) == ENDS[name]
    if name == "book-2":
        assert [astuple(step)[:4] for step in record.trail] == BOOKED

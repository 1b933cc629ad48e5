"""A call that an earlier release parked is carried on by the code that is here now: all of that release's nodes are
gone, the store holds what they wrote, the client has the token that they gave it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from framehold_core import journal
from framehold_core.ending import COMPLETED
from framehold_core.ending import LOST as GONE
from framehold_core.ids import CallId
from framehold_core.requests import Read
from framehold_core.trail import Moved
from framehold_core.value import astuple
from framehold_store.codec import decode
from tests.compat.dumps import FIXTURES, Dump, _raw, admin, at, keys, node, put, questions, taken, versions
from tests.compat.parked import LOST
from tests.compat.tools import Life
from tests.store.server import RedisServer

pytestmark = pytest.mark.anyio
EXPIRED = (400, -32602, "Invalid or expired requestState")


def _files() -> list[Path]:
    return [path for version in versions() for path in sorted((FIXTURES / version / "calls").glob("*.json"))]


def _dumps(*, held: bool = False) -> list[Any]:
    """All dumps, or those of which the store holds something that goes on."""
    found = [(path, Dump.load(path)) for path in _files()]
    chosen = [(path, dump) for path, dump in found if not held or dump.record.get("state") in ("open", "released")]
    return [pytest.param(dump, id=f"{path.parts[-3]} {path.stem}") for path, dump in chosen]


def _named(name: str) -> list[Any]:
    """One call of every version."""
    found = [path for path in _files() if path.stem == name]
    return [pytest.param(Dump.load(path), id=f"{path.parts[-3]} {name}") for path in found]


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


@pytest.mark.parametrize("dump", [param for param in _dumps(held=True) if param.values[0].end != LOST])
async def test_a_call_that_one_heir_carried_on_is_finished_by_the_next(store: RedisServer, dump: Dump) -> None:
    """What the present code adds to an old journal is read by its own next process."""
    put(store, dump)
    first = Life()
    async with node(store, "heir", first) as client:
        with at(dump.minted + 1):
            reply = await client.go_on(dump)
            if reply.result["resultType"] == "input_required":
                dump = Dump(**{**vars(dump), "token": reply.token, "asked": questions(reply)})
    second = Life()
    async with node(store, "heir-2", second) as client:
        with at(dump.minted + 2):
            result = await client.finish(dump, await client.go_on(dump))
    assert dump.end in result.text, result.message
    assert first.ran + second.ran == dump.ran


async def test_no_token_is_valid_longer_than_it_was_to_be(store: RedisServer) -> None:
    """A control: the clock that is turned back for the other tests is the one that decides. Nothing is entered or
    written, so one node is enough for all calls."""
    life = Life()
    async with node(store, "heir", life) as client:
        for name, dump in ((param.id, param.values[0]) for param in _dumps()):
            put(store, dump)
            before = taken(store, dump.call)
            with at(dump.minted + 601):
                result = await client.go_on(dump)
            assert (result.status, result.code, result.text) == EXPIRED, name
            assert life.entered == [] and taken(store, dump.call) == before, name


@pytest.mark.parametrize("dump", _dumps(held=True))
async def test_its_record_names_its_journal(dump: Dump) -> None:
    """The running hash is chained as it was, or no history of an earlier release would be known again."""
    entries = [line.encode("ascii") for line in dump.journal]
    assert int(dump.record["n"]) == len(journal.decode_all(entries))
    assert dump.record["jh"] == journal.chain(journal.GENESIS, entries)


def test_the_store_was_written_in_every_state() -> None:
    """Or the tests above would say less than they seem to."""
    for version in versions():
        found = [Dump.load(path) for path in (FIXTURES / version / "calls").glob("*.json")]
        assert {dump.record.get("state") for dump in found} == {None, "open", "released", "done", "lost"}
        assert {dump.record.get("round") for dump in found} >= {"1", "2", "3"}
        assert any("epoch" in dump.record and int(dump.record["epoch"]) > 1 for dump in found)
        assert any(value == "i" for dump in found for name, value in dump.record.items() if name.startswith("k:"))


@pytest.mark.parametrize("dump", _named("book-2"))
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


@pytest.mark.parametrize("dump", _named("book-2"))
async def test_a_field_that_this_release_does_not_know_is_passed_over(store: RedisServer, dump: Dump) -> None:
    """So that a release may add to a record without a new version: nobody may need what it adds."""
    put(store, dump)
    with admin(store) as client:
        client.hset(keys(dump.call)[0], "colour", "blue")
    life = Life()
    async with node(store, "heir", life) as client:
        with at(dump.minted + 1):
            result = await client.finish(dump, await client.go_on(dump))
    assert dump.end in result.text and life.ran == dump.ran
    assert taken(store, dump.call)[0]["colour"] == "blue"


BOOKED = [(Moved.PARKED, 1, 1, "node-1"), (Moved.CLAIMED, 1, 2, "node-2"), (Moved.PARKED, 2, 2, "node-2")]


@pytest.mark.parametrize(
    ("dump", "before", "epoch"),
    [
        *(pytest.param(*param.values, BOOKED, 3, id=f"{param.id}") for param in _named("taken-over-2")),
        *(pytest.param(*param.values, [], 2, id=f"{param.id}") for param in _named("untrailed-2")),
    ],
)
async def test_a_trail_goes_on_from_what_the_record_has_of_it(
    store: RedisServer, dump: Dump, before: list[tuple[Moved, int, int, str]], epoch: int
) -> None:
    """Earlier releases kept none: it begins with what is done from now on."""
    put(store, dump)
    async with node(store, "heir", Life()) as client:
        with at(dump.minted + 1):
            await client.finish(dump, await client.go_on(dump))
        reply = await client.runtime.store.run(Read(CallId(dump.call)))
    assert reply.stored is not None
    trail = reply.stored.record.trail
    after = [(Moved.CLAIMED, 2, epoch), (Moved.PARKED, 3, epoch), (Moved.FINISHED, 3, epoch)]
    assert [astuple(step)[:4] for step in trail] == [*before, *((*step, "heir") for step in after)]
    assert list(trail) == sorted(trail, key=lambda step: step.at)


@pytest.mark.parametrize("dump", _named("book-2"))
async def test_an_entry_of_a_newer_release_is_named_and_not_guessed_at(
    store: RedisServer, dump: Dump, caplog: pytest.LogCaptureFixture
) -> None:
    """Its handler is not entered, no effect runs, and the client hears what was not done."""
    caplog.set_level(logging.INFO)
    newer = ["[2" + line[2:] if number == 5 else line for number, line in enumerate(dump.journal)]
    put(store, Dump(**{**vars(dump), "journal": newer}))
    life = Life()
    async with node(store, "heir", life) as client:
        with at(dump.minted + 1):
            result = await client.go_on(dump)
    assert "journal entry 5 has format 2, this release reads up to 1" in caplog.text
    assert result.result["isError"] and "can't be continued here" in result.text
    assert life.entered == life.ran == []


@pytest.mark.parametrize("dump", [*_named("book-done"), *_named("large-done"), *_named("plain-lost")])
def test_the_end_of_a_call_that_an_earlier_release_wrote_is_read(dump: Dump) -> None:
    """By its bytes: how its handler had ended, or that it was lost."""
    flat = [part for name, value in dump.record.items() for part in (name.encode(), _raw(name, value))]
    reply = decode(Read(CallId("0" * 32)), [b"ok", int(dump.record["epoch"]), flat, []])
    assert reply.stored is not None
    lost = dump.record["state"] == "lost"
    assert reply.stored.record.ending == (GONE if lost else COMPLETED)
    assert reply.stored.record.cause == ("gone after round 1" if lost else "completed")

"""Somebody else writes the store: a record that can't be read counts as missing, for every script. A frame that lives
writes it again with one more request. A record of a newer release is left to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Incarnation, NodeId
from framehold_core.requests import Record, Reply, Seen, Verdict
from framehold_core.value import replace
from framehold_store import StoreConfig, codec
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer
from tests.store.calls import E0, E1, E2, E3, Story, fence

pytestmark = pytest.mark.anyio

Spoil = Callable[[Any, str, str], object]


class Spoiled:
    """A store, and who writes its server beside it."""

    def __init__(self, store: RedisStore, namespace: str, client: Any) -> None:
        self.store, self._namespace, self.client = store, namespace, client

    def keys(self, story: Story) -> tuple[str, str]:
        record, journal = (f"fh:{self._namespace}:{{{story.call}}}:{kind}" for kind in "rj")
        return record, journal

    async def parked(self, spoil: Spoil) -> Story:
        """A call that has asked, has answers and an effect, and whose record is spoiled then."""
        story = Story()
        for request in (story.ask, story.intent):
            assert (await self.store.run(request)).verdict is Verdict.OK
        spoil(self.client, *self.keys(story))
        return story

    async def record(self, story: Story) -> Record | None:
        reply = await self.store.run(story.read)
        return None if reply.stored is None else reply.stored.record


@pytest.fixture
async def spoiled(shared_server: RedisServer, namespace: str) -> AsyncIterator[Spoiled]:
    store = RedisStore(StoreConfig(shared_server.url, namespace, op_timeout=30.0))
    with shared_server.client() as client:
        yield Spoiled(store, namespace, client)
    await store.close()


GARBAGE: tuple[bytes, ...] = (
    *(b"", b"many", b"-1", b"+1", b" 1", b"1 ", b"1.5", b"1e3", b"0x10", b"1_0", b"nan", b"inf", b"9" * 15, b"9" * 400),
    *(b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", "é€😀".encode(), b"\xd9\xa1", b"\x00"),
    *(b"[]", b"{}", b"[1]", b'["x"]', b'["x",1]', b'["x",[1]]', b'["x",{}]', b'["x",["y"],1]', b'{"1":"x","2":["y"]}'),
    *(b'["x",["y"]', b'[["x"],["y"]]', b'["x",["\n"]]', b'["\\ud800",["y"]]', b'["x",' + b"[" * 2000 + b"]" * 2001),
)
FIELDS = (
    *("v", "state", "owner", "inc", "boot", "epoch", "round", "n", "jh", "attempts", "reentrant", "tool", "code"),
    *("method", "target", "args", "principal", "strategy", "seal", "created", "expires", "out_round", "cause", "s:2"),
    *("a:1", "a:2", "a:x", "a:", "k:once", "k:", "other", b"\xff"),
)
TYPES: dict[str, Spoil] = {
    "a text": lambda at, record, journal: (at.delete(record), at.set(record, "x")),
    "a list": lambda at, record, journal: (at.delete(record), at.rpush(record, "x")),
    "a hash without a state": lambda at, record, journal: at.hdel(record, "state"),
    "no record": lambda at, record, journal: at.delete(record),
    "a journal that is a text": lambda at, record, journal: (at.delete(journal), at.set(journal, "x")),
    "a journal that is a hash": lambda at, record, journal: (at.delete(journal), at.hset(journal, "x", "y")),
    "no journal": lambda at, record, journal: at.delete(journal),
}


def spoils(field: str | bytes) -> list[Spoil]:
    def put(value: bytes) -> Spoil:
        return lambda at, record, journal: at.hset(record, field, value)

    newer = b"9" * 15 if field == "v" else None
    return [*(put(value) for value in GARBAGE if value != newer), lambda at, record, journal: at.hdel(record, field)]


WRITES: dict[str, Callable[[Story], Any]] = {
    "ask": lambda story: story.ask,
    "ask again": lambda story: story.ask_again,
    "intent": lambda story: story.intent,
    "result": lambda story: story.result,
    "finish": lambda story: replace(story.finish, fence=fence(1, 3)),
    "release": lambda story: replace(story.release, fence=fence(1, 3)),
    "verify": lambda story: replace(story.verify, fence=fence(1, 3)),
    "higher": lambda story: replace(story.verify, fence=fence(2, 5, 2)),
}


def is_missing(reply: Reply) -> bool:
    return (reply.verdict, reply.epoch, reply.stored) == (Verdict.BEHIND, 0, None)


async def check(spoiled: Spoiled, spoil: Spoil) -> None:
    """All scripts agree on what was spoiled; whoever has a frame writes it again."""
    story = await spoiled.parked(spoil)
    heal = story.heals(None, fence(1, 3), E0, E1, E2)
    record = await spoiled.record(story)
    if record is None:
        assert (await spoiled.store.run(heal)).verdict is Verdict.OK
        healed = await spoiled.record(story)
        assert healed is not None and (healed.epoch, healed.position) == (2, 3)
        result = replace(story.result, fence=fence(1, 3, 2))
        assert (await spoiled.store.run(result)).verdict in (Verdict.OK, Verdict.CONFLICT)
    else:
        assert (await spoiled.store.run(heal)).stored is not None, "whoever has read a record heals none"
    for name, write in WRITES.items():
        story = await spoiled.parked(spoil)
        reply = await spoiled.store.run(write(story))
        if record is None and reply.verdict not in (Verdict.OK, Verdict.ALREADY):
            assert is_missing(reply), (name, reply)
        elif record is not None:
            assert (await spoiled.record(story)) is not None, name
    story = await spoiled.parked(spoil)
    claimed = await spoiled.store.run(story.claim)
    if claimed.verdict is Verdict.MISSING or record is not None:
        assert (claimed.verdict is Verdict.MISSING) == (record is None), claimed
    else:
        # The claim has written what could not be read: nobody claims a record that nobody can read.
        assert claimed.stored == (await spoiled.store.run(story.read)).stored


@pytest.mark.parametrize("field", FIELDS, ids=repr)
async def test_what_no_reader_can_read_counts_as_missing(spoiled: Spoiled, field: str | bytes) -> None:
    await asyncio.gather(*(check(spoiled, spoil) for spoil in spoils(field)))


@pytest.mark.parametrize("field", ["created", "expires", "out_round", "cause", "error", "place", "s:2"])
async def test_what_is_there_to_look_at_makes_no_record_unreadable(spoiled: Spoiled, field: str) -> None:
    for spoil in spoils(field):
        assert await spoiled.record(await spoiled.parked(spoil)) is not None


async def test_a_field_that_this_release_does_not_know_is_passed_over(spoiled: Spoiled) -> None:
    """So that a release may add to a record without a new version: nobody may need what it adds."""
    story = await spoiled.parked(lambda at, record, journal: at.hset(record, "colour", "blue"))
    assert await spoiled.record(story) is not None


@pytest.mark.parametrize("field", ["epoch", "n"])
async def test_what_can_not_be_read_is_logged_by_a_prefix_of_its_call(
    spoiled: Spoiled, caplog: pytest.LogCaptureFixture, field: str
) -> None:
    story = await spoiled.parked(lambda at, record, journal: at.hset(record, field, "x"))
    assert await spoiled.record(story) is None
    assert "can't be read" in caplog.text and story.call not in caplog.text


@pytest.mark.parametrize("what", TYPES)
async def test_what_stands_in_the_place_of_a_record_counts_as_missing(spoiled: Spoiled, what: str) -> None:
    await check(spoiled, TYPES[what])
    assert await spoiled.record(await spoiled.parked(TYPES[what])) is None


GHOST: dict[str, tuple[Spoil, Seen | None]] = {
    "a record without its journal": (lambda at, record, journal: at.delete(journal), None),
    "a record of no entries": (
        lambda at, record, journal: (at.delete(journal), at.hset(record, mapping={"n": 0, "round": 0})),
        Seen(1, NodeId("node-1"), Incarnation("inc-1")),
    ),
}


@pytest.mark.parametrize("what", GHOST)
async def test_a_heal_leaves_nothing_of_what_stood_there(spoiled: Spoiled, what: str) -> None:
    spoil, seen = GHOST[what]

    def leave(at: Any, record: str, journal: str) -> None:
        spoil(at, record, journal)
        at.hset(record, "k:ghost", "r")

    story = await spoiled.parked(leave)
    assert (await spoiled.store.run(story.heals(seen, fence(2, 3), E0, E1, E2))).verdict is Verdict.OK
    whole = await spoiled.record(story)
    assert whole is not None and dict(whole.intents) == {"once": True, "two": False}


async def test_a_record_that_was_read_is_healed_though_it_became_unreadable(spoiled: Spoiled) -> None:
    story = await spoiled.parked(lambda at, record, journal: at.hset(record, "a:2", "["))
    heal = story.heals(Seen(1, NodeId("node-1"), Incarnation("inc-1")), fence(2, 4), E0, E1, E2, E3)
    assert (await spoiled.store.run(heal)).verdict is Verdict.OK and await spoiled.record(story) is not None


async def test_an_open_record_is_not_taken_for_ended_by_its_outcome(spoiled: Spoiled) -> None:
    end = Story().finish.outcome
    story = await spoiled.parked(lambda at, record, journal: at.hset(record, "outcome", end))
    finish = replace(story.finish, fence=fence(1, 3))
    assert (await spoiled.store.run(finish)).verdict is Verdict.OK
    ended = await spoiled.record(story)
    assert ended is not None and ended.is_over


async def test_a_record_that_is_over_is_read_without_its_journal(spoiled: Spoiled) -> None:
    """Whatever stands in the place of the journal that it no longer has."""
    story = Story()
    for request in (story.ask, story.finish):
        await spoiled.store.run(request)
    spoiled.client.set(spoiled.keys(story)[1], "x")
    record = await spoiled.record(story)
    assert record is not None and record.outcome == story.finish.outcome
    assert (await spoiled.store.run(story.claim)).verdict is Verdict.CHANGED


NEWER = [*((field, b"\xff new") for field in ("cause", "epoch", "state", "attempts", "a:1", "n")), ("n", b"9")]


@pytest.mark.parametrize(("field", "value"), NEWER)
@pytest.mark.parametrize("version", ["2", "99"])
async def test_a_record_of_a_newer_release_is_left_to_it(
    spoiled: Spoiled, version: str, field: str, value: bytes
) -> None:
    """Whatever else its fields say: nobody guesses, and nothing is written."""

    def spoil(at: Any, record: str, journal: str) -> None:
        at.hset(record, mapping={"v": version, field: value})

    for request in ("read", "claim", "heal", *WRITES):
        story = await spoiled.parked(spoil)
        others: dict[str, Any] = {
            "read": story.read,
            "claim": story.claim,
            "heal": story.heals(None, fence(1, 3), E0, E1, E3),
        }
        before = spoiled.client.hgetall(spoiled.keys(story)[0])
        try:
            reply = await spoiled.store.run(others[request] if request in others else WRITES[request](story))
        except StoreUnavailable as error:
            assert f"its format is {version}, this release reads 1" in str(error)
            assert spoiled.client.hgetall(spoiled.keys(story)[0]) == before
        else:
            # It is granted where the few fields that it looks at are as they were.
            assert request in WRITES and reply.verdict is Verdict.OK and field in ("cause", "attempts", "a:1"), reply


@pytest.mark.parametrize("raw", [1, 0, None, b"ok", [], [b"ok"], [1], {}], ids=str)
async def test_what_is_no_reply_to_a_reader_is_named_so(raw: object) -> None:
    """Whoever waits for a reply would wait for ever if another error were raised."""
    story = Story()
    for request in (story.read, story.claim):
        with pytest.raises(ValueError, match=r"\w"):
            codec.decode(request, raw)

"""One contract, three stores: every precondition of every script is granted once and refused once, and a refusal writes
nothing. The expected verdicts stand here in words, so that core's `record` and the Lua can't drift together."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from framehold_core.clock import Clock
from framehold_core.ids import Boot, Incarnation
from framehold_core.requests import (
    Answered,
    Claim,
    Commit,
    Done,
    Evidence,
    Finish,
    Heal,
    Intent,
    Read,
    Record,
    RecordState,
    Release,
    Request,
    Result,
    Seen,
    Verdict,
    Verify,
)
from framehold_core.value import replace
from framehold_store import Store
from framehold_store.system_clock import measure
from tests.store.calls import E0, E1, E2, E3, PLAIN, RAISED, Story, answers, batch, fence

pytestmark = pytest.mark.anyio

Steps = Callable[[Story], list[Request]]


class Case(NamedTuple):
    name: str
    before: Steps
    request: Callable[[Story], Request]
    verdict: Verdict
    head: object = None


def nothing(s: Story) -> list[Request]:
    return []


def parked(s: Story) -> list[Request]:
    return [s.ask]


def parked_twice(s: Story) -> list[Request]:
    return [s.ask, s.ask_again]


def intended(s: Story) -> list[Request]:
    return [s.ask, s.intent]


def resulted(s: Story) -> list[Request]:
    return [s.ask, s.intent, s.result]


def finished(s: Story) -> list[Request]:
    return [s.ask, s.finish]


def released(s: Story) -> list[Request]:
    return [s.ask, s.release]


def released_later(s: Story) -> list[Request]:
    """Released, taken by another node, and released by that one."""
    return [s.ask, s.release, s.take, replace(s.release, fence=fence(1, 1, 2, "node-2", "inc-9"))]


def claimed(s: Story) -> list[Request]:
    return [s.ask, s.claim]


def verified(s: Story) -> list[Request]:
    return [s.ask, s.verify]


def worn_out(s: Story) -> list[Request]:
    """Claimed five times, by node-2 and node-3 in turn, without a round in between."""
    steps: list[Request] = [s.ask]
    seen = Seen(1, "node-1", "inc-1")
    for number in range(5):
        owner = f"node-{2 + number % 2}"
        steps.append(s.claims(seen, Evidence.GONE, owner))
        seen = Seen(seen.epoch + 1, owner, "inc-9")
    return steps


def lost(s: Story) -> list[Request]:
    return [s.ask, replace(s.claim, reentrant=False)]


OK, ALREADY, FENCED, BEHIND = Verdict.OK, Verdict.ALREADY, Verdict.FENCED, Verdict.BEHIND
CONFLICT, CHANGED, LOST = Verdict.CONFLICT, Verdict.CHANGED, Verdict.LOST
OPEN = Seen(1, "node-1", "inc-1")
INC_3, INC_8 = Incarnation("inc-3"), Incarnation("inc-8")


def fenced(name: str) -> list[Case]:
    """What every request with a fence has in common; `name` is the story's request that fits `parked` (or
    `intended`)."""
    base = intended if name == "result" else parked

    def change(**fields: object) -> Callable[[Story], Request]:
        def changed(s: Story) -> Request:
            own = getattr(s, name)
            request: Request = replace(own, fence=replace(own.fence, **fields))
            return request

        return changed

    def own(s: Story) -> Request:
        request: Request = getattr(s, name)
        return request

    return [
        Case("granted", base, own, OK),
        Case("no record, and not its first write", nothing, own, BEHIND),
        Case("another owner of the same round", base, change(owner="node-2"), FENCED),
        Case("another incarnation", base, change(incarnation="inc-0"), FENCED),
        Case("an older epoch", claimed, own, FENCED),
        Case("a newer epoch than the store's", base, change(epoch=2), BEHIND),
        Case("a newer epoch but an older round", base, change(epoch=2, round=0), FENCED),
        Case("a newer round, another owner", base, change(owner="node-2", round=2), BEHIND),
        Case("an older round, another owner", base, change(owner="node-2", round=0), FENCED),
        Case("a position beyond the store's", base, change(position=9), BEHIND),
        Case("a position before the store's", base, change(position=0), FENCED),
        Case("after a finish", finished, change(epoch=7), FENCED),
        Case("after a release", released, change(position=0), FENCED),
        Case("after a release by an older epoch", released, change(epoch=7), BEHIND),
        Case("after a loss", lost, change(epoch=7), FENCED),
    ]


def carrying(request: Commit, *results: Done) -> Commit:
    return replace(request, results=results)


def carries(name: str, done: Done, position: int = 3) -> Callable[[Story], Request]:
    """The story's request `name` with a result, where `position` entries stand."""

    def changed(s: Story) -> Request:
        more = {"key": "another"} if name == "intent" else {}
        request: Request = replace(getattr(s, name), fence=fence(1, position), results=(done,), answered=None, **more)
        return request

    return changed


CASES: list[Case] = [
    *(case for name in ("ask_again", "intent", "result", "finish", "release", "verify") for case in fenced(name)),
    # commit
    Case("the first write", nothing, lambda s: s.ask, OK),
    Case("the first write carries answers", nothing, lambda s: replace(s.ask, answered=answers(0)), OK),
    Case("no entries", parked, lambda s: replace(s.ask_again, batch=batch((E0,))), OK),
    Case("sent again", parked, lambda s: s.ask, ALREADY),
    Case("sent again, with answers", parked_twice, lambda s: s.ask_again, ALREADY),
    Case("creates under epoch 1 only", nothing, lambda s: replace(s.ask, fence=fence(0, 0, 2)), BEHIND),
    Case("creates at position 0 only", nothing, lambda s: replace(s.ask, fence=fence(0, 1)), BEHIND),
    Case("creates again", parked, lambda s: replace(s.ask, batch=batch((), E1)), FENCED),
    Case("a round other than the record's", parked, lambda s: replace(s.ask_again, fence=fence(0, 1)), FENCED),
    Case("a round beyond the record's", parked, lambda s: replace(s.ask_again, fence=fence(2, 1)), FENCED),
    Case(
        "other answers to that round",
        intended,
        lambda s: replace(s.ask_again, fence=fence(1, 3), answered=answers(1, "no")),
        CONFLICT,
    ),
    Case(
        "the same answers to that round",
        intended,
        lambda s: replace(s.ask_again, fence=fence(1, 3), batch=batch((E0, E1, E2), E3)),
        OK,
    ),
    Case(
        "a digest that another begins with",
        intended,
        lambda s: replace(s.ask_again, fence=fence(1, 3), answered=answers(1, "ye")),
        CONFLICT,
    ),
    # intent
    Case("the first write", nothing, lambda s: s.first_intent, OK),
    Case("sent again", intended, lambda s: s.intent, ALREADY),
    Case("creates under epoch 1 only", nothing, lambda s: replace(s.first_intent, fence=fence(0, 0, 2)), BEHIND),
    Case(
        "an intent stands for the key",
        intended,
        lambda s: replace(s.intent, fence=fence(1, 3), batch=batch((E0, E1, E2), E3)),
        CONFLICT,
    ),
    Case(
        "a result stands for the key",
        resulted,
        lambda s: replace(s.intent, fence=fence(1, 4), batch=batch((E0, E1, E2, E3), E3), answered=None),
        CONFLICT,
    ),
    Case(
        "another key",
        intended,
        lambda s: replace(s.intent, fence=fence(1, 3), batch=batch((E0, E1, E2), E3), key="other"),
        OK,
    ),
    Case(
        "other answers to that round",
        intended,
        lambda s: replace(s.intent, fence=fence(1, 3), key="other", answered=answers(1, "no")),
        CONFLICT,
    ),
    # result
    Case("sent again", resulted, lambda s: s.result, ALREADY),
    Case("no intent", intended, lambda s: replace(s.result, results=(Done("other"),)), CONFLICT),
    Case(
        "a result stands",
        resulted,
        lambda s: replace(s.result, fence=fence(1, 4), batch=batch((E0, E1, E2, E3), E3)),
        CONFLICT,
    ),
    Case("of an effect without an intent", parked, lambda s: carrying(s.ask_again, Done("new", False)), OK),
    Case("of an effect that had an intent", intended, lambda s: replace(s.result, results=(Done("once", False),)), OK),
    Case(
        "a result stands of an effect without an intent",
        resulted,
        lambda s: replace(carrying(s.ask_again, Done("once", False)), fence=fence(1, 4)),
        CONFLICT,
    ),
    Case("the first write", nothing, lambda s: s.first_result, OK),
    Case("creates under epoch 1 only", nothing, lambda s: replace(s.first_result, fence=fence(0, 0, 2)), BEHIND),
    Case(
        "other answers to that round",
        intended,
        lambda s: replace(s.result, answered=answers(1, "no")),
        CONFLICT,
    ),
    # results that other writes carry
    *(
        case
        for name in ("ask_again", "intent", "finish")
        for case in (
            Case(f"{name} carries a result", intended, carries(name, Done("once")), OK),
            Case(f"{name} carries a result of no intent", intended, carries(name, Done("other")), CONFLICT),
            Case(f"{name} carries a result that stands", resulted, carries(name, Done("once"), 4), CONFLICT),
        )
    ),
    # finish
    Case("sent again", finished, lambda s: s.finish, ALREADY),
    Case("another outcome", finished, lambda s: replace(s.finish, outcome=b"other"), FENCED),
    Case("the same outcome of another", finished, lambda s: replace(s.finish, fence=fence(1, 1, 2)), FENCED),
    Case(
        "other answers to that round",
        intended,
        lambda s: replace(s.finish, fence=fence(1, 3), answered=answers(1, "no")),
        CONFLICT,
    ),
    # verify
    Case("sent again", verified, lambda s: s.verify, ALREADY),
    Case("sent again under another name", verified, lambda s: replace(s.verify, incarnation=INC_3), FENCED),
    Case("sent again at another position", verified, lambda s: replace(s.verify, fence=fence(1, 2)), FENCED),
    Case("sent again at an earlier position", verified, lambda s: replace(s.verify, fence=fence(1, 0)), FENCED),
    # release
    Case("sent again", released, lambda s: s.release, ALREADY),
    Case("sent again at another position", released, lambda s: replace(s.release, fence=fence(1, 2)), FENCED),
    Case("sent again by an older epoch", released_later, lambda s: s.release, FENCED),
    # claim
    Case("gone", parked, lambda s: s.claim, OK),
    Case("released", released, lambda s: s.take, OK),
    Case("the owner itself", parked, lambda s: s.claims(OPEN, Evidence.OWNER, "node-1"), OK),
    Case("the owner, says another", parked, lambda s: s.claims(OPEN, Evidence.OWNER), CHANGED),
    Case("released, says one who is wrong", parked, lambda s: replace(s.claim, evidence=Evidence.RELEASED), CHANGED),
    Case("gone, but it was released", released, lambda s: replace(s.take, evidence=Evidence.GONE), CHANGED),
    Case("sent again", claimed, lambda s: s.claim, ALREADY),
    Case("sent again by another process", claimed, lambda s: replace(s.claim, boot=Boot("boot-8")), CHANGED),
    Case(
        "sent again under another incarnation",
        claimed,
        lambda s: replace(s.claim, incarnation=INC_8),
        CHANGED,
    ),
    Case("another was first", claimed, lambda s: s.claims(OPEN, Evidence.GONE, "node-3"), CHANGED),
    Case("another epoch was read", parked, lambda s: s.claims(Seen(2, "node-1", "inc-1"), Evidence.GONE), CHANGED),
    Case("another owner was read", parked, lambda s: s.claims(Seen(1, "node-3", "inc-1"), Evidence.GONE), CHANGED),
    Case(
        "another incarnation was read", parked, lambda s: s.claims(Seen(1, "node-1", "inc-3"), Evidence.GONE), CHANGED
    ),
    Case("after a finish", finished, lambda s: s.claim, CHANGED),
    Case("no record", nothing, lambda s: s.claim, Verdict.MISSING),
    Case("not re-entrant any more", parked, lambda s: replace(s.claim, reentrant=False), LOST),
    Case("never re-entrant", parked, lambda s: s.claim, LOST, PLAIN),
    Case("lost already", lost, lambda s: s.claim, LOST),
    Case("too many died", worn_out, lambda s: s.claims(Seen(6, "node-2", "inc-9"), Evidence.GONE), Verdict.STUCK),
    Case(
        "one more may try", worn_out, lambda s: s.claims(Seen(6, "node-2", "inc-9"), Evidence.GONE, max_attempts=6), OK
    ),
    # heal
    Case("the record is gone", nothing, lambda s: s.heals(None, fence(2, 3), E0, E1, E2), OK),
    Case("the record went back", parked, lambda s: s.heals(OPEN, fence(2, 3), E0, E1, E2), OK),
    Case("the epoch went back", parked, lambda s: s.heals(OPEN, fence(2, 3, 4, inc="inc-5"), E0, E1, E2), OK),
    Case(
        "it was released, and claimed since",
        released,
        lambda s: s.heals(Seen(1, "", ""), fence(2, 3, 2, "node-2", "inc-9"), E0, E1, E2),
        OK,
    ),
    Case("it was released", released, lambda s: s.heals(Seen(1, "", ""), fence(1, 1), E0), FENCED),
    Case("nothing to heal", parked, lambda s: s.heals(OPEN, fence(1, 1), E0), CHANGED),
    Case("it was missing, says one who is wrong", parked, lambda s: s.heals(None, fence(2, 3), E0, E1, E2), CHANGED),
    Case("it stood, says one who is wrong", nothing, lambda s: s.heals(OPEN, fence(2, 3), E0, E1, E2), CHANGED),
    Case("another owner was read", parked, lambda s: s.heals(Seen(1, "node-3", "inc-1"), fence(2, 3), E0), CHANGED),
    Case("another epoch was read", parked, lambda s: s.heals(Seen(3, "node-1", "inc-1"), fence(2, 3), E0), CHANGED),
    Case("another incarnation was read", parked, lambda s: s.heals(Seen(1, "node-1", "x"), fence(2, 3), E0), CHANGED),
    Case(
        "another node went on", claimed, lambda s: s.heals(Seen(2, "node-2", "inc-9"), fence(1, 3), E0, E1, E2), FENCED
    ),
    Case("it was finished", finished, lambda s: s.heals(OPEN, fence(2, 3), E0, E1, E2), FENCED),
    Case("the frame was told of more than it has", parked, lambda s: s.heals(OPEN, fence(1, 2), E0), OK),
    Case(
        "sent again",
        lambda s: [s.heals(None, fence(2, 3), E0, E1, E2)],
        lambda s: s.heals(None, fence(2, 3), E0, E1, E2),
        ALREADY,
    ),
    # read
    Case("a record", parked, lambda s: s.read, OK),
    Case("none", nothing, lambda s: s.read, Verdict.MISSING),
]


def label(case: Case) -> str:
    request = case.request(Story())
    return f"{type(request).__name__.lower()}: {case.name}"


@pytest.mark.parametrize("case", CASES, ids=label)
async def test_a_script_grants_and_refuses(store: Store, case: Case) -> None:
    """The verdict is the one in the table, and a refusal leaves the record as it was."""
    story = Story(PLAIN) if case.head is PLAIN else Story()
    for step in case.before(story):
        assert (await store.run(step)).verdict in (OK, LOST)
    before = await store.run(story.read)
    reply = await store.run(case.request(story))
    assert reply.verdict is case.verdict
    after = await store.run(story.read)
    if reply.verdict is not OK and (reply.verdict is not LOST or case.name == "lost already"):
        assert after == before
        if reply.stored is not None:
            assert before.stored is not None and reply.stored.record == before.stored.record
            assert reply.epoch == before.epoch


@pytest.mark.parametrize("case", [case for case in CASES if case.verdict is OK], ids=label)
async def test_a_request_may_be_sent_again(store: Store, case: Case) -> None:
    """A caller that lost the reply sends the request again: nothing is applied twice, and no failure is reported."""
    story = Story(PLAIN) if case.head is PLAIN else Story()
    for step in case.before(story):
        await store.run(step)
    request = case.request(story)
    first = await store.run(request)
    between = await store.run(story.read)
    second = await store.run(request)
    if case.name == "no entries":
        assert second.verdict is FENCED  # a commit without entries has no position of its own; no park is without one
    else:
        assert second.verdict in ((OK,) if isinstance(request, Read) else (ALREADY,))
        assert second.epoch == first.epoch
    assert await store.run(story.read) == between


def test_every_verdict_of_every_script_is_in_the_table() -> None:
    """A new precondition without a case would be held equal by luck alone."""
    wanted = {
        Read: {OK, Verdict.MISSING},
        Commit: {OK, ALREADY, BEHIND, FENCED, CONFLICT},
        Intent: {OK, ALREADY, BEHIND, FENCED, CONFLICT},
        Result: {OK, ALREADY, BEHIND, FENCED, CONFLICT},
        Finish: {OK, ALREADY, BEHIND, FENCED, CONFLICT},
        Claim: {OK, ALREADY, CHANGED, LOST, Verdict.STUCK, Verdict.MISSING},
        Verify: {OK, ALREADY, BEHIND, FENCED},
        Heal: {OK, ALREADY, CHANGED, FENCED},
        Release: {OK, ALREADY, BEHIND, FENCED},
    }
    found: dict[type, set[Verdict]] = {script: set() for script in wanted}
    for case in CASES:
        found[type(case.request(Story()))].add(case.verdict)
    assert found == wanted


async def stored(store: Store, story: Story, *steps: Request) -> tuple[Record, tuple[bytes, ...]]:
    for step in steps:
        await store.run(step)
    reply = await store.run(story.read)
    assert reply.stored is not None
    return reply.stored.record, reply.stored.journal


async def test_a_first_commit_creates_the_record(store: Store) -> None:
    """Everything that the head says is there, whatever characters it has."""
    story = Story()
    record, journal = await stored(store, story, story.ask)
    assert record.head == story.head
    assert (record.state, record.seen, record.round, record.position) == (RecordState.OPEN, OPEN, 1, 1)
    assert (record.history, record.attempts, record.answers, record.intents) == (story.ask.batch.history, 0, {}, {})
    assert (record.outcome, record.out_round, record.cause) == (b"", 0, "")
    assert record.expires == pytest.approx(record.created + 600.0, abs=0.01)
    assert journal == (E0,)


async def test_results_are_recorded_by_each_write_that_carries_them(store: Store) -> None:
    for name in ("ask_again", "intent", "finish"):
        story = Story()
        record, _ = await stored(store, story, *intended(story), carries(name, Done("once"))(story))
        assert record.intents["once"] is True


async def test_an_effect_without_an_intent_has_a_result(store: Store) -> None:
    story = Story()
    record, journal = await stored(store, story, story.first_result)
    assert record.intents == {"once": True} and journal == (E0,)


async def test_answers_and_results_are_recorded(store: Store) -> None:
    """Answers keep their digest and keys, `once` keys whether they are done, the journal its order."""
    story = Story()
    record, journal = await stored(store, story, *resulted(story))
    assert record.answers == {1: answers(1)}
    assert record.intents == {"once": True}
    assert (record.round, record.position, record.history) == (1, 4, story.result.batch.history)
    assert journal == (E0, E1, E2, E3)


async def test_a_tombstone_keeps_the_outcome_and_drops_the_journal(store: Store) -> None:
    """And how the call ended; it lives as long as the finish says."""
    story = Story()
    record, journal = await stored(store, story, story.ask, replace(story.finish, ttl=60.0))
    assert (record.state, record.outcome, record.out_round) == (RecordState.DONE, b"\x00out\xff", 1)
    assert (record.ending, record.answers, record.position) == (RAISED, {1: answers(1)}, 1)
    assert record.expires == pytest.approx(record.created + 60.0, abs=2.0)
    assert journal == ()


@pytest.mark.parametrize(
    ("evidence", "boot", "rises"),
    [
        (Evidence.GONE, "boot-9", 1),
        (Evidence.OWNER, "boot-9", 1),
        (Evidence.OWNER, "boot-1", 0),
        (Evidence.RELEASED, "boot-9", 0),
    ],
)
async def test_attempts_count_claims_from_a_process_that_is_gone(
    store: Store, evidence: Evidence, boot: str, rises: int
) -> None:
    """An owner that released the call, or drops a frame and enters it again, has survived its handler."""
    story = Story()
    await store.run(story.ask)
    seen = Seen(1, "node-1", "inc-1")
    if evidence is Evidence.RELEASED:
        await store.run(story.release)
        seen = Seen(1, "", "")
    record, _ = await stored(store, story, story.claims(seen, evidence, owner="node-1", boot=boot))
    assert (record.attempts, record.epoch) == (rises, 2)


async def test_a_claim_gives_the_whole_call(store: Store) -> None:
    """The new owner needs no second read; attempts rise, and a commit clears them."""
    story = Story()
    await stored(store, story, *intended(story))
    reply = await store.run(story.claim)
    assert reply == await store.run(story.read)
    assert reply.stored
    record, journal = reply.stored.record, reply.stored.journal
    assert (record.seen, record.head.boot, record.attempts) == (Seen(2, "node-2", "inc-9"), "boot-9", 1)
    assert journal == (E0, E1, E2)
    mine = replace(story.ask_again, fence=fence(1, 3, 2, "node-2", "inc-9"), batch=batch((E0, E1, E2), E3))
    record, _ = await stored(store, story, mine)
    assert (record.round, record.attempts) == (2, 0)


async def test_a_lost_call_says_how(store: Store) -> None:
    """The state LOST and its cause are written before any caller gets that answer, and the journal is dropped."""
    story = Story(PLAIN)
    record, journal = await stored(store, story, story.ask, story.claim)
    assert (record.state, record.cause, record.seen) == (RecordState.LOST, "gone after round 1", OPEN)
    assert journal == ()


async def test_a_verified_call_has_a_new_epoch(store: Store) -> None:
    """And nothing else of it changes."""
    story = Story()
    before, _ = await stored(store, story, *intended(story))
    await store.run(replace(story.verify, fence=fence(1, 3)))
    after, _ = await stored(store, story)
    assert after == replace(before, incarnation="inc-2", epoch=2, expires=after.expires, trail=after.trail)


async def test_a_released_call_is_nobodys(store: Store) -> None:
    """Its journal stays for the next owner."""
    story = Story()
    before, journal = await stored(store, story, story.ask)
    after, kept = await stored(store, story, story.release)
    expected = replace(
        before, state=RecordState.RELEASED, owner="", incarnation="", expires=after.expires, trail=after.trail
    )
    assert (after, kept) == (expected, journal)


async def test_a_healed_call_is_the_frames(store: Store) -> None:
    """All of the frame's history stands there, one epoch above the frame's, which is the highest that was ever
    acknowledged; the call's age and attempts stay what they were."""
    story = Story()
    before, _ = await stored(store, story, *claimed(story))
    claim = fence(4, 3, 6, "node-2", "inc-7")
    after, journal = await stored(store, story, story.heals(before.seen, claim, E3, E2, E1))
    assert journal == (E3, E2, E1)
    assert after.seen == Seen(7, "node-2", "inc-7")
    assert (after.round, after.position, after.history) == (4, 3, batch((), E3, E2, E1).history)
    assert after.answers == {1: answers(1), 2: Answered(2, "no", ())}
    assert after.intents == {"once": True, "two": False}
    assert (after.created, after.attempts, after.head) == (before.created, 1, story.head)


async def test_a_long_journal_heals(store: Store) -> None:
    """A history longer than Lua's stack is written whole."""
    story = Story()
    entries = [b"%d" % number for number in range(9000)]
    reply = await store.run(story.heals(None, fence(3, len(entries)), *entries))
    assert reply.verdict is OK
    _, journal = await stored(store, story)
    assert journal == tuple(entries)


async def test_a_record_expires(store: Store) -> None:
    """After its TTL it is missing, and the call id may begin anew."""
    story = Story()
    await store.run(replace(story.ask, ttl=0.05))
    while (await store.run(story.read)).verdict is OK:
        pass
    assert (await store.run(story.ask_again)).verdict is BEHIND
    assert (await store.run(story.claim)).verdict is Verdict.MISSING
    assert (await store.run(story.ask)).verdict is OK


@pytest.mark.parametrize("name", ["ask_again", "intent", "verify", "release", "claim"])
async def test_every_write_gives_the_record_new_time(store: Store, name: str) -> None:
    """Record and journal live on together, by the time-to-live of the last write."""
    story = Story()
    await store.run(replace(story.ask, ttl=0.3))
    request = getattr(story, name)
    assert (await store.run(replace(request, ttl=900.0))).verdict is OK
    record, journal = await stored(store, story)
    assert record.expires == pytest.approx(record.created + 900.0, abs=0.3)
    probe = Story()
    await store.run(replace(probe.ask, ttl=0.35))
    while (await store.run(probe.read)).verdict is OK:
        pass
    assert await stored(store, story) == (record, journal)


async def test_the_store_tells_its_time(store: Store) -> None:
    """In seconds since 1970, and to less than a millisecond: its server runs on this machine."""
    clock = Clock(time.monotonic, lambda: 0.0, bytes)
    await measure(clock, store)
    assert clock.time() == pytest.approx(time.time(), abs=5.0)
    first, second = await store.time(), await store.time()
    assert first <= second < first + 5.0


async def test_requests_are_counted_by_script(store: Store) -> None:
    """What a node's tests and metrics read."""
    story = Story()
    await stored(store, story, *resulted(story))
    assert store.request_counts == {"commit": 1, "intent": 1, "result": 1, "read": 1}


async def test_submit_tells_once(store: Store) -> None:
    """In the order of submission within a call."""
    story = Story()
    result: list[Verdict] = []
    last = asyncio.get_running_loop().create_future()
    for request in (story.ask, story.intent, story.result):
        store.submit(request, lambda reply: result.append(reply.verdict))  # type: ignore[union-attr]  # a reply, no error
    store.submit(story.read, last.set_result)
    assert (await last).stored.record.position == 4
    assert result == [OK, OK, OK]


async def test_a_caller_that_fails_on_its_reply(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; its neighbours get theirs."""
    loop = asyncio.get_running_loop()
    result = [loop.create_future() for _ in range(2)]

    failed = asyncio.Event()

    def fail(_: object) -> None:
        failed.set()
        raise RuntimeError("a bug of the caller")

    for done in (result[0].set_result, fail, result[1].set_result):
        store.submit(Story().ask, done)
    assert [reply.verdict for reply in await asyncio.gather(*result)] == [OK, OK]
    # In a cluster each call's reply comes from a server of its own.
    await failed.wait()
    assert "a bug of the caller" in caplog.text

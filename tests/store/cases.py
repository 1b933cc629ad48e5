"""What each script grants and refuses, in words: core's `record` and every store are held to this one table, so that
they can't drift together. Every precondition is met once and missed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from framehold_core.ids import Boot, Incarnation
from framehold_core.requests import Done, Evidence, Head, Request, Seen, Verdict
from framehold_core.value import replace
from tests.store.calls import E0, E1, E2, E3, HEAD, PLAIN, Story, answers, batch, fence

Steps = Callable[[Story], list[Request]]


class Case(NamedTuple):
    name: str
    before: Steps
    request: Callable[[Story], Request]
    verdict: Verdict
    head: Head = HEAD

    @property
    def label(self) -> str:
        return f"{type(self.request(Story())).__name__.lower()}: {self.name}"


def told(*names: str) -> Steps:
    """These requests of the story, one after the other."""
    return lambda story: [getattr(story, name) for name in names]


nothing, parked, parked_twice = told(), told("ask"), told("ask", "ask_again")
intended, resulted, finished = told("ask", "intent"), told("ask", "intent", "result"), told("ask", "finish")
released, claimed, verified = told("ask", "release"), told("ask", "claim"), told("ask", "verify")


def released_later(s: Story) -> list[Request]:
    """Released, taken by another node, and released by that one."""
    return [s.ask, s.release, s.take, replace(s.release, fence=fence(1, 1, 2, "node-2", "inc-9"))]


def healed(s: Story) -> list[Request]:
    return [s.heals(None, fence(2, 3), E0, E1, E2)]


def claimed_and_ended(s: Story) -> list[Request]:
    return [s.ask, s.claim, replace(s.finish, fence=fence(1, 1, 2, "node-2", "inc-9"))]


def worn_out(s: Story) -> list[Request]:
    """Claimed five times, by node-2 and node-3 in turn, without a round in between."""
    steps: list[Request] = [s.ask]
    seen = OPEN
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

    def own(s: Story, **fields: object) -> Request:
        request = getattr(s, name)
        return replace(request, fence=replace(request.fence, **fields))  # type: ignore[no-any-return]

    def change(**fields: object) -> Callable[[Story], Request]:
        return lambda story: own(story, **fields)

    return [
        Case("granted", base, own, OK),
        Case("no record, and not its first write", nothing, own, BEHIND),
        Case("another owner of the same round", base, change(owner="node-2"), FENCED),
        Case("another incarnation", base, change(incarnation="inc-0"), FENCED),
        Case("an older epoch", claimed, own, FENCED),
        Case("an older epoch but a newer round", claimed, change(round=2), FENCED),
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
    Case("sent again when its round ran on", parked, lambda s: replace(s.ask, ran=9.0), ALREADY),
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
    Case("without a head it begins no record", nothing, lambda s: replace(s.first_result, head=None), BEHIND),
    Case("no intent", intended, lambda s: replace(s.result, results=(Done("other"),)), CONFLICT),
    Case(
        "a result stands",
        resulted,
        lambda s: replace(s.result, fence=fence(1, 4), batch=batch((E0, E1, E2, E3), E3)),
        CONFLICT,
    ),
    Case("of an effect without an intent", parked, lambda s: replace(s.ask_again, results=(Done("new", False),)), OK),
    Case("of an effect that had an intent", intended, lambda s: replace(s.result, results=(Done("once", False),)), OK),
    Case(
        "a result stands of an effect without an intent",
        resulted,
        lambda s: replace(s.ask_again, results=(Done("once", False),), fence=fence(1, 4)),
        CONFLICT,
    ),
    Case("the first write", nothing, lambda s: s.first_result, OK),
    Case("creates under epoch 1 only", nothing, lambda s: replace(s.first_result, fence=fence(0, 0, 2)), BEHIND),
    Case("other answers to that round", intended, lambda s: replace(s.result, answered=answers(1, "no")), CONFLICT),
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
    Case("sent again when its round ran on", finished, lambda s: replace(s.finish, ran=9.0), ALREADY),
    Case("nothing to end", nothing, lambda s: replace(s.finish, fence=fence(0, 0)), BEHIND),
    Case("the same answers to that round", intended, lambda s: replace(s.finish, fence=fence(1, 3)), OK),
    Case("another outcome", finished, lambda s: replace(s.finish, outcome=b"other"), FENCED),
    Case("the same outcome of another", finished, lambda s: replace(s.finish, fence=fence(1, 1, 2)), FENCED),
    Case(
        "the same outcome of another owner",
        finished,
        lambda s: replace(s.finish, fence=fence(1, 1, owner="node-2")),
        FENCED,
    ),
    Case(
        "the same outcome of another incarnation",
        finished,
        lambda s: replace(s.finish, fence=fence(1, 1, inc="inc-0")),
        FENCED,
    ),
    Case(
        "other answers to that round",
        intended,
        lambda s: replace(s.finish, fence=fence(1, 3), answered=answers(1, "no")),
        CONFLICT,
    ),
    # verify
    Case("sent again", verified, lambda s: s.verify, ALREADY),
    Case(
        "sent again after its own finish",
        lambda s: [*verified(s), replace(s.finish, fence=fence(1, 1, 2, inc="inc-2"))],
        lambda s: s.verify,
        FENCED,
    ),
    Case("by another owner", verified, lambda s: replace(s.verify, fence=fence(1, 1, owner="node-2")), FENCED),
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
    Case("its own process, again", parked, lambda s: s.claims(OPEN, Evidence.OWNER, "node-1", boot=Boot("boot-1")), OK),
    Case("with kept code", parked, lambda s: replace(s.claim, kept=True), OK),
    Case("the owner, says another", parked, lambda s: s.claims(OPEN, Evidence.OWNER), CHANGED),
    Case("released, says one who is wrong", parked, lambda s: replace(s.claim, evidence=Evidence.RELEASED), CHANGED),
    Case("gone, but it was released", released, lambda s: replace(s.take, evidence=Evidence.GONE), CHANGED),
    Case("sent again", claimed, lambda s: s.claim, ALREADY),
    Case("sent again by another process", claimed, lambda s: replace(s.claim, boot=Boot("boot-8")), CHANGED),
    Case("sent again under another incarnation", claimed, lambda s: replace(s.claim, incarnation=INC_8), CHANGED),
    Case("another was first", claimed, lambda s: s.claims(OPEN, Evidence.GONE, "node-3"), CHANGED),
    Case("another epoch was read", parked, lambda s: s.claims(Seen(2, "node-1", "inc-1"), Evidence.GONE), CHANGED),
    Case("another owner was read", parked, lambda s: s.claims(Seen(1, "node-3", "inc-1"), Evidence.GONE), CHANGED),
    Case(
        "another incarnation was read", parked, lambda s: s.claims(Seen(1, "node-1", "inc-3"), Evidence.GONE), CHANGED
    ),
    Case("after a finish", finished, lambda s: s.claim, CHANGED),
    Case("sent again after its own finish", claimed_and_ended, lambda s: s.claim, CHANGED),
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
    Case("sent again", healed, lambda s: s.heals(None, fence(2, 3), E0, E1, E2), ALREADY),
    Case("by another owner", healed, lambda s: s.heals(None, fence(2, 3, owner="node-2"), E0, E1, E2), CHANGED),
    Case("with another journal", healed, lambda s: s.heals(None, fence(2, 3), E0, E1, E3), CHANGED),
    # read
    Case("a record", parked, lambda s: s.read, OK),
    Case("none", nothing, lambda s: s.read, Verdict.MISSING),
]

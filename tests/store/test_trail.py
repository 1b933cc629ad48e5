"""The trail of a record, in all stores: what moved the call, its round and epoch then, and the node that wrote it."""

import pytest

from framehold_core.ids import Incarnation
from framehold_core.requests import Commit, Evidence, Finish, Request, Seen, Verdict
from framehold_core.trail import KEPT, Moved, TrailStep
from framehold_core.value import replace
from framehold_store import Store
from framehold_store.codec import _read_trail
from tests.store.calls import E0, E1, E2, E3, PLAIN, TTL, Story, batch, fence
from tests.store.server import RedisServer

pytestmark = pytest.mark.anyio
FIRST, NEXT = TrailStep(Moved.PARKED, 1, 1, "node-1", 0.0, 0.25), TrailStep(Moved.PARKED, 2, 1, "node-1", 0.0, 90.5)


async def trail(store: Store, story: Story, *requests: Request) -> list[TrailStep]:
    """The trail after `requests`, without its instants."""
    for request in requests:
        assert (await store.run(request)).verdict in (Verdict.OK, Verdict.LOST)
    reply = await store.run(story.read)
    assert reply.stored is not None
    return [replace(step, at=0.0) for step in reply.stored.record.trail]


def begun(story: Story) -> tuple[Commit, Commit]:
    """Two rounds on one node."""
    return replace(story.ask, ran=0.25), replace(story.ask_again, ran=90.5)


async def test_a_trail_tells_a_whole_life_across_nodes(store: Store) -> None:
    """Also after the call has ended, and its journal is gone."""
    story, history = Story(), (E0, E1)
    released = replace(story.release, fence=fence(2, 2, 3, "node-2", "inc-3"))
    last = fence(3, 3, 4, "node-3", "inc-9")
    steps = await trail(
        store,
        story,
        *begun(story),
        story.claim,
        replace(story.verify, fence=fence(2, 2, 2, "node-2", "inc-9"), incarnation=Incarnation("inc-3")),
        released,
        story.claims(Seen(3, "", ""), Evidence.RELEASED, "node-3"),
        replace(story.ask_again, fence=fence(2, 2, 4, "node-3", "inc-9"), batch=batch(history, E2), answered=None),
        replace(story.finish, fence=last, answered=None, ran=1.5),
    )
    assert steps == [
        FIRST,
        NEXT,
        TrailStep(Moved.CLAIMED, 2, 2, "node-2", 0.0),
        TrailStep(Moved.VERIFIED, 2, 3, "node-2", 0.0),
        TrailStep(Moved.RELEASED, 2, 3, "node-2", 0.0),
        TrailStep(Moved.CLAIMED, 2, 4, "node-3", 0.0),
        TrailStep(Moved.PARKED, 3, 4, "node-3", 0.0),
        TrailStep(Moved.FINISHED, 3, 4, "node-3", 0.0, 1.5),
    ]


async def test_a_step_is_stamped_by_the_stores_clock(store: Store) -> None:
    """The step has the instant of the record."""
    story = Story()
    await store.run(story.ask)
    await store.run(story.claim)
    reply = await store.run(story.read)
    assert reply.stored is not None
    first, last = (step.at for step in reply.stored.record.trail)
    assert first == pytest.approx(reply.stored.record.created, abs=1e-6)
    assert first <= last == pytest.approx(reply.stored.record.expires - TTL, abs=1e-6)


async def test_a_claim_that_is_granted_brings_its_own_step(store: Store) -> None:
    """The new owner sees in one reply where the call has been."""
    story = Story()
    await store.run(story.ask)
    reply = await store.run(story.claim)
    assert reply.stored is not None
    assert [step.step for step in reply.stored.record.trail] == [Moved.PARKED, Moved.CLAIMED]


async def test_the_step_of_a_claim_says_whether_kept_code_goes_on(store: Store) -> None:
    story = Story()
    await store.run(story.ask)
    reply = await store.run(replace(story.claim, kept=True))
    assert reply.stored is not None
    assert [(step.step, step.kept) for step in reply.stored.record.trail] == [
        (Moved.PARKED, False),
        (Moved.CLAIMED, True),
    ]


async def test_an_effect_leaves_no_step(store: Store) -> None:
    """The journal has it."""
    story = Story()
    asked = replace(story.ask, ran=0.25)
    assert await trail(store, story, asked, story.intent, story.result) == [FIRST]
    other = Story()
    assert await trail(store, other, other.first_intent) == []


async def test_a_loss_is_the_last_step_of_whoever_found_it(store: Store) -> None:
    story = Story(PLAIN)
    steps = await trail(store, story, *begun(story), story.claim)
    assert steps == [FIRST, NEXT, TrailStep(Moved.LOST, 2, 1, "node-2", 0.0)]


async def test_a_heal_keeps_what_the_store_still_knows(store: Store) -> None:
    """The steps that the store forgot are gone: no frame has them."""
    story = Story()
    asked = replace(story.ask, ran=0.25)
    healed = story.heals(Seen(1, "node-1", "inc-1"), fence(2, 3), E0, E1, E2)
    await store.run(asked)
    before = await store.run(story.read)
    assert await trail(store, story, healed) == [FIRST, TrailStep(Moved.HEALED, 2, 2, "node-1", 0.0)]
    after = await store.run(story.read)
    assert before.stored and after.stored
    assert after.stored.record.trail[0] == before.stored.record.trail[0]
    parked = replace(story.ask_again, fence=fence(2, 3, 2), batch=batch((E0, E1, E2), E3), answered=None, ran=90.5)
    assert (await trail(store, story, parked))[2:] == [TrailStep(Moved.PARKED, 3, 2, "node-1", 0.0, 90.5)]


async def test_a_heal_of_what_is_gone_begins_a_trail(store: Store) -> None:
    story = Story()
    assert await trail(store, story, story.heals(None, fence(2, 3), E0, E1, E2)) == [
        TrailStep(Moved.HEALED, 2, 2, "node-1", 0.0)
    ]


async def test_a_write_that_is_sent_again_leaves_one_step(store: Store) -> None:
    """The first that arrived, whatever a later one says of its duration."""
    story = Story()
    asked, again = begun(story)
    ended = replace(story.finish, fence=fence(2, 2), answered=None)
    requests: tuple[Commit | Finish, ...] = (asked, again, ended)
    for request in requests:
        assert (await store.run(request)).verdict is Verdict.OK
        steps = await trail(store, story)
        assert (await store.run(replace(request, ran=7.0))).verdict is Verdict.ALREADY
        assert await trail(store, story) == steps


async def test_a_trail_keeps_its_newest_steps_in_order(store: Store) -> None:
    """I9 of docs/protocol.md, and a heal in the middle finds them as they are."""
    story = Story()
    await store.run(story.ask)
    wanted = [1]
    for epoch in range(1, KEPT + 8):
        owner = fence(1, 1, epoch, inc=f"inc-{epoch}")
        verified = replace(story.verify, fence=owner, incarnation=Incarnation(f"inc-{epoch + 1}"))
        assert (await store.run(verified)).verdict is Verdict.OK
        wanted.append(epoch + 1)
    assert [step.epoch for step in await trail(store, story)] == wanted[-KEPT:]
    seen = Seen(epoch + 1, "node-1", f"inc-{epoch + 1}")
    steps = await trail(store, story, story.heals(seen, fence(1, 3, epoch + 1, inc=seen.incarnation), E0, E1, E2))
    assert [step.epoch for step in steps] == [*wanted[1 - KEPT :], epoch + 2]
    assert steps[-1].step is Moved.HEALED


async def test_a_call_that_begins_anew_has_a_trail_of_its_own(store: Store) -> None:
    """Nothing of an expired record goes into the next one of its name."""
    story = Story()
    await store.run(replace(story.ask, ttl=0.05))
    while (await store.run(story.read)).verdict is Verdict.OK:
        pass
    assert await trail(store, story, replace(story.ask, ran=0.25)) == [FIRST]


@pytest.mark.parametrize("store", ["redis"], indirect=True)
async def test_a_step_costs_a_parked_call_few_bytes(store: Store, shared_server: RedisServer, namespace: str) -> None:
    """Redis keeps a hash compact as long as no value of it is longer than 64 bytes; a trail in one field would be, from
    the second round on, and the record several times as large."""
    story = Story()
    await trail(store, story, *begun(story), story.claim)
    with shared_server.client() as client:
        key = f"fh:{namespace}:{{{story.call}}}:r"
        assert client.object("encoding", key) == b"listpack"
        assert max(len(line) for line in client.hmget(key, "s:2", "s:3", "s:4")) <= 40


LINE = "c 3 2 1700000000123 250 node-1"
READ = TrailStep(Moved.CLAIMED, 3, 2, "node-1", 1_700_000_000.123, 0.25)
BEFORE = "p 3 1 1000 0 node-1"


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({}, ()),
        ({"s:5": LINE}, (READ,)),
        ({"s:5": LINE, "s:4": BEFORE}, (TrailStep(Moved.PARKED, 3, 1, "node-1", 1.0), READ)),
        (
            {"s:5": LINE, "s:69": f"p {5 + KEPT} 1 1000 0 node-1"},
            (TrailStep(Moved.PARKED, 5 + KEPT, 1, "node-1", 1.0),),
        ),
        ({"s:5": LINE, "s:6": "x" + LINE[1:]}, (READ,)),
        ({"s:5": LINE, "s:6": LINE.replace("250", "-1")}, (READ,)),
        ({"s:5": LINE, "s:6": LINE.replace("250", "nan")}, (READ,)),
        ({"s:5": LINE, "s:6": LINE.replace("250", "\u0665")}, (READ,)),
        ({"s:5": LINE, "s:6": LINE.replace("250", "9" * 5000)}, (READ,)),
        ({"s:5": LINE, "s:6": LINE + "\n" + LINE}, (READ,)),
        ({"s:5": LINE, "strategy": LINE, "a:1": LINE}, (READ,)),
    ],
    ids=[
        *("none, of an earlier release", "one", "in whatever order they come", "one that is too old"),
        *("a step of a newer release", "below nothing", "no number", "other digits", "an endless number", "two in one"),
        "other fields",
    ],
)
def test_what_of_a_trail_can_not_be_read_is_left_out(fields: dict[str, str], steps: tuple[TrailStep, ...]) -> None:
    """It is there to look at: no call is refused for it."""
    assert _read_trail(fields) == steps

"""The trail of a record as Redis holds it; its steps are held to core by `test_contract`."""

import pytest

from framehold_core.trail import KEPT, Moved, TrailStep
from framehold_core.value import replace
from framehold_store import Store
from framehold_store.codec import _read_trail
from tests.kit.redis_server import RedisServer
from tests.store.calls import Story


@pytest.mark.anyio
@pytest.mark.parametrize("store", ["redis"], indirect=True)
async def test_a_step_costs_a_parked_call_few_bytes(store: Store, shared_server: RedisServer, namespace: str) -> None:
    """Redis keeps a hash compact as long as no value of it is longer than 64 bytes; a trail in one field would be, from
    the second round on, and the record several times as large."""
    story = Story()
    for request in (replace(story.ask, ran=0.25), replace(story.ask_again, ran=90.5), story.claim):
        await store.run(request)
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

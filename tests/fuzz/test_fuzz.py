"""Each part of the fuzz for some seconds, with new seeds each day; `make fuzz` plays longer."""

from __future__ import annotations

import time
from random import Random
from unittest import mock

import pytest

from tests.kit.redis_server import RedisServer

from . import front, readers, rounds, store, today
from .bodies import spoiled
from .guided import seeds
from .guided.targets import LONGEST, TARGETS, checked

SECONDS = 10.0


def test_nothing_is_smuggled_past_a_router() -> None:
    """No node gets anything but whole requests in one form, and whoever else accepts one takes it for the same."""
    done = front.run(today(), SECONDS)
    assert done.found == [] and done.tried > 200


def test_router_and_node_read_each_body_as_the_sdk_does() -> None:
    done = readers.run(today(), SECONDS)
    assert done.found == [] and done.tried > 300


def test_a_fleet_outlives_whatever_stands_in_its_store() -> None:
    """No node ends, nobody hears of an exception, and a call that nobody lies about completes."""
    done = store.run(today(), SECONDS)
    assert done.found == [] and done.tried > 1


@pytest.mark.anyio
@pytest.mark.fleet
async def test_rounds_say_what_the_sdk_says(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Behind the router, behind HAProxy, at each of two nodes, and at one that `uvicorn` serves."""
    async with rounds.positions(tmp_path_factory.mktemp("fuzz"), redis) as at:
        done = await rounds.play(today(), SECONDS, at)
    assert done.found == [] and done.tried > 20


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_keeps_its_promise(name: str) -> None:
    """Of what this release and earlier ones wrote it accepts something; the rest is made of that, without looking at
    what it reaches: `make fuzz` looks."""
    draw, known, target = Random(today()), seeds.of(name), TARGETS[name]
    with mock.patch("framehold_store.pickles.loads") as unpickled:
        assert sum(target(seed) for seed in known)
        for seed in known[:5]:
            for long in seeds.stretched(seed):
                checked(target, long)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            target(spoiled(draw, draw.choice(known))[:LONGEST])
    assert not unpickled.called

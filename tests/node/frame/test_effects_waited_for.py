"""What an effect comes to, and how it is waited for."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from framehold.frame.once import run_and_pack, wait_for_outcome
from framehold_core.errors import InDoubt
from framehold_store.values import PackedResult, Values
from tests.kit.effects import Effects, failure
from tests.kit.engine import turns

pytestmark = pytest.mark.anyio

VALUES = Values(pickle=False, limit=1 << 10)


# Who waits


class Looked(asyncio.Future[PackedResult]):
    """An outcome that is not looked at without a pause."""

    times = 0

    def done(self) -> bool:
        self.times += 1
        assert self.times < 100
        return super().done()


async def test_who_is_cancelled_leaves_when_the_outcome_is_known() -> None:
    outcome = Looked(loop=asyncio.get_running_loop())
    waiting = asyncio.create_task(wait_for_outcome(outcome))
    for why in ("first", "again"):
        await turns(3)
        waiting.cancel(why)
    await turns(3)
    assert not waiting.done()
    outcome.set_result(PackedResult("json", b"1"))
    with pytest.raises(asyncio.CancelledError, match="again"):
        await waiting


@pytest.mark.parametrize("times", [1, 2], ids=["cancelled", "cancelled again"])
async def test_who_is_cancelled_leaves_at_once_where_the_frame_is_gone(times: int) -> None:
    outcome, gone = asyncio.get_running_loop().create_future(), list[bool]()
    waiting = asyncio.create_task(wait_for_outcome(outcome, lambda: bool(gone)))
    for number in range(times):
        await turns(3)
        assert not waiting.done()
        gone[:] = [True] * (number + 1 == times)
        waiting.cancel()
    await turns(3)
    has_left = waiting.done()
    outcome.cancel()
    assert has_left and waiting.cancelled()


# What it came to


async def test_an_effect_that_is_cut_off_came_to_nothing() -> None:
    running = asyncio.create_task(run_and_pack(VALUES, "k", Effects().held))
    await turns(3)
    running.cancel()
    assert isinstance(await failure(running), asyncio.CancelledError)


async def test_an_effect_that_breaks_off_from_within_is_in_doubt() -> None:
    async def breaks_off() -> None:
        raise asyncio.CancelledError

    packed = await run_and_pack(VALUES, "k", breaks_off)
    assert isinstance(VALUES.unpack(*packed).error, InDoubt)


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["Ctrl-C raises", "SIGINT is handled"])
def raises(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether Ctrl-C raises KeyboardInterrupt here."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_an_effect_does_not_end_the_process(kind: type[BaseException], raises: bool) -> None:
    """Ctrl-C does, in a process that does not handle it: it is raised in whatever code runs."""

    async def ends() -> None:
        raise kind

    if raises and kind is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            await run_and_pack(VALUES, "k", ends)
    else:
        packed = await run_and_pack(VALUES, "k", ends)
        assert kind.__name__ in str(VALUES.unpack(*packed).error)

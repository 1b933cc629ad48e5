"""One read that many readers share: which result a reader gets when reads fail, or overlap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from framehold_fleet.members.membership import Fleet
from framehold_router.collect.shared_look import SharedLook
from tests.router.cast import member


class Reads:
    """Reads that end as a test says, each of a fleet of its own or of the last one."""

    def __init__(self) -> None:
        self.made: list[asyncio.Future[int]] = []
        self.fleet = Fleet.of([])
        self.shared = SharedLook(lambda: self.fleet, self._look, "a read of the tests")

    async def _look(self) -> int:
        self.made.append(asyncio.get_running_loop().create_future())
        return await self.made[-1]

    def changes(self) -> None:
        """The members of the fleet change."""
        self.fleet = Fleet.of([member(f"n{len(self.made)}", "http://10.0.0.1:80")])

    async def asked(self, ends: Callable[[asyncio.Future[int]], None] | None = None) -> asyncio.Task[int]:
        """A reader, and the end of the last read if a test says one."""
        reader = asyncio.create_task(self.shared.result())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if ends is not None:
            ends(self.made[-1])
            await asyncio.wait((reader,))
        return reader


def fails(read: asyncio.Future[int]) -> None:
    read.set_exception(RuntimeError("a bug"))


@pytest.fixture
async def reads() -> AsyncIterator[Reads]:
    made = Reads()
    yield made
    await made.shared.close()


async def test_a_read_is_used_again_while_it_is_fresh_unless_it_failed(reads: Reads) -> None:
    """Also a read that failed while the one before it would still be fresh."""
    assert (await reads.asked(lambda read: read.set_result(1))).result() == (await reads.shared.result()) == 1
    reads.changes()
    assert (await reads.asked(fails)).exception() is not None
    assert (await reads.asked(lambda read: read.set_result(3))).result() == 3
    assert len(reads.made) == 3


async def test_a_read_that_ends_late_makes_no_later_one_fresh(reads: Reads) -> None:
    late = await reads.asked()
    reads.changes()
    assert (await reads.asked(fails)).exception() is not None
    reads.made[0].set_result(1)
    assert await late == 1
    assert (await reads.asked(lambda read: read.set_result(3))).result() == 3

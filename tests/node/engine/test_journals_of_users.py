"""What is counted for a user of what the store keeps of their calls: as long as this node writes it, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from framehold.engine.replies import Ended, Parked
from framehold.frame.frame import Frame
from framehold_core.effects import Reason
from framehold_core.errors import StoreUnavailable
from framehold_core.events import Evict
from framehold_core.requests import Claim, Reply, Request, Verdict
from framehold_core.value import replace
from tests.kit.effects import SOON
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question, reason

pytestmark = pytest.mark.anyio
Done = Callable[[Reply | StoreUnavailable], None]
ANN = "ann"


class OfAnn(ScriptHandler):
    principal: str | None = ANN


async def asks(frame: Frame) -> str:
    return str(await frame.ask(question("q")))


class Counted(Engine):
    @property
    def held(self) -> int:
        """The bytes that count for Ann."""
        return self.runtime.table.journals.held(ANN)

    async def park(self, **marks: Any) -> Parked:
        answer = await self.runtime.start(OfAnn(asks, **marks), Carrier())
        assert isinstance(answer, Parked), answer
        return answer

    async def answer(self, parked: Parked) -> Any:
        handler = OfAnn(asks, reentrant=True)
        async with asyncio.timeout(SOON):
            return await self.runtime.retry(
                self.claims(parked), dict.fromkeys(parked.questions, "a"), handler, Carrier()
            )

    def next_reply(self, change: Callable[[Reply], Reply]) -> list[int]:
        """The store's next reply is changed so. What counts for Ann right after it."""
        submit, found = self.store.submit, list[int]()

        def changed(request: Request, done: Done) -> None:
            self.store.submit = submit
            submit(request, lambda reply: arrived(done, reply))

        def arrived(done: Done, reply: Reply | StoreUnavailable) -> None:
            assert isinstance(reply, Reply)
            done(change(reply))
            found.append(self.held)

        self.store.submit = changed
        return found


@pytest.fixture
async def here() -> AsyncIterator[Counted]:
    async with engine(shared=True) as made:
        yield Counted(made.runtime, made.store)


async def test_a_journal_counts_until_its_call_ends(here: Counted) -> None:
    parked = await here.park()
    assert here.held > 0
    assert isinstance(await here.answer(parked), Ended) and here.held == 0


@pytest.mark.parametrize(
    ("verdict", "counts"), [(Verdict.FENCED, False), (Verdict.LOST, False), (Verdict.BEHIND, True)]
)
async def test_what_another_node_has_or_nobody_counts_no_longer(here: Counted, verdict: Verdict, counts: bool) -> None:
    """A record that only seems to be behind is still this node's: it is looked at."""
    parked = await here.park()
    found = here.next_reply(lambda reply: Reply(verdict))
    await here.answer(parked)
    assert (found[0] > 0) is counts


async def test_a_call_that_waits_in_its_token_counts_nothing(here: Counted) -> None:
    """The store keeps nothing of it."""
    await here.park(strategy="replay", reentrant=True)
    assert here.held == 0


async def test_a_record_that_was_altered_when_it_was_claimed(here: Counted) -> None:
    """It can't be read, so nothing of it is counted, and its client is told."""
    parked = await here.park(reentrant=True)
    slot = here.runtime.table.get(parked.call)
    assert slot is not None
    here.runtime.feed(slot, Evict())
    before, submit = here.held, here.store.submit

    def altered(reply: Reply) -> Reply:
        assert reply.stored is not None
        record = reply.stored.record
        return replace(reply, stored=replace(reply.stored, record=replace(record, head=replace(record.head, args="x"))))

    def changed(request: Request, done: Done) -> None:
        is_claim = isinstance(request, Claim)
        submit(request, lambda reply: done(altered(reply) if is_claim and isinstance(reply, Reply) else reply))

    here.store.submit = changed
    assert reason(await here.answer(parked)) is Reason.UNREADABLE and here.held == before

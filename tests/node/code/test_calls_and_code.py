"""Which writes of a call wait until the store keeps the code of its handler, and which code a call names
(docs/protocol.md, rule 28)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

import framehold
from framehold.engine.heartbeat import Heartbeat
from framehold.engine.replies import Ended, Parked
from framehold.engine.token_claims import mint
from framehold.frame.frame import Frame
from framehold.sdk.present_call import Present, current
from framehold_core.events import Evict
from framehold_core.ids import CallId
from framehold_core.pauses import Loss, Tools
from framehold_core.requests import Head, Read, Reply, Request, Stored, Verdict
from framehold_core.value import replace
from tests.kit.effects import SOON
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question, turns

pytestmark = pytest.mark.anyio
CODE, OTHER = "c" * 32, "d" * 32


class Coded(ScriptHandler):
    """A marked handler whose code can be kept, and a call that began with `head`."""

    code = CODE

    def __init__(self, questions: int, head: str = CODE, *, reentrant: bool = True) -> None:
        self._questions, self._head = questions, head
        super().__init__(self._asks, reentrant=reentrant)

    async def _asks(self, frame: Frame) -> str:
        current.set(Present(None, None, frame))  # type: ignore[arg-type]  # it asks for no session
        if not self._questions:
            await framehold.once("k", asyncio.sleep, 0)
        for number in range(self._questions):
            await frame.ask(question(f"{number}?"))
        return "done"

    def describe(self) -> dict[str, str]:
        return {**super().describe(), "code": self._head}

    def written(self) -> bytes:
        return b'{"rebound": []}\n'


class Kept(Engine):
    """A node whose store keeps code when `takes` is set; `codes` are those that it was asked to keep."""

    def __init__(self, made: Engine) -> None:
        super().__init__(made.runtime, made.store)
        self.codes, self.takes, self._losses = list[str](), asyncio.Event(), count(1)
        self.store.keep_code = self._keep_code

    async def _keep_code(self, digest: str, code: bytes, ttl: float) -> None:
        self.codes.append(digest)
        await self.takes.wait()

    async def lose_all(self) -> None:
        """The next read of the paused tools says that the store has lost what it had."""
        self.codes.clear()
        at = next(self._losses)

        async def tools() -> Tools:
            return Tools(loss=Loss(float(at), 0.0, True))

        self.store.tools = tools
        assert isinstance(self.runtime.heartbeat, Heartbeat)
        self.runtime.heartbeat.on_renewed()
        await turns(50)

    async def parked_call(self, handler: Coded) -> Parked:
        answer = await self.runtime.start(handler, Carrier())
        assert isinstance(answer, Parked), answer
        return answer


@pytest.fixture
async def here() -> AsyncIterator[Kept]:
    async with engine(shared=True) as made:
        yield Kept(made)


async def test_a_token_goes_out_when_its_code_is_kept(here: Kept) -> None:
    starting = asyncio.create_task(here.parked_call(Coded(1)))
    await turns(50)
    assert here.codes == [CODE] and not starting.done()
    here.takes.set()
    parked = await starting
    ended = await here.retry(parked, dict.fromkeys(parked.questions, "yes"))
    assert isinstance(ended, Ended) and here.codes == [CODE]


async def test_an_outcome_waits_for_no_code(here: Kept) -> None:
    """Nobody enters its handler again. Its effect has made a record of it."""
    async with asyncio.timeout(SOON):
        ended = await here.runtime.start(Coded(0), Carrier())
    assert isinstance(ended, Ended) and here.codes == [] and here.store.request_counts["finish"] == 1


async def test_a_call_of_other_code_waits_for_none(here: Kept) -> None:
    """What this process has could be kept, and is not what the call began with."""
    async with asyncio.timeout(SOON):
        await here.parked_call(Coded(1, OTHER))
    assert here.codes == []


async def test_a_call_that_is_looked_up_has_no_code_to_keep(here: Kept) -> None:
    """A loss is met meanwhile: whose code the request would enter is not known yet."""
    here.takes.set()
    parked = await here.parked_call(Coded(1))
    slot = here.runtime.table.get(parked.call)
    assert slot is not None
    here.runtime.feed(slot, Evict())
    reads, run = asyncio.Event(), here.store.run

    async def later(request: Request) -> Reply:
        await reads.wait()
        return await run(request)

    here.store.run = later
    retry = here.runtime.retry(here.claims(parked), dict.fromkeys(parked.questions, "yes"), Coded(1), Carrier())
    retrying = asyncio.create_task(retry)
    await turns(50)
    await here.lose_all()
    assert here.codes == []
    reads.set()
    assert isinstance(await retrying, Ended)


async def test_after_a_loss_the_code_of_each_frame_that_can_be_entered_again_is_kept(here: Kept) -> None:
    here.takes.set()
    await here.parked_call(Coded(1, "", reentrant=False))
    evicted = await here.parked_call(Coded(1))
    slot = here.runtime.table.get(evicted.call)
    assert slot is not None
    here.runtime.feed(slot, Evict())
    await here.lose_all()
    assert here.codes == []
    await here.parked_call(Coded(1))
    await here.lose_all()
    assert here.codes == [CODE]


SPOILT: dict[str, Callable[[Kept, CallId, Stored, Stored], Stored | None]] = {
    "its own": lambda here, call, own, other: own,
    "of code that somebody else named": lambda here, call, own, other: _with(own, _of_other(own)),
    "that of another call": lambda here, call, own, other: _with(own, other.record.head),
    "sealed for it, and not named by its token": lambda here, call, own, other: _with(
        own, replace(_of_other(own), seal=here.runtime.payloads.sealer.head_seal(call, _of_other(own)))
    ),
    "gone": lambda here, call, own, other: None,
}


def _of_other(stored: Stored) -> Head:
    return replace(stored.record.head, code=OTHER)


def _with(stored: Stored, head: Head) -> Stored:
    return replace(stored, record=replace(stored.record, head=head))


@pytest.mark.parametrize("what", SPOILT)
async def test_code_is_loaded_that_the_fleet_has_sealed_for_the_call(here: Kept, what: str) -> None:
    """For a handler that this process lacks. Whoever writes the store can't choose other code of the fleet."""
    here.takes.set()
    parked, other = await here.parked_call(Coded(1)), await here.parked_call(Coded(1, OTHER))
    run, asked = here.store.run, list[str]()

    async def spoilt(request: Request) -> Reply:
        own, others = (await run(request)).stored, (await run(Read(other.call))).stored
        assert own is not None and others is not None
        return Reply(Verdict.OK, stored=SPOILT[what](here, parked.call, own, others))

    async def code(digest: str) -> bytes | None:
        asked.append(digest)
        return None

    here.store.run, here.store.code = spoilt, code
    held = here.runtime.heartbeat.lease
    assert await here.runtime.kept_code(mint(parked, held.node, held.boot)) is None
    assert asked == ([CODE] if what == "its own" else [])

"""Many calls with random ends: what a node counts is what its clients and its operator saw."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from mcp.server.mcpserver import Context

from tests.node.nodes import KEY
from tests.node.operating import TOKEN, Operator, call_of, marked, unmarked
from tests.node.scraping import scraped
from tests.node.stage import Stage, Word, said, stage
from tests.processes import until
from tests.wire import Reply

pytestmark = pytest.mark.anyio
TOOLS = ("marked", "unmarked", "fails", "plain")


async def fails(ctx: Context) -> str:
    """Asks, and raises."""
    raise ValueError(said(await ctx.elicit("one?", Word)))


async def plain() -> str:
    """Asks nothing."""
    return "plain"


class Mix:
    """Clients and an operator that do one thing after another, and note what came of it."""

    def __init__(self, at: Stage, operator: Operator, seed: int) -> None:
        self.at, self.operator, self.random = at, operator, random.Random(seed)
        self.ends: Counter[tuple[str, str]] = Counter()
        self.seen: Counter[str] = Counter()
        self.open: dict[str, tuple[str, Reply]] = {}
        """Calls that wait for an answer, by id: the tool, and its last questions."""
        self.past: list[tuple[str, Reply, str]] = []
        """Rounds that were answered: the tool, its questions, and the answer."""
        self.dropped: set[str] = set()
        """Calls whose frames were dropped, by id, until somebody brings a token."""

    def note(self, tool: str, reply: Reply) -> Reply:
        if "error" in reply.message:
            end = "refused"
        elif reply.result["resultType"] == "input_required":
            end = "asked"
        else:
            end = "failed" if reply.result.get("isError") else "ended"
        self.ends[tool, end] += 1
        return reply

    async def start(self) -> None:
        tool = self.random.choice(TOOLS)
        reply = self.note(tool, await self.at.call(tool))
        if "inputRequests" in reply.result:
            self.open[call_of(reply.token)] = tool, reply

    async def answer(self) -> None:
        """A round's answer, sometimes from several requests at a time."""
        tool, held = self.open.pop(call := self.random.choice(list(self.open)))
        word, copies = self.random.choice("xyz"), self.random.choice((1, 1, 1, 2, 3))
        rounds = [self.at.retry(tool, held.token, held.accept(word=word)) for _ in range(copies)]
        answers = [self.note(tool, reply) for reply in await asyncio.gather(*rounds)]
        assert len({str(reply.result.get("content")) for reply in answers}) == 1
        self.seen["again"] += copies - 1
        self.seen["replays"] += call in self.dropped
        self.dropped.discard(call)
        if "inputRequests" in answers[0].result:
            self.open[call] = tool, answers[0]
        self.past.append((tool, held, word))

    async def repeat(self) -> None:
        """The same answer once more, or another one, when the round is long over."""
        tool, held, word = self.random.choice(self.past)
        other = self.random.random() < 0.3
        reply = self.note(tool, await self.at.retry(tool, held.token, held.accept(word="other" if other else word)))
        if other:
            self.seen["conflict"] += reply.message.get("error", {}).get("data", {}).get("reason") == "answers_conflict"
        if "error" not in reply.message:
            self.seen["again"] += 1
            # A frame that was dropped is built again for whoever asks.
            self.seen["replays"] += call_of(held.token) in self.dropped
            self.dropped.discard(call_of(held.token))

    async def garble(self) -> None:
        """What is no answer: nothing is taken, and the call waits on."""
        tool, held = self.open[self.random.choice(list(self.open))]
        if call_of(held.token) not in self.dropped:
            reply = await self.at.retry(tool, held.token, {key: {"action": "what?"} for key in held.asked})
            assert "is malformed" in reply.text
            self.ends[tool, "refused"] += 1

    async def evict(self) -> None:
        call = self.random.choice(list(self.open))
        done = (await self.operator.evict(call)).status == 200
        self.seen["evicted"] += done
        if done:
            self.dropped.add(call)

    async def cancel(self) -> None:
        call = self.random.choice(list(self.open))
        if (await self.operator.cancel(call)).status == 200:
            tool, held = self.open.pop(call)
            self.past.append((tool, held, "x"))
            self.seen["cancelled"] += 1

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            able = [self.start, self.start]
            able += [self.answer] * 3 + [self.evict, self.cancel, self.garble] if self.open else []
            able += [self.repeat] if self.past else []
            await self.random.choice(able)()
        while self.open:
            await self.answer()


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_counted_is_what_was_seen(seed: int) -> None:
    async with (
        stage(marked, unmarked, fails, plain, keys=(KEY,), admin_token=TOKEN) as at,
        Operator(at.url) as operator,
    ):
        mix, begin = Mix(at, operator, seed), await scraped(at)
        await mix.run(200)
        end = await scraped(at)
        grown = end.since(begin)
        assert _by(grown, "rounds_total") == {f"{end} {tool}": count for (tool, end), count in mix.ends.items()}
        duplicates = _by(grown, "duplicate_rounds_total")
        assert duplicates.pop("conflict", 0) == mix.seen["conflict"]
        assert sum(duplicates.values()) == mix.seen["again"]
        assert _by(grown, "frame_evictions_total") == {"admin": mix.seen["evicted"]}
        assert _by(grown, "replay_total") == _by(grown, "failovers_total", "marked") == {"marked": mix.seen["replays"]}
        for gauge in ("parked_frames", "inflight_rounds", 'leases{state="parked"}', 'leases{state="running"}'):
            assert end[gauge] == 0, gauge
        runtime: Any = at.runtime
        assert len(runtime.table) == runtime.table.frames == 0
        await until(lambda: not runtime.tasks.cancelling, "the burials")


def _by(grown: dict[str, float], name: str, instead: str = "") -> dict[str, float]:
    """A counter by the values of its labels; `instead` replaces them."""
    labels = ((key.split('"')[1::2], count) for key, count in grown.items() if key.startswith(f"{name}{{"))
    return {instead or " ".join(values): count for values, count in labels}

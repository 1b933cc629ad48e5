"""Makes the dumps: plays every call of the fixtures on nodes of the present code, and takes what the store holds at
each of its rounds."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, NamedTuple

from mcp.server.request_state import AESGCMRequestStateCodec

from framehold_core import token
from framehold_core.ids import CallId, Incarnation, NodeId
from framehold_core.requests import Fence, Release
from tests.compat.dumps import KEY, Client, Dump, answers, node, put, questions, taken
from tests.compat.tools import Life
from tests.processes import until
from tests.store.server import RedisServer
from tests.wire import Reply

FIRST, SECOND = "node-1", "node-2"
LOST = "entered once, stopped at an unknown point after round 1 of its questions"
TOO_LARGE = "its result was too large to be kept"
Dumps = dict[str, Dump]


class Scene(NamedTuple):
    """Where calls are played."""

    redis: RedisServer
    client: Client
    life: Life


class Play:
    """One call from its begin on. `dumps` are its moments so far, under names that begin with `called`."""

    def __init__(self, at: Scene, called: str, tool: str, /, **arguments: Any) -> None:
        self.redis, self.client, self.life = at
        self.called, self.tool, self.arguments = called, tool, arguments
        self.dumps: dict[str, tuple[Dump, int]] = {}
        self.heard: Reply

    async def begin(self, **beside: Any) -> Reply:
        """Its first round; `beside` is what its request brings beside the arguments."""
        params = {"name": self.tool, "arguments": self.arguments, **beside}
        self.heard = await self.client.send("tools/call", params)
        return self.heard

    async def answer(self, *only: str) -> Reply:
        """Answer all that is asked, or only these questions."""
        asked = {key: text for key, text in questions(self.heard).items() if not only or text in only}
        self.heard = await self.client.retry(self.tool, self.heard.token, answers(asked), arguments=self.arguments)
        return self.heard

    def take(self, moment: str, about: str, reply: Reply | None = None) -> None:
        """Keep it as it is now, with the token that it was last asked under, or that of `heard`."""
        at = self.heard if reply is None else reply
        record, journal = taken(self.redis, at.token.split(".")[1]) if at.token.startswith("h1.") else ({}, [])
        dump = Dump(
            about, self.tool, self.arguments, at.token, _minted(at.token), questions(at), "", [], record, journal
        )
        self.dumps[f"{self.called}-{moment}"] = dump, len(self.life.ran)

    def ended(self, end: str = "") -> Dumps:
        """All of its moments, now that it has ended; each is to end as it did, or like `end`."""
        end = end or self.heard.text
        return {name: replace(dump, end=end, ran=self.life.ran[before:]) for name, (dump, before) in self.dumps.items()}


def _minted(wire: str) -> float:
    routed = token.parse(wire)
    assert routed is not None
    minted: float = json.loads(AESGCMRequestStateCodec([KEY]).unseal(routed.sealed))["iat"]
    return minted


async def calls(redis: RedisServer) -> Dumps:
    """Every dump by its name."""
    life, made = Life(), Dumps()
    async with node(redis, FIRST, life) as client:
        at = Scene(redis, client, life)
        for play in (_booked, _in_part, _prefilled, _plain, _large, _brief, _carried, _by_hand, _released):
            made |= await play(at)
        made |= await _running(at, "book", name="Running")
        made |= await _running(at, "charge")
    made |= await _taken_over(redis, made["book-1"])
    made |= await _lost(redis, made["plain-1"])
    made |= _untrailed(made["book-2"])
    return made


async def _booked(at: Scene) -> Dumps:
    play = Play(at, "book", "book", name="Ann")
    await play.begin()
    play.take("1", "parked at its first question, after an entry of every kind and codec")
    await play.answer()
    play.take("2", "parked at two questions from two tasks")
    last = await play.answer()
    play.take("3", "parked at its third round")
    await play.answer()
    play.take("done", "finished; a late duplicate of its last retry", last)
    return play.ended()


async def _in_part(at: Scene) -> Dumps:
    play = Play(at, "part", "book", name="Part")
    await play.begin()
    await play.answer()
    await play.answer("two?")
    play.take("3", "one of the two questions of a round was answered, the other is asked again")
    await play.answer()
    await play.answer()
    return play.ended()


async def _prefilled(at: Scene) -> Dumps:
    play = Play(at, "prefilled", "book", name="Pre")
    await play.begin(inputResponses=answers({"three": "three?"}))
    await play.answer()
    play.take("2", "an answer came with its first request, before anybody was asked")
    await play.answer()
    await play.answer()
    return play.ended()


async def _plain(at: Scene) -> Dumps:
    play = Play(at, "plain", "plain")
    await play.begin()
    play.take("1", "not marked: it is lost with its node")
    await play.answer()
    return play.ended(LOST)


async def _large(at: Scene) -> Dumps:
    play = Play(at, "large", "large")
    asked = await play.begin()
    await play.answer()
    play.take("done", "finished; of its outcome the tombstone keeps the digest", asked)
    return play.ended(TOO_LARGE)


async def _brief(at: Scene) -> Dumps:
    play = Play(at, "brief", "brief")
    await play.begin()
    play.take("1", "its token is valid for as long as its handler says")
    await play.answer()
    return play.ended()


async def _carried(at: Scene) -> Dumps:
    play = Play(at, "replayed", "replayed")
    await play.begin()
    for number in "123":
        play.take(number, f"strategy replay: all of the call is in its token of round {number}")
        await play.answer()
    return play.ended()


async def _by_hand(at: Scene) -> Dumps:
    made = Dumps()
    cases = {
        "state": ((False, "mine"), "an author's own state"),
        "learned": ((True, "mine"), "an author's own state, with what was learned beside it"),
        "stateless": ((True, ""), "no state of the author's, but what was learned"),
    }
    for name, ((learns, state), about) in cases.items():
        play = Play(at, "by-hand", "by_hand", learns=learns, state=state)
        await play.begin()
        play.take(name, f"a handler that parks by hand: {about}")
        await play.answer()
        made |= play.ended()
    return made


async def _running(at: Scene, tool: str, **arguments: Any) -> Dumps:
    """Its node dies in the middle of an effect."""
    play = Play(at, tool, tool, **arguments)
    asked = await play.begin()
    while tool == "book" and "four?" not in asked.messages:
        asked = await play.answer()
    before = len(at.life.ran)
    at.life.may_end.clear()
    last = asyncio.create_task(play.answer())
    await until(lambda: len(at.life.ran) > before, "the effect's begin")
    play.take("running", "its node died while an effect ran: nobody knows whether it has run", asked)
    at.life.may_end.set()
    await last
    # What may be run again is, and what may not is told.
    again = tool == "book"
    made = play.ended("" if again else "ONE: in doubt")
    return {name: replace(dump, ran=["last"] if again else []) for name, dump in made.items()}


async def _released(at: Scene) -> Dumps:
    """Its frame stays with the node that gave it away, so it does not end here."""
    play = Play(at, "released", "book", name="Released")
    await play.begin()
    asked = await play.answer()
    call = CallId(asked.token.split(".")[1])
    record, _ = taken(at.redis, call)
    claim = Fence(NodeId(record["owner"]), Incarnation(record["inc"]), int(record["epoch"]), 2, int(record["n"]))
    await at.client.runtime.store.run(Release(call, claim, 600.0))
    play.take("2", "handed off by a node that drained")
    made = play.ended("Released: ONE TWO THREE FOUR, done; ")
    return {name: replace(dump, ran=["last"]) for name, dump in made.items()}


async def _taken_over(redis: RedisServer, parked: Dump) -> Dumps:
    """The first node is gone; another one takes its call over and parks it again."""
    put(redis, parked)
    life = Life()
    async with node(redis, SECOND, life) as client:
        play = Play(Scene(redis, client, life), "taken-over", "book", **parked.arguments)
        play.heard = await client.go_on(parked)
        play.take("2", "taken over once: its owner is its second")
        await play.answer()
        await play.answer()
        return play.ended()


async def _lost(redis: RedisServer, parked: Dump) -> Dumps:
    """A call that may not be entered again, once that was told."""
    put(redis, parked)
    async with node(redis, SECOND, Life()) as client:
        result = await client.go_on(parked)
        assert LOST in result.text, result.text
    record, journal = taken(redis, parked.call)
    about = "lost, and said so once already"
    return {"plain-lost": replace(parked, about=about, record=record, journal=journal)}


def _untrailed(parked: Dump) -> Dumps:
    """A call as releases parked it that kept no trail."""
    record = {name: value for name, value in parked.record.items() if not name.startswith("s:")}
    assert record != parked.record
    return {"untrailed-2": replace(parked, about="parked when records kept no trail yet", record=record)}

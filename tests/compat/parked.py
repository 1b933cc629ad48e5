"""Makes the dumps: plays every call of the fixtures on nodes of the present code, and takes what the store holds at
each of its rounds."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, NamedTuple

from mcp.server.request_state import AESGCMRequestStateCodec

from framehold_core import token
from tests.compat.dumps import KEY, Client, Dump, answers, node, put, questions, taken
from tests.compat.tools import Life
from tests.kit.client import Reply
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer

LOST = "entered once, stopped at an unknown point after round 1 of its questions"
TOO_LARGE = "its result was too large to be kept"
Dumps = dict[str, Dump]


class Scene(NamedTuple):
    """A call, and what its client does: "." answers all that is asked, "two?" that question alone, and anything else
    takes the call as it is then, under that name. `end` is what its client is to hear at last, if not what it heard."""

    called: str
    tool: str
    arguments: dict[str, Any]
    steps: str
    end: str = ""
    beside: dict[str, Any] = {}  # noqa: RUF012  # never written


SCENES = (
    Scene("book", "book", {"name": "Ann"}, "1 . 2 . 3 . done"),
    Scene("part", "book", {"name": "Part"}, ". two? 3 . ."),
    Scene("prefilled", "book", {"name": "Pre"}, ". 2 . .", beside={"inputResponses": answers({"three": "three?"})}),
    Scene("plain", "plain", {}, "1 .", LOST),
    Scene("large", "large", {}, ". done", TOO_LARGE),
    Scene("brief", "brief", {}, "1 ."),
    Scene("replayed", "replayed", {}, "1 . 2 . 3 ."),
    Scene("by-hand", "by_hand", {"learns": False, "state": "mine"}, "state ."),
    Scene("by-hand", "by_hand", {"learns": True, "state": "mine"}, "learned ."),
    Scene("by-hand", "by_hand", {"learns": True, "state": ""}, "stateless ."),
    Scene("charge", "charge", {}, "running", "ONE: in doubt"),
)


class Play:
    """One scene on a node. `dumps` are its moments so far, and how many effects had run then."""

    def __init__(self, scene: Scene, redis: RedisServer, client: Client, life: Life) -> None:
        self.scene, self.redis, self.client, self.life = scene, redis, client, life
        self.dumps: dict[str, tuple[Dump, int]] = {}
        self.heard: Reply
        self.asked: Reply

    async def play(self) -> Dumps:
        """All of its moments; each is to end as it did."""
        params = {"name": self.scene.tool, "arguments": self.scene.arguments, **self.scene.beside}
        self._hear(await self.client.send("tools/call", params))
        for step in self.scene.steps.split():
            if step == "running":
                await self._interrupted(step)
            elif step == "." or step.endswith("?"):
                await self._answer(step)
            else:
                self._take(step)
        end, ran = self.scene.end or self.heard.text, self.life.ran
        return {name: replace(dump, end=end, ran=ran[before:]) for name, (dump, before) in self.dumps.items()}

    def _hear(self, reply: Reply) -> None:
        self.heard = reply
        if reply.result["resultType"] == "input_required":
            self.asked = reply

    async def _answer(self, only: str = ".") -> None:
        found = {key: text for key, text in questions(self.asked).items() if only in (".", text)}
        arguments = self.scene.arguments
        self._hear(await self.client.retry(self.scene.tool, self.asked.token, answers(found), arguments=arguments))

    async def _interrupted(self, step: str) -> None:
        """Its node dies in the middle of an effect: nobody knows whether that has run, so it runs no more."""
        self.life.may_end.clear()
        before = len(self.life.ran)
        last = asyncio.create_task(self._answer())
        await until(lambda: len(self.life.ran) > before, "the effect's begin")
        self._take(step)
        self.life.may_end.set()
        await last

    def _take(self, moment: str) -> None:
        at, scene = self.asked, self.scene
        record, journal = taken(self.redis, at.token.split(".")[1]) if at.token.startswith("h1.") else ({}, [])
        minted = _minted(at.token)
        dump = Dump(scene.tool, scene.arguments, at.token, minted, questions(at), "", [], record, journal)
        self.dumps[f"{scene.called}-{moment}"] = dump, len(self.life.ran)


def _minted(wire: str) -> float:
    routed = token.parse(wire)
    assert routed is not None
    minted: float = json.loads(AESGCMRequestStateCodec([KEY]).unseal(routed.sealed))["iat"]
    return minted


async def calls(redis: RedisServer) -> Dumps:
    """Every dump by its name."""
    life, made = Life(), Dumps()
    async with node(redis, "node-1", life) as client:
        for scene in SCENES:
            made |= await Play(scene, redis, client, life).play()
    async with node(redis, "node-2", Life()) as client:
        put(redis, made["plain-1"])
        assert LOST in (await client.go_on(made["plain-1"])).text
        record, journal = taken(redis, made["plain-1"].call)
    lost = replace(made["plain-1"], record=record, journal=journal)
    return made | {"plain-lost": lost} | _derived(made["book-2"])


def _derived(parked: Dump) -> Dumps:
    """A call that a draining node has handed off, and one as releases parked it that kept no trail."""
    given = {**parked.record, "state": "released", "owner": "", "inc": ""}
    untrailed = {name: value for name, value in parked.record.items() if not name.startswith("s:")}
    return {"released-2": replace(parked, record=given), "untrailed-2": replace(parked, record=untrailed)}

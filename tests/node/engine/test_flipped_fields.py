"""Each field of each stored value is changed by somebody who writes the store and lacks the keys. A call whose values
were changed ends as it would have, or its client hears by name why it does not; a call beside it ends as ever.

Nodes share a process and a Redis. A node is killed by putting its calls back as they stood before it ended."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.sdk.replies import REASON
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.outages import insist
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said, server_of

pytestmark = pytest.mark.anyio

PATIENCE = 4.0
"""Seconds for which a client comes again before the store is put right: longer than nodes doubt an end of a lease."""
SIDE_BY_SIDE = 24
"""Calls that are begun and answered at once."""
LOSSES = {"lost", "forgotten", "stuck", "unreadable", "diverged", "conflict", "already-answered", "in doubt"}
"""How a client is told that its call does not go on."""
ENTERED: Counter[str] = Counter()
CHARGED: Counter[str] = Counter()


def _charge(of: str) -> str:
    CHARGED[of] += 1
    return "charged"


async def _pay(of: str, ctx: Context) -> str:
    ENTERED[of] += 1
    first = said(await ctx.elicit("One?", Word))
    paid = await framehold.once("pay", lambda: _charge(of))
    return f"{of} {first} {paid} {said(await ctx.elicit('Two?', Word))}"


@framehold.reentrant
async def marked(of: str, ctx: Context) -> str:
    return await _pay(of, ctx)


async def unmarked(of: str, ctx: Context) -> str:
    return await _pay(of, ctx)


Keys = tuple[str, str]
Change = Callable[[Any, Keys, Keys, dict[str, bytes]], object]
"""Changes the record and the journal of a call. It gets those of another call, and what both were a round ago."""


class Case(NamedTuple):
    name: str
    change: Change | None


def _values(name: str) -> dict[str, Change]:
    """What is put in the place of a field of a record."""

    def put(make: Callable[[Any, Keys, Keys], bytes | None]) -> Change:
        def change(at: Any, own: Keys, other: Keys, before: dict[str, bytes]) -> None:
            value = make(at, own, other)
            at.hdel(own[0], name) if value is None else at.hset(own[0], name, value)

        return change

    return {
        "bytes": put(lambda at, own, other: b"\xff\x00"),
        "a word": put(lambda at, own, other: b"many"),
        "seven": put(lambda at, own, other: b"7"),
        "another's": put(lambda at, own, other: at.hget(other[0], name)),
        "flipped": put(lambda at, own, other: flipped(at.hget(own[0], name) or b"x")),
        "none": put(lambda at, own, other: None),
    }


def flipped(value: bytes) -> bytes:
    return bytes([(value or b"x")[0] ^ 1]) + value[1:]


def _entries(place: int, element: int) -> dict[str, Change]:
    """What is put in the place of an element of an entry of a journal."""

    def put(make: Callable[[Any], Any]) -> Change:
        def change(at: Any, own: Keys, other: Keys, before: dict[str, bytes]) -> None:
            entry = json.loads(at.lindex(own[1], place))
            entry[element] = make(entry[element])
            at.lset(own[1], place, json.dumps(entry, separators=(",", ":")))

        return change

    return {"a word": put(lambda _: "many"), "seven": put(lambda _: 7), "none": put(lambda _: None)}


def _whole(place: int) -> dict[str, Change]:
    return {
        "bytes": lambda at, own, other, before: at.lset(own[1], place, b"\xff"),
        "flipped": lambda at, own, other, before: at.lset(own[1], place, flipped(at.lindex(own[1], place))),
        "another's": lambda at, own, other, before: at.lset(own[1], place, at.lindex(other[1], place)),
        "the first": lambda at, own, other, before: at.lset(own[1], place, at.lindex(own[1], 0)),
    }


def _exchanged(*places: int) -> Change:
    def change(at: Any, own: Keys, other: Keys, before: dict[str, bytes]) -> None:
        for place in places:
            at.restore(own[place], 600_000, at.dump(other[place]), replace=True)

    return change


def _replayed(*places: int) -> Change:
    def change(at: Any, own: Keys, other: Keys, before: dict[str, bytes]) -> None:
        for place in places:
            at.restore(own[place], 600_000, before[own[place]], replace=True)

    return change


KEYS: dict[str, Change] = {
    "no record": lambda at, own, other, before: at.delete(own[0]),
    "no journal": lambda at, own, other, before: at.delete(own[1]),
    "no keys": lambda at, own, other, before: at.delete(*own),
    "the record is a text": lambda at, own, other, before: (at.delete(own[0]), at.set(own[0], "x")),
    "the journal is a text": lambda at, own, other, before: (at.delete(own[1]), at.set(own[1], "x")),
    "one more entry": lambda at, own, other, before: at.rpush(own[1], b"x"),
    "one entry less": lambda at, own, other, before: at.rpop(own[1]),
    "another's": _exchanged(0, 1),
    "another's record": _exchanged(0),
    "another's journal": _exchanged(1),
    "older": _replayed(0, 1),
    "an older record": _replayed(0),
    "an older journal": _replayed(1),
    "a newer release's": lambda at, own, other, before: at.hset(own[0], "v", "99"),
}


def changes(at: Any, sample: Keys) -> Iterator[Case]:
    """All changes of a call that stands like the sample, and some calls beside them that nobody changes."""
    made: list[tuple[str, dict[str, Change]]] = [("key", KEYS)]
    made += [(name.decode(), _values(name.decode())) for name in sorted(at.hkeys(sample[0]))]
    for place, entry in enumerate(at.lrange(sample[1], 0, -1)):
        made.append((f"entry {place}", _whole(place)))
        made += [(f"entry {place}[{n}]", _entries(place, n)) for n in range(len(json.loads(entry)))]
    for number, (where, by_name) in enumerate(made):
        yield from (Case(f"{where}: {name}", change) for name, change in by_name.items())
        if number % 4 == 0:
            yield Case(f"beside {number}", None)


class Fleet:
    def __init__(self, redis: RedisServer, namespace: str) -> None:
        self._redis, self.namespace = redis, namespace

    def keys(self, reply: Reply) -> Keys:
        tagged = f"fh:{self.namespace}:{{{reply.token.split('.')[1]}}}"
        return f"{tagged}:r", f"{tagged}:j"

    @asynccontextmanager
    async def node(self, name: str) -> AsyncIterator[Caller]:
        usual: dict[str, Any] = {"store_url": self._redis.url, "namespace": self.namespace, "keys": (KEY,)}
        async with AsyncExitStack() as stack:
            app = framehold.asgi(server_of("flipped", marked, unmarked), Settings(node_id=name, lease_ttl=1.0, **usual))
            url = await stack.enter_async_context(served(app))
            yield await stack.enter_async_context(Caller(url))


async def side_by_side(work: Iterable[Any]) -> list[Any]:
    limit = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(item: Any) -> Any:
        async with limit:
            return await item

    return await asyncio.gather(*(one(item) for item in work))


def named(reply: Reply) -> str | None:
    if reply.status == 503 or "result" not in reply.message:
        return None
    reason = (reply.result.get("_meta") or {}).get(REASON)
    in_doubt = reply.result.get("isError") and "InDoubt" in reply.text
    return "in doubt" if in_doubt else reason


async def run(redis: RedisServer, namespace: str, tool: str, dies: bool, step: int) -> dict[str, str]:
    """Change calls, and answer each: how each change ended."""
    fleet = Fleet(redis, namespace)
    ENTERED.clear()
    CHARGED.clear()
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(fleet.node(name)) for name in "bc"]
        owner = await stack.enter_async_context(AsyncExitStack())
        a = await owner.enter_async_context(fleet.node("a"))
        at = stack.enter_context(redis.client())
        before: dict[str, bytes] = {}

        async def begin(of: str) -> Reply:
            first = await insist(lambda: a.call(tool, arguments={"of": of}))
            before.update((key, at.dump(key)) for key in fleet.keys(first))
            arguments, answers = {"of": of}, first.accept(word="1")
            reply = await insist(lambda: a.retry(tool, first.token, answers, arguments=arguments))
            assert reply.messages == ["Two?"], reply.message
            return reply

        other = fleet.keys(await begin("other"))
        cases = list(changes(at, other))[::step]
        held = await side_by_side(begin(case.name) for case in cases)
        stood = {key: at.dump(key) for reply in held for key in fleet.keys(reply)}
        stood |= {key: at.dump(key) for key in other}
        if dies:
            await owner.aclose()

        def put_right(keys: Iterable[str]) -> None:
            for key in keys:
                at.restore(key, 600_000, stood[key], replace=True)

        async def answer(case: Case, reply: Reply, at_most: float) -> Reply:
            answers, end = reply.accept(word="2"), asyncio.get_running_loop().time() + at_most
            for number in range(1000):
                node = others[number % 2] if dies else a
                said = await node.retry(tool, reply.token, answers, arguments={"of": case.name})
                if said.status != 503 or asyncio.get_running_loop().time() > end:
                    break
                await asyncio.sleep(0.1)
            return said

        async def ended(case: Case, reply: Reply) -> str:
            own, right = fleet.keys(reply), f"{case.name} 1 charged 2"
            said = await answer(case, reply, PATIENCE)
            if said.status == 503:
                put_right(own)
                late = await answer(case, reply, 5 * PATIENCE)
                return "delay" if late.text == right else named(late) or f"late: {late.message}"
            if said.message.get("result", {}).get("resultType") != "input_required" and said.text == right:
                return "same"
            return named(said) or f"{said.status}: {said.message}"

        put_right(stood)
        for case, reply in zip(cases, held, strict=True):
            if case.change is not None:
                case.change(at, fleet.keys(reply), other, before)
        found = await side_by_side(ended(case, reply) for case, reply in zip(cases, held, strict=True))
    return {case.name: how for case, how in zip(cases, found, strict=True)}


FENCES, CLAIMED = ("owner: ", "inc: ", "epoch: "), ("owner: ", "inc: ", "boot: ")
SEALED = ("tool: ", "method: ", "target: ", "code: ", "reentrant: ", "args: ", "principal: ", "strategy: ", "seal: ")
LOOKED_AT = ("created: ", "expires: ", "cause: ", "s:", "error: ", "place: ", "out_round: ")


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("tool", "dies"), [("marked", True), ("unmarked", True), ("marked", False), ("unmarked", False)]
)
async def test_each_change_ends_as_it_should(
    redis: RedisServer, tmp_path: Path, tool: str, dies: bool, step: int
) -> None:
    found = await run(redis, tmp_path.name, tool, dies, step)
    print(tool, "owner dies" if dies else "owner lives", len(found), Counter(found.values()).most_common())
    odd = {name: how for name, how in found.items() if how not in LOSSES | {"same", "delay"}}
    assert odd == {}
    assert max(CHARGED.values()) == 1, "no effect runs twice"
    if tool == "unmarked":
        assert max(ENTERED.values()) == 1, "no unmarked handler is entered twice"
    lost = {name for name, how in found.items() if how not in ("same", "delay")}
    if not dies:
        # The frame writes all else again. By these it is fenced, and an unmarked one is not entered again.
        assert {
            name for name in lost if not name.startswith(("key: ", *(FENCES if tool == "unmarked" else ())))
        } == set()
    elif tool == "marked":
        # Who may claim is known by the leases, and the claim writes these anew.
        readable = (": a word", ": seven", ": flipped", ": another's")
        assert {name for name in lost if name.startswith(CLAIMED) and name.endswith(readable)} == set()
    if dies:
        altered = {name for name in found if name.startswith(SEALED) and not name.endswith("another's")}
        assert altered <= lost, "a head that somebody altered"
    as_ever = "lost" if dies and tool == "unmarked" else "same"
    beside = {how for name, how in found.items() if name.startswith(("beside", *LOOKED_AT))}
    assert beside - {"delay"} == {as_ever}

"""Each value that calls share is changed by somebody who writes the store and lacks the keys: leases, the list of
nodes, tools, streams, history. No call is lost by it, nothing is entered or charged twice, no process ends, nothing is
sent where no node is; and the fleet writes again what it needs.

Nodes and a router share a process and a Redis. Beside two calls of the node whose lease is changed, one of a node that
was killed is answered in each case."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold_core.errors import StoreUnavailable
from framehold_fleet.members.membership import STRANGE, Membership
from framehold_router.app import running
from framehold_router.config import RouterSettings
from framehold_store import lease_codec
from framehold_store.keys import Keys
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.processes import DEADLINE, until
from tests.kit.redis_server import RedisServer
from tests.kit.serving import server_of
from tests.node.code.releases import release
from tests.node.engine.test_flipped_fields import CHARGED, ENTERED, flipped, marked, named, side_by_side, unmarked
from tests.structure.test_store_fields import named as rows

pytestmark = pytest.mark.anyio

TTL = 3.0
ALWAYS = ("a name less", "many names", "a text")
"""Changes that are tried in every run."""
PAGES = {
    "lease": ("nodes", "ring", "overview"),
    "list of nodes": ("nodes", "ring"),
    "tools": ("tools",),
    "log": ("events", "failovers"),
    "ended calls": ("calls",),
    "routers": ("overview",),
    "history": ("history",),
}
"""The pages of the API that show what stands in a key."""
STREAMS = {"log": ("log",), "ended calls": ("ended", "failed"), "routers": ("routers",)}
Change = Callable[[Any, str], object]


class Case(NamedTuple):
    where: str
    name: str
    key: str
    change: Change


async def insist(send: Callable[[], Awaitable[Reply]]) -> Reply:
    """Send until it is taken."""
    async with asyncio.timeout(DEADLINE):
        while (reply := await send()).status == 503:
            await asyncio.sleep(0.05)
    return reply


def put(value: bytes) -> Change:
    """Another value, of no TTL."""
    return lambda at, key: (at.delete(key), at.set(key, value))


def as_is_stored(make: Callable[[bytes], bytes]) -> Change:
    return lambda at, key: at.set(key, make(at.get(key)))


STRINGS: dict[str, Change] = {
    "flipped": as_is_stored(flipped),
    "flipped within": as_is_stored(lambda value: value[: len(value) // 2] + flipped(value[len(value) // 2 :])),
    "flipped at its end": as_is_stored(lambda value: value[:-1] + flipped(value[-1:])),
    "half": as_is_stored(lambda value: value[: len(value) // 2]),
    "twice": as_is_stored(lambda value: value + value),
    "large": as_is_stored(lambda value: value + b" " * 70_000),
    "for good": as_is_stored(lambda value: value),
}
WHOLE: dict[str, Change] = {
    "deleted": lambda at, key: at.delete(key),
    "expired": lambda at, key: at.pexpire(key, 1),
    "empty": put(b""),
    "a text": put(b"\xff\x00"),
    "a list": lambda at, key: (at.delete(key), at.rpush(key, b"x")),
    "a hash": lambda at, key: (at.delete(key), at.hset(key, "x", "y")),
    "a stream": lambda at, key: (at.delete(key), at.xadd(key, {"x": "y"})),
    "a sorted set": lambda at, key: (at.delete(key), at.zadd(key, {"x": 1})),
}
WORDS: dict[str, Any] = {"bytes": b"\xff\x00", "a word": b"many", "seven": b"7", "nothing": b"", "long": b"9" * 2000}


def element(place: int, made: Any) -> Change:
    def change(at: Any, key: str) -> None:
        row = json.loads(at.get(key))
        row[place] = made
        at.set(key, json.dumps(row, separators=(",", ":")))

    return change


def of_elements(value: bytes) -> Iterator[tuple[str, Change]]:
    """Each element of a stored array, in place of which another one stands."""
    for place in range(len(json.loads(value))):
        for name, made in {"a word": "many", "seven": 7, "none": None, "an address": "http://127.0.0.1:9"}.items():
            yield f"[{place}]: {name}", element(place, made)


def field(name: Any, value: Callable[[Any, str], Any]) -> Change:
    return lambda at, key: at.hset(key, name, value(at, key) or b"")


def of_fields(at: Any, key: str) -> Iterator[tuple[str, Change]]:
    """Each field of a hash."""
    for name in at.hkeys(key):
        yield f"{name}: none", partial(lambda name, at, key: at.hdel(key, name), name)
        made = {word: partial(lambda value, at, key: value, value) for word, value in WORDS.items()}
        made["flipped"] = partial(lambda name, at, key: flipped(at.hget(key, name) or b"x"), name)
        made |= {f"as {other}": partial(lambda other, at, key: at.hget(key, other), other) for other in at.hkeys(key)}
        yield from ((f"{name}: {told}", field(name, value)) for told, value in made.items())


PAUSES = {
    "p:marked": ('[1,1,1,"o","why"]', "[1,999999999999999]", "[1,99999999999999999999,1,2,3]", "[3]"),
    "d:marked": ('[1,1,[["a",9e15],["b",9e15],["c",9e15]]]', "[1,1,[[]]]", "[1,1,7]"),
    "m": ("0 0 0 0 none", "ff 9999999999999 9999999999999 1 emptied"),
    "p:nobody": ('[1,1,1,"o","why"]', "["),
    "x": ("y",),
}
TOOLS: dict[str, Change] = {
    f"{name}: {value}": field(name, partial(lambda value, at, key: value, value))
    for name, values in PAUSES.items()
    for value in values
}


def listed(**scores: float) -> Change:
    return lambda at, key: at.zadd(key, scores)


LIST: dict[str, Change] = {
    "a name less": lambda at, key: at.zrem(key, "a"),
    "no node's name": listed(**{"no name!": 9e15}),
    "a name more": listed(stranger=9e15),
    "many names": listed(**{f"x{n}": 1 for n in range(10_000)}),
    "many names, for a minute": lambda at, key: at.zadd(key, {f"x{n}": time.time() * 1000 for n in range(10_001)}),
    **{f"a: {score}": listed(a=score) for score in (0, -1, float("-inf"), float("inf"))},
}


def added(entry: dict[Any, Any], place: str = "*") -> Change:
    return lambda at, key: at.xadd(key, entry, id=place)


def entries(at: Any, key: str) -> Iterator[tuple[str, Change]]:
    """What a stream may have."""
    yield from ((f"an entry: {name}", added({"e": value})) for name, value in WORDS.items())
    yield "another field", added({"x": "y"})
    yield "none", lambda at, key: at.xtrim(key, maxlen=0)
    yield "one less", lambda at, key: at.xdel(key, at.xrevrange(key, count=1)[0][0])
    yield "one again", lambda at, key: at.xadd(key, at.xrange(key, count=1)[0][1])
    last = json.loads(at.xrevrange(key, count=1)[0][1][b"e"])
    for name in last:
        for told, value in {"a word": "many", "seven": 7, "none": None, "far": 1e300, "a list": [[]]}.items():
            yield f"{name}: {told}", added({"e": json.dumps({**last, name: value})})
    for place in ("99999999999999-1", f"{2**64 - 1}-{2**64 - 1}"):
        yield f"at {place}", added({"e": "{}"}, place)


def figures() -> bytes:
    """A sample of the history."""
    return zlib.compress(json.dumps({"nodes": {"a": {"rounds": 1.0}}, "tools": {}, "release": "1"}).encode())


SAMPLES = {"a bomb": put(zlib.compress(b"[" * 5_000_000)), "no JSON": put(zlib.compress(b"\xff"))}


def shared(keys: Keys) -> dict[str, list[str]]:
    """The keys of each row of the law that calls share, but for code."""
    streams = {where: [getattr(keys, name) for name in names] for where, names in STREAMS.items()}
    sample = keys.sample(10, int(time.time()) // 10 - 3)
    lists = {"list of nodes": [keys.nodes], "tools": [keys.tools], "history": [sample]}
    return {"lease": [keys.node("a")], **lists, **streams}


class Shared:
    """The fleet, and who writes its store."""

    def __init__(self, at: Any, namespace: str, nodes: dict[str, Runtime], callers: list[Caller], api: str) -> None:
        self.at, self.keys, self.nodes, self.callers, self.api = at, Keys(namespace), nodes, callers, api
        # Worked out once: the key of a sample names a slot of time, and the next slot begins within seconds.
        self._places = shared(self.keys)
        self.older: dict[str, bytes] = {}
        self.http = httpx2.AsyncClient(timeout=30)
        self.addresses = {runtime.heartbeat.address for runtime in nodes.values()}
        self.ends: dict[str, Counter[str]] = defaultdict(Counter)

    def places(self) -> dict[str, list[str]]:
        return self._places

    async def live(self) -> None:
        """Have each key of which somebody could write an older value have a younger one."""
        pauses, [sample] = self.nodes["a"].door.pauses, self.places()["history"]
        self.at.set(sample, figures(), px=600_000)
        for _ in range(2):
            for tool in ("marked", "idle"):
                await pauses.pause(tool, "why", "o")
            await pauses.resume("marked", "o")
            for name in ("log", "ended", "failed"):
                await self.nodes["a"].store.append_events([b'{"call": "c", "at": 1}'], name)
            await self.beat()
            await until(lambda: self.at.exists(self.keys.routers), "the router's own entry")
            for keys in self.places().values():
                self.older |= {key: self.at.dump(key) for key in keys if key not in self.older}

    async def beat(self) -> None:
        """Have each node write its lease and read the paused tools."""
        before = {name: runtime.heartbeat.renewed_at for name, runtime in self.nodes.items()}
        for runtime in self.nodes.values():
            runtime.heartbeat.announce(runtime.heartbeat.state)
        await until(lambda: all(self.nodes[name].heartbeat.renewed_at != at for name, at in before.items()), "beats")
        pauses: list[Any] = [runtime.door.pauses for runtime in self.nodes.values()]
        await asyncio.gather(*(known.read() for known in pauses))

    def cases(self) -> Iterator[Case]:
        """Each change of each key that calls share."""
        for where, keys in self.places().items():
            for key in keys:
                for name, change in [*WHOLE.items(), *self._of(where, key)]:
                    yield Case(where, name, key, change)
                yield Case(where, "older", key, restored(self.older[key]))
                for other, others in self.places().items():
                    if key not in others:
                        yield Case(where, f"as {other}", key, restored(self.at.dump(others[0])))
        killed = self.keys.node("killed")
        yield Case("lease", "older, of the dead", killed, restored(self.older[killed]))
        yield Case("lease", "another's, of the dead", killed, put(self.at.get(self.keys.node("b"))))

    def _of(self, where: str, key: str) -> Iterator[tuple[str, Change]]:
        if where == "lease":
            yield from [*STRINGS.items(), *of_elements(self.at.get(key))]
            yield "another's", lambda at, key: at.set(key, at.get(self.keys.node("b")))
        elif where == "list of nodes":
            yield from LIST.items()
        elif where == "tools":
            yield from [*TOOLS.items(), *of_fields(self.at, key)]
        elif where == "history":
            yield from [*STRINGS.items(), *SAMPLES.items()]
        else:
            yield from entries(self.at, key)

    async def begun(self, caller: Caller, tool: str, of: str) -> Reply:
        """A call that waits for its second answer."""
        first = await insist(lambda: caller.call(tool, arguments={"of": of}))
        reply = await insist(lambda: caller.retry(tool, first.token, first.accept(word="1"), arguments={"of": of}))
        assert reply.messages == ["Two?"], reply.message
        return reply

    async def answered(self, caller: Caller, tool: str, of: str, reply: Reply) -> str:
        """How a call ended."""
        heard = await insist(lambda: caller.retry(tool, reply.token, reply.accept(word="2"), arguments={"of": of}))
        is_over = heard.message.get("result", {}).get("resultType") != "input_required"
        return "same" if is_over and heard.text == f"{of} 1 charged 2" else named(heard) or f"{heard.message}"

    async def ended(self, case: Case, number: int, orphan: Reply) -> list[str]:
        """Change a value, and answer a call of each kind: what is wrong with what came of it."""
        through, a, b, c = self.callers
        calls = [
            (through, "marked", f"{number} marked", await self.begun(a, "marked", f"{number} marked")),
            (b, "unmarked", f"{number} unmarked", await self.begun(a, "unmarked", f"{number} unmarked")),
            (c, "marked", str(number), orphan),
        ]
        if case.where == "history":
            restored(self.older[case.key])(self.at, case.key)
        case.change(self.at, case.key)
        self.at.publish(self.keys.changes, case.key)
        if case.where == "tools":
            await self.beat()
        await asyncio.gather(*(members(one).refresh() for one in self.nodes.values()))
        answers = [asyncio.create_task(self.answered(*call)) for call in calls]
        strange = await self.strangers() + await self.shown(case.where)
        _, late = await asyncio.wait(answers, timeout=0.2)
        wrong = await self.healed(case)
        await asyncio.wait(answers)
        heard = ["never" if isinstance(one.exception(), TimeoutError) else one.result() for one in answers]
        ends = ["delay" if end == "same" and one in late else end for one, end in zip(answers, heard, strict=True)]
        self.ends[case.where].update(ends)
        if case.where == "lease" and case.name in ("deleted", "expired"):
            # Nothing says that its node lives, until its next heartbeat.
            ends[1] = "same" if ends[1] == "lost" else ends[1]
        return strange + wrong + [end for end in ends if end not in ("same", "delay")]

    async def healed(self, case: Case) -> list[str]:
        """Wait until what stands there is as the fleet writes it; what is wrong if it does not come to that."""
        try:
            async with asyncio.timeout(5):
                await self.beat()
                while not await self.is_whole(case):
                    await asyncio.sleep(0.05)
        except (TimeoutError, AssertionError, StoreUnavailable) as error:
            self.at.delete(case.key)
            return [f"it stays: {error!r}"]
        return [f"{name} ended" for name, one in self.nodes.items() if one.heartbeat.lost.is_set()]

    async def strangers(self) -> list[str]:
        """Addresses at which somebody looks for a node, and that no node has."""
        found = [
            member.url
            for one in self.nodes.values()
            for member in members(one).fleet.members.values()
            if member.address is not None
        ]
        listed = (await self.http.get(f"{self.api}/api/v1/nodes")).json()["nodes"]
        found += [node["address"] for node in listed if node["state"] != STRANGE]
        return sorted({*found} - self.addresses)

    async def shown(self, where: str) -> list[str]:
        """Pages that can't be shown."""
        pages = await asyncio.gather(*(self.http.get(f"{self.api}/api/v1/{page}") for page in PAGES[where]))
        return [f"{page.url}: {page.text:.2000}" for page in pages if page.status_code >= 500]

    async def is_whole(self, case: Case) -> bool:
        """Whether what stands there is as the fleet writes it."""
        store, key = self.nodes["b"].store, case.key
        if case.where == "lease":
            lease = lease_codec.read("a", self.at.get(self.keys.node("a")))
            return lease is not None and self.nodes["b"].peers.seals.holds(lease)
        if case.where == "list of nodes":
            found = {lease.node for lease in await store.nodes()}
            return {*self.nodes} <= found and self.at.zscore(key, "a") < (time.time() + 100) * 1000
        if case.where == "tools":
            await self.nodes["b"].door.pauses.resume("marked", "o")
            await self.beat()
            return all(await asyncio.gather(*(self._knows(one) for one in self.nodes.values())))
        if case.where == "history":
            await store.keep_sample(10, slot := time.time_ns(), figures(), 60)
            return await store.samples(10, [slot]) == (figures(),)
        name: Any = key.rpartition(":")[2]
        await store.append_events([b"x"], name)
        place, entry = (await store.events(of=name, count=5000))[-1]
        return (place.encode(), entry) == (self.at.xrevrange(key, count=1)[0][0], b"x")

    async def _knows(self, one: Runtime) -> bool:
        found = await one.store.tools()
        return "marked" not in {pause.tool for pause in found.paused}


def members(one: Runtime) -> Membership:
    assert one.peers._membership is not None
    return one.peers._membership


def restored(value: bytes) -> Change:
    return lambda at, key: at.restore(key, 0, value, replace=True)


@asynccontextmanager
async def fleet(redis: RedisServer, namespace: str) -> AsyncIterator[tuple[Shared, AsyncExitStack, Caller]]:
    """Three nodes and a router, and a node that is to die: what ends it, and who calls it."""
    common: dict[str, Any] = {"store_url": redis.url, "namespace": namespace, "keys": (KEY,)}
    listening = socket.create_server(("127.0.0.1", 0))
    root = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with AsyncExitStack() as stack:
        nodes, urls = dict[str, Runtime](), [f"{root}/mcp"]

        async def node(name: str, on: AsyncExitStack) -> Runtime:
            settings = Settings(node_id=name, lease_ttl=TTL, admin_token=None, **common)
            app = framehold.asgi(server_of("flipped", marked, unmarked), settings)
            urls.append(await on.enter_async_context(served(app)))
            return app.attached.runtime

        for name in "abc":
            nodes[name] = await node(name, stack)
        await stack.enter_async_context(running(RouterSettings(**common), listening))
        at = stack.enter_context(redis.client())
        callers = [await stack.enter_async_context(Caller(url)) for url in urls]
        mortal = await stack.enter_async_context(AsyncExitStack())
        killed = await node("killed", mortal)
        made = Shared(at, namespace, nodes, callers, root)
        stack.push_async_callback(made.http.aclose)
        made.addresses.add(killed.heartbeat.address)
        yield made, mortal, await mortal.enter_async_context(Caller(urls[-1]))


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.nightly)])
async def test_each_change_of_what_calls_share_ends_as_it_should(redis: RedisServer, tmp_path: Path, step: int) -> None:
    ENTERED.clear()
    CHARGED.clear()
    async with fleet(redis, tmp_path.name) as (made, mortal, dying):
        await made.live()
        killed = made.keys.node("killed")
        made.older[killed] = made.at.dump(killed)
        cases = [case for place, case in enumerate(made.cases()) if place % step == 0 or case.name in ALWAYS]
        orphans = await side_by_side(made.begun(dying, "marked", str(number)) for number in range(len(cases)))
        stood = {key: made.at.dump(key) for one in orphans for key in made.keys.call(one.token.split(".")[1])}
        await mortal.aclose()
        [made.at.restore(key, 600_000, value, replace=True) for key, value in stood.items()]
        known = {key for keys in made.places().values() for key in keys} | {
            *map(made.keys.node, (*made.nodes, "killed"))
        }
        others = {key.decode() for key in made.at.scan_iter(f"fh:{tmp_path.name}:*")} - known
        assert [key for key in others if "{" not in key and ":code:" not in key] == [], "a key that nobody sweeps"
        wrong = {
            f"{case.where}: {case.key} {case.name}": found
            for number, case in enumerate(cases)
            if (found := await made.ended(case, number, orphans[number]))
        }
    print(len(cases), {where: dict(ends) for where, ends in made.ends.items()})
    assert wrong == {}
    assert max(CHARGED.values()) == 1, "no effect runs twice"
    twice = {of for of, times in ENTERED.items() if times > 1 and of.endswith("unmarked")}
    assert twice == set(), "no unmarked handler is entered twice"


def test_each_key_is_swept() -> None:
    """Each row of the law's table is changed here, or in the sweep over calls."""
    assert set(rows()) == {"record", "journal", "code", *shared(Keys("n"))}


CODES = """\
import framehold
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

server = MCPServer("codes")


class Word(BaseModel):
    word: str


@framehold.reentrant
async def handler(ctx: Context) -> str:
    answer = await framehold.ask("key", "question?", Word)
    return f"early {answer.data.word}"


for number in range(40):
    server.tool(name=f"t{number}")(handler)
"""


def its_end(digits: bytes) -> Change:
    return lambda at, key: at.set(key, digits + at.get(key)[13:])


async def test_each_change_of_kept_code_ends_as_it_should(
    redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A call is carried on with the code that it began with; where that was changed, with the present code of its tool.
    Each tool has a code of its own."""
    ends = {"as it is": its_end(b"0" * 13), "an end that is none": its_end(b"x" * 13), "none": lambda at, key: None}
    changes: dict[str, Change] = {**WHOLE, **STRINGS, **{f"its end: {name}": change for name, change in ends.items()}}
    settings: dict[str, Any] = {"store_url": redis.url, "namespace": tmp_path.name, "keys": (KEY,), "lease_ttl": 5.0}
    with redis.client() as at:
        with release(tmp_path / "before", CODES) as module:
            app = framehold.asgi(module.server, Settings(node_id="a", **settings))
            async with served(app) as url, Caller(url) as caller:
                names = [f"t{number}" for number in range(len(changes) + 2)]
                held = await side_by_side(caller.call(name) for name in names)
            codes = [
                Keys(tmp_path.name).code(app.attached.handlers.find("tools/call", {"name": name}).code())
                for name in names
            ]
        changes["another's"] = lambda at, key: at.set(key, at.get(codes[-1]))
        for key, change in zip(codes, changes.values(), strict=False):
            change(at, key)
        with release(tmp_path / "after", CODES.replace("early", "later")) as module:
            app = framehold.asgi(module.server, Settings(node_id="b", **settings))
            async with served(app) as url, Caller(url) as caller:
                said = await side_by_side(
                    insist(partial(caller.retry, name, reply.token, reply.accept(word="w")))
                    for name, reply in zip(names, held, strict=True)
                )
    found = {name: reply.text for name, reply in zip([*changes, "beside"], said, strict=True)}
    kept = {"beside", "for good", "flipped", *(name for name in changes if name.startswith("its end"))}
    assert found == {name: "early w" if name in kept else "later w" for name in found}
    assert caplog.text.count("which can't be used here") == len(found) - len(kept)

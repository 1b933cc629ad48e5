"""The lane under failure: every request is answered once and in time, whatever happens to the connection."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from redis.exceptions import NoScriptError

from framehold_cli.local.ports import free as free_port
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.requests import Commit, Intent, Reply, Request, Verdict
from framehold_core.value import replace
from framehold_store import StoreConfig
from framehold_store.batch import BATCH, BatchLane, Item
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer, Wire
from tests.store.calls import E0, HEAD, Story, batch, fence

pytestmark = pytest.mark.anyio

SOON = 10.0
"""Seconds after which a test that waits has hung."""


@pytest.fixture(params=[("asyncio", {}), ("asyncio", {"use_uvloop": True})], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
async def wire(server: RedisServer) -> AsyncIterator[Wire]:
    async with Wire(server.port) as built:
        yield built


@pytest.fixture
async def store(wire: Wire) -> AsyncIterator[RedisStore]:
    """Over the wire, patient enough for a loaded machine."""
    built = RedisStore(StoreConfig(f"redis://127.0.0.1:{wire.port}", op_timeout=5.0))
    yield built
    await built.close()


def hasty(server: RedisServer, **settings: Any) -> RedisStore:
    return RedisStore(StoreConfig(server.url, op_timeout=0.2, **settings))


async def all_of(store: RedisStore, requests: Sequence[Request]) -> list[Reply | StoreUnavailable]:
    """Submit all in one turn, and return their replies. Fails if a request is settled twice or never."""
    loop = asyncio.get_running_loop()
    result: list[asyncio.Future[Any]] = [loop.create_future() for _ in requests]
    for request, future in zip(requests, result, strict=True):
        store.submit(request, future.set_result)
    async with asyncio.timeout(SOON):
        return list(await asyncio.gather(*result))


def verdicts(outcomes: Sequence[Reply | StoreUnavailable]) -> list[Verdict]:
    assert all(isinstance(outcome, Reply) for outcome in outcomes), outcomes
    return [outcome.verdict for outcome in outcomes if isinstance(outcome, Reply)]


def asks(count: int) -> list[Commit]:
    return [Story().ask for _ in range(count)]


async def test_one_turn_is_one_write(store: RedisStore, wire: Wire) -> None:
    await store.run(Story().ask)
    wire.requests.clear()
    assert set(verdicts(await all_of(store, asks(20)))) == {Verdict.OK}
    assert len(wire.requests) == 1
    assert wire.requests[0].count(b"EVALSHA") == 20


async def test_a_crowd_travels_in_batches(store: RedisStore) -> None:
    """More than a batch holds: all are answered, in the order of each call."""
    story = Story()
    requests: list[Request] = [*asks(BATCH - 1), story.ask, story.intent, story.result, *asks(2 * BATCH)]
    assert set(verdicts(await all_of(store, requests))) == {Verdict.OK}


@pytest.mark.parametrize("passed", [0, 1, 3, 4, 10, 11, 42])
async def test_a_connection_lost_in_the_middle_of_a_batch(store: RedisStore, wire: Wire, passed: int) -> None:
    """Replies are 4 bytes each: what was not answered whole is sent once more, and finds itself applied."""
    await store.run(Story().ask)
    wire.allowance = passed
    outcomes = verdicts(await all_of(store, asks(20)))
    assert outcomes == [Verdict.OK] * (passed // 4) + [Verdict.ALREADY] * (20 - passed // 4)
    assert wire.connections == 2


@pytest.mark.parametrize("passed", range(0, 300, 30))
async def test_a_connection_lost_while_scripts_are_missing(
    store: RedisStore, wire: Wire, server: RedisServer, passed: int
) -> None:
    await store.run(Story().ask)
    with server.client() as admin:
        admin.script_flush()
    wire.allowance = passed
    async with asyncio.timeout(SOON):
        assert verdicts(await all_of(store, asks(3))) == [Verdict.OK] * 3


async def test_a_connection_that_dies_twice(store: RedisStore, wire: Wire) -> None:
    """A request is sent twice, not for ever; the next one finds the store again."""
    wire.cuts = 2
    outcomes = await all_of(store, asks(3))
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    assert "failed twice" in str(outcomes[0])
    assert "may or may not have been applied; it is safe to try again" in str(outcomes[0])
    assert wire.connections == 2
    assert set(verdicts(await all_of(store, asks(3)))) == {Verdict.OK}


async def test_a_request_lost_on_its_way_is_sent_again(store: RedisStore, wire: Wire) -> None:
    wire.cuts = 1
    assert verdicts(await all_of(store, asks(3))) == [Verdict.OK] * 3


async def test_an_idle_connection_that_was_closed(store: RedisStore, wire: Wire) -> None:
    story = Story()
    await store.run(story.ask)
    wire.cut()
    assert (await store.run(story.ask_again)).verdict is Verdict.OK


async def test_a_store_that_stops_answering(server: RedisServer) -> None:
    store = hasty(server)
    requests = asks(3 * BATCH)
    await store.run(Story().ask)
    server.pause()
    outcomes = await all_of(store, requests)
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    assert "did not answer within 0.2 s" in str(outcomes[0])
    assert "commit may or may not have been applied" in str(outcomes[0])
    assert "commit was not sent" in str(outcomes[-1])
    server.resume()
    async with asyncio.timeout(SOON):
        while not all(isinstance(outcome, Reply) for outcome in outcomes):
            outcomes = await all_of(store, requests)
    assert set(verdicts(outcomes)) <= {Verdict.OK, Verdict.ALREADY}
    await store.close()


@pytest.mark.parametrize("turns", range(6))
async def test_a_loop_that_stood_is_no_store_that_is_silent(server: RedisServer, turns: int) -> None:
    """Whether the requests were sent before or not: they are answered, those in the queue too. The store did answer."""
    # Long enough for a busy machine to answer three batches in.
    store = RedisStore(StoreConfig(server.url, op_timeout=0.8))
    try:
        await store.run(Story().ask)
        task = asyncio.create_task(all_of(store, asks(2 * BATCH + 1)))
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(1.0)
        assert set(verdicts(await task)) == {Verdict.OK}
    finally:
        await store.close()


@pytest.mark.parametrize("turns", range(12))
async def test_a_loop_that_stood_while_the_lane_connects_is_no_store_that_is_silent(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """At whichever step: its requests are answered."""
    # Long enough for a busy machine to connect in.
    monkeypatch.setattr("framehold_store.batch.GRACE", SOON / 2)
    store = RedisStore(StoreConfig(server.url, op_timeout=0.2))
    try:
        task = asyncio.create_task(store.run(Story().ask))
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.4)
        assert (await task).verdict is Verdict.OK
    finally:
        await store.close()


async def test_a_silent_store_gets_no_more_than_a_moment_after_the_loop_stood(server: RedisServer) -> None:
    store = hasty(server)
    try:
        await store.run(Story().ask)
        server.pause()
        task = asyncio.create_task(all_of(store, asks(BATCH + 1)))
        await asyncio.sleep(0)
        time.sleep(0.5)
        started = time.monotonic()
        assert all(isinstance(outcome, StoreUnavailable) for outcome in await task)
        assert time.monotonic() - started < SOON / 4
    finally:
        server.resume()
        await store.close()


async def test_a_loop_that_stands_again_and_again_keeps_no_request_of_a_store_that_is_away() -> None:
    """A request gets a moment once."""
    store = RedisStore(StoreConfig(f"redis://127.0.0.1:{free_port()}/0", op_timeout=0.2))
    try:
        waiting = asyncio.create_task(all_of(store, asks(1)))
        async with asyncio.timeout(SOON):
            while not waiting.done():
                time.sleep(0.15)
                await asyncio.sleep(0)
        assert isinstance((await waiting)[0], StoreUnavailable)
    finally:
        await store.close()


async def test_a_store_that_restarts_empty(server: RedisServer) -> None:
    """The scripts are loaded again, the records are lost: a writer gets BEHIND."""
    store = RedisStore(StoreConfig(server.url, op_timeout=5.0))
    story = Story()
    await store.run(story.ask)
    server.stop()
    waiting = asyncio.create_task(store.run(story.ask_again))
    await asyncio.sleep(0)
    server.start()
    assert (await waiting).verdict is Verdict.BEHIND
    assert (await store.run(story.read)).verdict is Verdict.MISSING
    healed = await store.run(story.heals(None, fence(1, 1), E0))
    assert (healed.verdict, healed.epoch) == (Verdict.OK, 2)
    await store.close()


async def test_each_outage_is_told_and_counted_anew(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """The second one as the first one: operators read how long each was."""
    caplog.set_level(logging.INFO)
    store = RedisStore(StoreConfig(server.url, op_timeout=0.2))
    try:
        for outage in (1, 2):
            await store.run(Story().ask)
            server.stop()
            with pytest.raises(StoreUnavailable):
                await store.run(Story().ask)
            server.start()
            async with asyncio.timeout(SOON):
                while len(told := [item for item in caplog.messages if "is back after" in item]) < outage:
                    with contextlib.suppress(StoreUnavailable):
                        await store.run(Story().ask)
            assert sum("can't be used" in item for item in caplog.messages) == len(told) == outage
    finally:
        await store.close()


async def test_a_store_that_is_down_at_the_start() -> None:
    """Opening is no error; requests fail in time and say why; the store may come later."""
    port = free_port()
    store = RedisStore(StoreConfig(f"redis://127.0.0.1:{port}", op_timeout=0.2))
    await store.open()
    with pytest.raises(StoreUnavailable, match="ConnectionError"):
        await store.run(Story().ask)
    server = RedisServer(port)
    server.start()
    try:
        async with asyncio.timeout(SOON):
            while True:
                try:
                    assert (await store.run(Story().ask)).verdict is Verdict.OK
                    break
                except StoreUnavailable:
                    continue
    finally:
        server.remove()
    await store.close()


async def test_a_password_that_is_wrong(server: RedisServer) -> None:
    store = RedisStore(StoreConfig(f"redis://:sesame@127.0.0.1:{server.port}", op_timeout=0.2))
    with pytest.raises(StoreUnavailable, match="Authentication") as caught:
        await store.run(Story().ask)
    assert "sesame" not in str(caught.value)
    await store.close()


async def test_the_queue_is_bounded(server: RedisServer) -> None:
    store = hasty(server, max_queue=3)
    server.pause()
    result: list[Any] = []
    for request in asks(4):
        store.submit(request, result.append)
    assert "3 requests wait" in str(result[0])
    assert "max_queue" in str(result[0])
    assert "was not sent" in str(result[0])
    server.resume()
    await store.close()
    assert len(result) == 4


async def test_closing_answers_what_is_left(server: RedisServer) -> None:
    store = RedisStore(StoreConfig(server.url, op_timeout=60.0))
    await store.run(Story().ask)
    server.pause()
    task = asyncio.create_task(all_of(store, asks(2 * BATCH)))
    await asyncio.sleep(0.05)
    await store.close()
    await store.close()
    assert all(isinstance(outcome, StoreUnavailable) for outcome in await task)
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.run(Story().ask)
    server.resume()


async def test_a_lane_that_ends_with_its_event_loop_answers_what_is_left(server: RedisServer) -> None:
    """The loop cancels all tasks: whoever asks the store in his own end is told at once that it is closed."""
    store = RedisStore(StoreConfig(server.url, op_timeout=60.0))
    await store.run(Story().ask)
    (lane,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("framehold lane")]
    lane.cancel()
    outcomes = await all_of(store, asks(2))
    assert [str(outcome) for outcome in outcomes if isinstance(outcome, StoreUnavailable)] == [
        "the store was closed; commit may or may not have been applied"
    ] * 2
    with pytest.raises(StoreUnavailable, match="the store is closed; commit was not sent"):
        await store.run(Story().ask)
    await store.close()
    await store.open()
    assert (await store.run(Story().ask)).verdict is Verdict.OK
    await store.close()


async def test_a_cancelled_wait_is_not_recalled(store: RedisStore) -> None:
    """The request is applied, and its reply disturbs nobody."""
    story = Story()
    task = asyncio.create_task(store.run(story.ask))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await store.run(story.ask)).verdict is Verdict.ALREADY


@pytest.mark.parametrize("name", ["ask_again", "intent", "finish", "release", "verify"])
@pytest.mark.parametrize("command", [("RPUSH", b"more"), ("LPOP",), ("DEL",)])
async def test_no_write_builds_on_a_torn_record(
    store: RedisStore, server: RedisServer, command: tuple[str | bytes, ...], name: str
) -> None:
    story = Story()
    await store.run(story.ask)
    with server.client() as admin:
        admin.execute_command(command[0], f"fh:default:{{{story.call}}}:j", *command[1:])
        assert (await store.run(story.read)).verdict is Verdict.MISSING
        before = admin.hgetall(f"fh:default:{{{story.call}}}:r")
        reply = await store.run(getattr(story, name))
        assert (reply.verdict, reply.stored) == (Verdict.BEHIND, None)
        assert admin.hgetall(f"fh:default:{{{story.call}}}:r") == before
    assert (await store.run(story.heals(None, fence(1, 1), E0))).verdict is Verdict.OK
    assert (await store.run(story.read)).verdict is Verdict.OK


async def test_a_released_record_without_its_journal_is_missing(store: RedisStore, server: RedisServer) -> None:
    """Nobody takes over what can't be replayed."""
    story = Story()
    await store.run(story.ask)
    await store.run(story.release)
    with server.client() as admin:
        admin.delete(f"fh:default:{{{story.call}}}:j")
    assert (await store.run(story.read)).verdict is Verdict.MISSING
    assert (await store.run(story.take)).verdict is Verdict.MISSING


@pytest.mark.parametrize(
    "name",
    ["ask", "ask_again", "intent", "first_intent", "result", "finish", "release", "verify", "claim", "lost", "heal"],
)
async def test_the_keys_of_a_call_expire_together(store: RedisStore, server: RedisServer, name: str) -> None:
    """At the instant that the record names, which every write moves."""
    story = Story()
    before: dict[str, list[Commit | Intent]] = {"ask": [], "first_intent": [], "heal": []}
    before["result"] = [story.ask, story.intent]
    for step in before.get(name, [story.ask]):
        await store.run(replace(step, ttl=60.0))
    made: dict[str, Any] = {"lost": replace(story.claim, reentrant=False), "heal": story.heals(None, fence(1, 1), E0)}
    request = made.get(name) or getattr(story, name)
    assert (await store.run(replace(request, ttl=900.0))).verdict in (Verdict.OK, Verdict.LOST)
    with server.client() as admin:
        keys = admin.keys(f"fh:default:{{{story.call}}}:*")
        instants = {int(admin.execute_command("PEXPIRETIME", key)) for key in keys}
        assert len(keys) == (1 if name in ("finish", "lost") else 2)
        assert instants == {int(admin.hget(f"fh:default:{{{story.call}}}:r", "expires"))}
        assert 890_000 < int(admin.pttl(f"fh:default:{{{story.call}}}:r")) <= 900_000


async def test_what_is_no_call_id_never_becomes_a_key(store: RedisStore) -> None:
    """Nor does a name that has no bytes: the reply reports it, and `submit` does not raise."""
    with pytest.raises(StoreUnavailable, match="can't be encoded"):
        await store.run(Story(replace(HEAD, tool="\ud800")).ask)
    with pytest.raises(StoreUnavailable, match="not a call id"):
        await store.run(replace(Story().ask, call=CallId("a}b*")))


class ScriptedPipe:
    """Answers each batch with what the test says."""

    def __init__(self, *replies: list[object]) -> None:
        self.replies = list(replies)
        self.sent: list[bytes] = []
        self.receive: Any = None

    def write(self, data: bytes) -> None:
        self.sent.append(data)
        for reply in self.replies.pop(0):
            asyncio.get_running_loop().call_soon(self.receive, reply)

    def close(self) -> None: ...


class ScriptedLink:
    """A link that is up."""

    name, trouble, limit, refusal = "scripted", "", "", ""

    def __init__(self, pipe: ScriptedPipe) -> None:
        self.pipe = pipe

    async def connect(self, receive: Any, lost: Any) -> ScriptedPipe:
        self.pipe.receive = receive
        return self.pipe

    async def drop(self) -> None: ...


async def test_nothing_overtakes_a_request_that_lacked_its_script() -> None:
    """Its call's later requests in the batch are sent again behind it; those of other calls keep their replies."""
    pipe = ScriptedPipe([1, NoScriptError(), b"behind", 1], [1, 1])
    lane = BatchLane(ScriptedLink(pipe), 5.0, 100)  # type: ignore[arg-type]  # as much of a link as a lane uses
    result: list[tuple[str, object]] = []
    done = asyncio.get_running_loop().create_future()

    def settle(name: str) -> Any:
        def settled(raw: object) -> None:
            result.append((name, raw))
            if len(result) == 4:
                done.set_result(None)

        return settled

    for name, key in (("a1", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")):
        lane.submit(Item(name.encode(), key, "commit", settle(name)))
    await done
    assert pipe.sent == [b"a1b1b2c1", b"b1b2"]
    assert result == [("a1", 1), ("c1", 1), ("b1", 1), ("b2", 1)]
    await lane.close()


@pytest.mark.parametrize("is_up", [True, False], ids=["behind a batch without replies", "without a connection"])
async def test_an_item_that_is_due_before_those_in_front_of_it(is_up: bool) -> None:
    """A cluster sends an item anew with the deadline that it has. Items of one key keep their order all the same."""

    class Away(ScriptedLink):
        async def connect(self, receive: Any, lost: Any) -> ScriptedPipe:
            if not is_up:
                await asyncio.Event().wait()
            return await super().connect(receive, lost)

    lane = BatchLane(Away(ScriptedPipe([])), 60.0, 100)  # type: ignore[arg-type]  # as much of a link as a lane uses
    settled: asyncio.Queue[str] = asyncio.Queue()

    def submit(name: str, key: str, seconds: float) -> None:
        item = Item(name.encode(), key, "commit", lambda raw: settled.put_nowait(name))
        item.deadline = asyncio.get_running_loop().time() + seconds
        lane.submit(item)

    submit("first", "a", 60.0)
    # It is sent, where there is a connection.
    await asyncio.sleep(0.05)
    for name, key, seconds in (("late", "b", 50.0), ("same key", "b", 0.2), ("due", "c", 0.1)):
        submit(name, key, seconds)
    async with asyncio.timeout(SOON):
        assert await settled.get() == "due"
    assert settled.empty() and [item.packed for item in lane.recall()][:2] == [b"late", b"same key"]
    await lane.close()


async def test_a_bug_in_the_lane_leaves_the_event_loop_to_others(caplog: pytest.LogCaptureFixture) -> None:
    """It tries again after a pause, and its requests are settled in time."""
    tries = 0

    class Broken(ScriptedLink):
        async def connect(self, receive: Any, lost: Any) -> ScriptedPipe:
            nonlocal tries
            tries += 1
            raise TypeError("a bug")

    lane = BatchLane(Broken(ScriptedPipe()), 0.3, 100)  # type: ignore[arg-type]  # as much of a link as a lane uses
    settled = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(10):
        lane.submit(Item(b"", "key", "commit", settled.set_result))
        assert isinstance(await settled, StoreUnavailable)
    await lane.close()
    assert 1 < tries < 20
    assert "a bug in the lane" in caplog.text


async def test_large_values_pass(store: RedisStore) -> None:
    """A batch is bounded in bytes as well, and a value may be larger than that bound."""
    stories = [Story() for _ in range(3)]
    requests = [replace(story.ask, batch=batch((), bytes(2 << 20))) for story in stories]
    assert verdicts(await all_of(store, requests)) == [Verdict.OK] * 3
    stored = (await store.run(stories[0].read)).stored
    assert stored is not None
    assert len(stored.journal[0]) == 2 << 20

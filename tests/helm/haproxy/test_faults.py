"""Behind the chart's HAProxy nodes come and go, and calls go on."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2
import pytest

from framehold_cli.local.ports import free as free_port
from tests.helm.haproxy.plane import HAProxy, node_name, planes
from tests.kit.client import Caller, Reply
from tests.kit.fleet import Fleet
from tests.kit.nodes import entries
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.chart, pytest.mark.fleet, pytest.mark.alone]

TARGET = "tests/helm/haproxy/served.py"
TTL = 2.0
NODES = [node_name(ordinal) for ordinal in range(3)]
NAMES = [f"guest{number}" for number in range(24)]


@dataclass
class Scene:
    """A fleet, the one HAProxy before it, and a client."""

    fleet: Fleet
    haproxy: HAProxy
    caller: Caller

    async def begun(self, tool: str) -> dict[str, Reply]:
        """A parked call for each name."""
        reply = await asyncio.gather(*(self.caller.call(tool, arguments={"name": name}) for name in NAMES))
        return dict(zip(NAMES, reply, strict=True))

    async def answered(self, tool: str, reply: dict[str, Reply]) -> dict[str, Reply]:
        """The next round of each."""
        sent = (
            self.caller.retry(tool, before.token, before.accept(word="yes"), arguments={"name": name})
            for name, before in reply.items()
        )
        return dict(zip(reply, await asyncio.gather(*sent), strict=True))

    async def homes(self, count: int) -> Counter[str]:
        """Which nodes get so many calls that begin."""
        result = await asyncio.gather(*(self.caller.call("plain", arguments={"name": "n"}) for _ in range(count)))
        return Counter(reply.headers["framehold-node"] for reply in result)

    async def ended(self, name: str) -> None:
        """Wait until a node's process is gone."""
        node = self.fleet.nodes.pop(name)
        await until(lambda: not node.alive, f"{name}'s end")
        node.stop()

    def noted(self, what: str) -> list[str]:
        return [line for line in entries(self.fleet.entered) if line.startswith(what)]


@pytest.fixture(scope="module")
async def stage(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Three nodes, and a place for a fourth."""
    folder = tmp_path_factory.mktemp("faults")
    made = Fleet(folder, redis, TARGET, lease_ttl=f"{TTL:g}", drain_timeout="15")
    made.ports = {node_name(ordinal): free_port() for ordinal in range(4)}
    addresses = {name: f"127.0.0.1:{port}" for name, port in made.ports.items()}
    haproxy = HAProxy(folder / "haproxy", addresses, {"node": {"replicas": 4}})
    try:
        async with planes(haproxy), Caller(haproxy.url) as caller:
            yield Scene(made, haproxy, caller)
    finally:
        made.stop()


@pytest.fixture
async def scene(stage: Scene) -> Scene:
    """The same, whatever was done to it before."""
    for path in (stage.fleet.entered, stage.fleet.folder / "gate"):
        path.unlink(missing_ok=True)
    if node_name(3) in stage.fleet.nodes:
        stage.fleet.nodes.pop(node_name(3)).kill()
    await stage.fleet.start_nodes(*(name for name in NODES if name not in stage.fleet.nodes))
    if not stage.haproxy.alive:
        await stage.haproxy.start()
    await stage.haproxy.sees(*NODES)
    return stage


async def test_rounds_that_run_on_a_node_that_drains_are_not_cut(scene: Scene) -> None:
    """It gets no new calls at once, ends what it has begun, and gets its part again when it is back."""
    leaving, others = NODES[1], {NODES[0], NODES[2]}
    parked = await scene.begun("unmarked")
    rounds = [asyncio.create_task(scene.caller.call("long", arguments={"name": "gate"})) for _ in range(24)]
    await until(lambda: len(scene.noted("long")) == 24, "all rounds to run")
    scene.fleet.nodes[leaving].terminate()
    # A server that is DOWN loses its connections in the same moment.
    await until(lambda: scene.haproxy.states()[leaving] != "UP", "HAProxy to hear of it")
    assert (await scene.homes(30)).keys() == others
    finished = await scene.answered("unmarked", parked)
    assert {name: reply.text for name, reply in finished.items()} == {name: f"{name} yes" for name in NAMES}
    assert leaving in {reply.headers["framehold-node"] for reply in finished.values()}, "none was parked there"
    (scene.fleet.folder / "gate").touch()
    ended = await asyncio.gather(*rounds)
    assert [reply.text for reply in ended] == ["gate is done"] * 24
    assert leaving in {reply.headers["framehold-node"] for reply in ended}, "none ran there"
    await scene.ended(leaving)
    await scene.fleet.start_nodes(leaving)
    await scene.haproxy.sees(*NODES)
    assert (await scene.homes(60)).keys() == set(NODES)


async def test_calls_of_a_dead_node_are_taken_over(scene: Scene) -> None:
    """As soon as its lease has run out, and 2 s; all others go on at once."""
    parked = await scene.begun("marked")
    dead = NODES[0]
    scene.fleet.nodes.pop(dead).kill()

    async def timed(name: str, before: Reply) -> tuple[Reply, float]:
        began = time.monotonic()
        after = await scene.caller.retry("marked", before.token, before.accept(word="yes"), arguments={"name": name})
        return after, time.monotonic() - began

    done = await asyncio.gather(*(timed(name, before) for name, before in parked.items()))
    assert [reply.messages for reply, _ in done] == [[f"{name} two?"] for name in NAMES]
    orphans = {name for name, before in parked.items() if before.headers["framehold-node"] == dead}
    taken = {
        name for name, (reply, _) in zip(NAMES, done, strict=True) if reply.headers["framehold-route"] == "takeover"
    }
    assert taken == orphans and orphans
    assert max(took for _, took in done) < TTL + 2
    last = await scene.answered("marked", {name: reply for name, (reply, _) in zip(NAMES, done, strict=True)})
    assert [reply.text for reply in last.values()] == [f"{name} yes yes" for name in NAMES]
    assert sorted(scene.noted("begin")) == sorted(f"begin-{name}" for name in NAMES), "an effect came twice"


async def test_a_hung_node_costs_its_callers_seconds(scene: Scene) -> None:
    """It accepts connections and says nothing, until checks find it out. HAProxy 2.6 then sends what waits there to
    another node; 3.2 breaks it off, and its client comes again."""
    parked = await scene.begun("marked")
    hung = scene.fleet.nodes[NODES[2]]

    async def insisted(name: str, before: Reply) -> list[str]:
        while True:
            with contextlib.suppress(httpx2.TransportError):
                if (after := (await scene.answered("marked", {name: before}))[name]).status == 200:
                    return after.messages
            await asyncio.sleep(0.05)

    with hung.paused():
        async with asyncio.timeout(5 + TTL):
            done = await asyncio.gather(*(insisted(name, before) for name, before in parked.items()))
        assert done == [[f"{name} two?"] for name in NAMES]
        assert scene.haproxy.states()[NODES[2]] == "DOWN"


async def test_a_new_node_gets_its_share(scene: Scene) -> None:
    """A quarter of new calls. Those that are parked stay where they are."""
    parked = await scene.begun("unmarked")
    await scene.fleet.start_nodes(node_name(3))
    await scene.haproxy.sees(*NODES, node_name(3))
    homes = await scene.homes(400)
    assert 60 <= homes[node_name(3)] <= 140, homes
    done = await scene.answered("unmarked", parked)
    assert {name: reply.text for name, reply in done.items()} == {name: f"{name} yes" for name in NAMES}
    served = {name: reply.headers["framehold-node"] for name, reply in done.items()}
    assert served == {name: reply.headers["framehold-node"] for name, reply in parked.items()}


async def test_without_a_node_it_is_not_ready_and_says_what_to_do(scene: Scene) -> None:
    assert scene.haproxy.probe("readyz") == 200
    for name in NODES:
        scene.fleet.nodes.pop(name).stop()
    await scene.haproxy.sees()
    result = await scene.caller.call("plain", arguments={"name": "n"})
    assert (result.status, result.headers["retry-after"], result.code) == (503, "1", -32603)
    assert "send the same request again" in result.text
    assert (scene.haproxy.probe("readyz"), scene.haproxy.probe("healthz")) == (503, 200)


async def test_haproxy_ends_what_it_has_begun(scene: Scene) -> None:
    """Told to end as its image's STOPSIGNAL does: no new connections, and no round is cut."""
    rounds = [asyncio.create_task(scene.caller.call("long", arguments={"name": "gate"})) for _ in range(10)]
    await until(lambda: len(scene.noted("long")) == 10, "all rounds to run")
    scene.haproxy.end()
    async with httpx2.AsyncClient() as http:
        with pytest.raises(httpx2.ConnectError):
            async with asyncio.timeout(5):
                while True:
                    await http.get(f"{scene.haproxy.root}/healthz")
    (scene.fleet.folder / "gate").touch()
    assert [reply.text for reply in await asyncio.gather(*rounds)] == ["gate is done"] * 10
    assert await scene.haproxy.ends() == 0

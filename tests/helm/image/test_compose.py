"""compose.yaml: what it starts, as processes of this machine, serves the booking call.

There is no engine for containers here. Each service is started by the ENTRYPOINT and CMD of its Dockerfile, with its
environment; names of services become 127.0.0.1, and ports become free ones.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import yaml

from framehold_cli.local.ports import free as free_port
from tests.helm.chart.render import render
from tests.helm.image import dockerfile
from tests.kit.client import Caller
from tests.kit.processes import ROOT, RUN, Child, environment
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.chart]

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
GIVEN = {"FRAMEHOLD_KEYS": "k" * 64, "FRAMEHOLD_ADMIN_TOKEN": "t" * 32}
"""What its head tells a user to export."""
KEYS = {
    "build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "ports", "read_only",
    "restart", "security_opt", "stop_grace_period", "tmpfs",
}  # fmt: skip
"""The keys of the Compose specification that it uses."""


class Place(NamedTuple):
    """The ports of one service on this machine."""

    clients: int
    admin: int


def filled(text: str) -> str:
    """With the variables that its user gives; one that is missing must have words for it."""
    return re.sub(r"\$\{(\w+):\?[^}]+\}", lambda found: GIVEN[found[1]], text)


def command(service: dict[str, Any]) -> list[str]:
    """The words behind `framehold` that its image starts."""
    stage = dockerfile.read((ROOT / service["build"]["dockerfile"]).read_text(encoding="utf-8"))[-1]
    words = [*stage.last("ENTRYPOINT").words(), *stage.last("CMD").words()]
    return words[words.index("framehold") + 1 :]


def moved(text: str, places: dict[str, Place], redis: str) -> str:
    """A value with the addresses of this machine."""
    text = filled(text).replace("redis://redis:6379", redis)
    for name, place in places.items():
        text = text.replace(f"http://{name}:8080", f"http://127.0.0.1:{place.clients}")
    return text


@pytest.fixture
async def fleet(redis: RedisServer, tmp_path: Path) -> AsyncIterator[dict[str, Place]]:
    """All services that are built here, when they are ready."""
    names = [name for name, service in SERVICES.items() if "build" in service]
    ports = [free_port() for _ in range(2 * len(names))]
    places = {name: Place(*ports[2 * at : 2 * at + 2]) for at, name in enumerate(names)}
    with_ours = {"FRAMEHOLD_NAMESPACE": tmp_path.name}
    async with AsyncExitStack() as stack:
        for name, place in places.items():
            result = {key: moved(value, places, redis.url) for key, value in SERVICES[name]["environment"].items()}
            result |= {"FRAMEHOLD_ADMIN_PORT": str(place.admin), **with_ours}
            own = {"0.0.0.0": "127.0.0.1", "8080": str(place.clients)}
            words = [own.get(word, word) for word in command(SERVICES[name])]
            child = Child([*RUN, *words], tmp_path / f"{name}.log", env=environment(**result))
            stack.callback(child.stop)
            child.launch()
        async with httpx2.AsyncClient() as http:
            await asyncio.gather(*(_ready(http, place.admin) for place in places.values()))
        yield places


async def _ready(http: httpx2.AsyncClient, port: int) -> None:
    async def asked() -> bool:
        try:
            return (await http.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
        except httpx2.TransportError:
            return False

    async with asyncio.timeout(120):
        while not await asked():
            await asyncio.sleep(0.05)


async def test_it_serves_the_booking_call(fleet: dict[str, Place]) -> None:
    """Three nodes behind two routers: a round through the one, the next through the other, and both routers know all
    nodes."""
    first, second = (f"http://127.0.0.1:{fleet[name].clients}/mcp" for name in ("router-1", "router-2"))
    shown = {"authorization": f"Bearer {GIVEN['FRAMEHOLD_ADMIN_TOKEN']}"}
    async with Caller(first) as one, Caller(second) as other, httpx2.AsyncClient(headers=shown) as http:
        reply = await one.call("book", arguments={"restaurant": "Luna"})
        assert reply.token
        reply = await other.retry("book", reply.token, reply.accept(guests=3), arguments={"restaurant": "Luna"})
        assert reply.token, reply
        for name in ("router-1", "router-2"):
            nodes = (await http.get(f"http://127.0.0.1:{fleet[name].admin}/api/v1/nodes")).json()["nodes"]
            assert [node["node_id"] for node in nodes] == ["node-1", "node-2", "node-3"]
            assert (await http.get(f"http://127.0.0.1:{fleet[name].clients}/metrics")).status_code == 404


def test_it_starts_three_nodes_two_routers_and_a_store() -> None:
    """With keys that Compose knows, none of them misspelt."""
    assert sorted(SERVICES) == ["node-1", "node-2", "node-3", "redis", "router-1", "router-2"]
    assert {key for service in SERVICES.values() for key in service} <= KEYS
    for name, service in SERVICES.items():
        if "build" in service:
            assert service["image"] == f"framehold/{name.partition('-')[0]}:0.1.0"
            assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
            assert service["depends_on"] == {"redis": {"condition": "service_healthy"}}


def test_whatever_dies_is_started_again() -> None:
    """A fleet whose store stayed away after one crash would answer 503 until somebody looks."""
    assert {name: service.get("restart") for name, service in SERVICES.items()} == dict.fromkeys(
        SERVICES, "unless-stopped"
    )


def test_only_this_machine_reaches_it() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == len({port.rsplit(":", 1)[0] for port in published}) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_no_secret_stands_in_it() -> None:
    """Compose stops with the words behind `:?` if one is not given."""
    for name in ("FRAMEHOLD_KEYS", "FRAMEHOLD_ADMIN_TOKEN"):
        values = {service["environment"][name] for service in SERVICES.values() if "environment" in service}
        assert len(values) == 1 and re.fullmatch(rf"\$\{{{name}:\?make one with .+\}}", values.pop())


def test_it_has_the_store_and_the_grace_of_the_chart() -> None:
    made = render()
    (store,) = made.one("StatefulSet", "fleet-framehold-store")["spec"]["template"]["spec"]["containers"]
    assert SERVICES["redis"]["image"] == store["image"]
    for name, kind in (("node", "StatefulSet"), ("router", "Deployment")):
        pod = made.one(kind, f"fleet-framehold-{name}")["spec"]["template"]["spec"]
        assert SERVICES[f"{name}-1"]["stop_grace_period"] == f"{pod['terminationGracePeriodSeconds']}s"

"""The admin port (FRAMEHOLD_ADMIN_PORT): what operators and Prometheus ask is served there, and nowhere else."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from framehold_cli.local.ports import free as free_port
from tests.kit.client import Caller
from tests.kit.nodes import FrameholdProcess
from tests.kit.operators import SHOWN, TOKEN
from tests.kit.proofs import INSIDE, client, sent_as
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio
BOOKING = "framehold.examples.booking"
OPERATORS = ("/metrics", "/dashboard", "/dashboard/leases", "/api/v1/nodes", "/api/v1/openapi.json", "/admin/node")
"""Paths that clients must not reach."""


class Parts:
    """A node and a router with an admin port each."""

    def __init__(self, node: FrameholdProcess, router: FrameholdProcess, ports: list[int]) -> None:
        self.node, self.router = node, router
        self.node_admin, self.router_admin = (f"http://127.0.0.1:{port}" for port in ports)


@asynccontextmanager
async def parts(redis: RedisServer, folder: Path) -> AsyncIterator[Parts]:
    ports = [free_port(), free_port()]
    usual = {
        "FRAMEHOLD_STORE_URL": redis.url,
        "FRAMEHOLD_NAMESPACE": folder.name,
        "FRAMEHOLD_NODE_ID": "a",
        "FRAMEHOLD_ADMIN_TOKEN": TOKEN,
    }
    commands = {"node": ["node", BOOKING, "--port", "0"], "router": ["router", "--port", "0"]}
    async with AsyncExitStack() as stack:
        made = []
        for port, (name, command) in zip(ports, commands.items(), strict=True):
            child = FrameholdProcess(command, folder / f"{name}.log", **usual, FRAMEHOLD_ADMIN_PORT=str(port))
            stack.callback(child.stop)
            await child.start()
            made.append(child)
        yield Parts(made[0], made[1], ports)


async def status(url: str, **headers: str) -> int:
    async with client() as http:
        return (await http.get(url, headers=headers)).status_code


async def test_clients_reach_calls_and_operators_reach_the_rest(redis: RedisServer, tmp_path: Path) -> None:
    """The router still asks the node for its state, over the port that the node's lease names."""
    async with parts(redis, tmp_path) as fleet, Caller(fleet.router.url) as caller:
        for root in (fleet.router.root, fleet.node.root):
            found = {path: await status(root + path, **SHOWN) for path in (*OPERATORS, "/healthz", "/readyz")}
            assert found == {**dict.fromkeys(OPERATORS, 404), "/healthz": 200, "/readyz": 200}, root
        for path in ("/metrics", "/dashboard", "/api/v1/nodes", "/healthz", "/readyz"):
            assert await status(fleet.router_admin + path, **SHOWN) == 200, path
        for path in ("/metrics", "/admin/node", "/admin/leases", "/healthz", "/readyz"):
            assert await status(fleet.node_admin + path, **SHOWN) == 200, path
        for path in ("/mcp", "/.well-known/oauth-protected-resource", "/"):
            assert await status(fleet.router_admin + path) == await status(fleet.node_admin + path) == 404, path
        async with httpx2.AsyncClient() as http:
            [node] = (await http.get(f"{fleet.router_admin}/api/v1/nodes", headers=SHOWN)).json()["nodes"]
        assert node["node_id"] == "a" and "book" in node["tools"], "the node has answered the router"
        assert (await caller.call("book", arguments={"restaurant": "Luna"})).token


async def test_who_may_use_the_admin_api_is_the_same_on_both_ports_which_end_with_their_process(
    redis: RedisServer, tmp_path: Path
) -> None:
    """The port of clients does not have the API, whoever asks."""
    shown = {"nothing": {}, "the token": SHOWN, "the fleet": INSIDE, "passed on": sent_as("router")}
    async with parts(redis, tmp_path) as fleet:
        for root, wanted in ((fleet.node.root, (404, 404, 404, 404)), (fleet.node_admin, (403, 200, 200, 403))):
            found = [await status(f"{root}/admin/leases", **headers) for headers in shown.values()]
            assert found == list(wanted), root
        for child, admin in ((fleet.router, fleet.router_admin), (fleet.node, fleet.node_admin)):
            async with httpx2.AsyncClient() as http:
                assert (await http.get(f"{admin}/metrics")).status_code == 200
                child.terminate()
                assert await child.ends() in (0, -signal.SIGTERM), child.log()
            with pytest.raises(httpx2.ConnectError):
                await status(f"{admin}/metrics")

"""A node and a router without a descriptor say so: in their logs, and in the verdict."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.fleet.fleet import fleet
from tests.node.nodes import FrameholdProcess
from tests.processes import DEADLINE
from tests.store.server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]


async def problems(http: httpx2.AsyncClient, root: str, kind: str) -> list[dict[str, str]]:
    """What the router says of this kind, as soon as it says anything."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found = (await http.get(f"{root}/api/v1/overview")).json()["problems"]
            if wanted := [problem for problem in found if problem["kind"] == kind]:
                return wanted
            await asyncio.sleep(0.1)


def spend(stack: ExitStack, child: FrameholdProcess) -> None:
    """Lower the limit of a process to what it has open and a few more; clients take these."""
    limit = max(map(int, os.listdir(f"/proc/{child.pid}/fd"))) + 4
    usual = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (limit, usual[1]))
    stack.callback(resource.prlimit, child.pid, resource.RLIMIT_NOFILE, usual)
    host, _, port = child.root.removeprefix("http://").partition(":")
    for _ in range(limit):
        stack.enter_context(socket.create_connection((host, int(port))))


async def test_who_has_no_descriptor_says_so(redis: RedisServer, tmp_path: Path) -> None:
    async with fleet(tmp_path, redis, "a", "b") as made, httpx2.AsyncClient() as http:
        router = await made.add_router()
        with ExitStack() as stack:
            spend(stack, made.nodes["a"])
            [node] = await problems(http, router.root, "descriptors")
            assert (node["severity"], node["node"]) == ("harm", "a"), node
            await made.nodes["a"].until(lambda: "descriptors open that it may" in made.nodes["a"].log(), "its log")
        with ExitStack() as stack:
            # The connection that is open goes on: over it the router can still be asked.
            spend(stack, router)
            [own] = await problems(http, router.root, "router_descriptors")
            assert own["severity"] == "harm" and "descriptors open" in own["text"]
            await router.until(lambda: "descriptors open that it may" in router.log(), "its log")
        assert router.log().count("descriptors open that it may") == 1

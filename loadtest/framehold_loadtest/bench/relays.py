"""Section `router`: CPU per request of `framehold router` and of HAProxy with the same hash, by the harness of `calls`.

Both are in front of the same stub nodes, which are so cheap that the relay is what is measured. Half of the requests
start a call, half are retries with a token of a call that has been under way for long. All are made ahead of time, so
that a fast relay can be kept busy.

Law: a request counts if it was answered with 200 and a node's whole body, and all retries of a call by one node.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import Any

from framehold_loadtest.bench import calls, weather
from framehold_loadtest.bench.servers import framehold_router, secret, settings
from framehold_loadtest.client.connection import CallError, Connection
from framehold_loadtest.client.rounds import Asked
from framehold_loadtest.local.listeners import (
    ROOT,
    Cores,
    announced,
    free_ports,
    haproxy_server,
    redis_server,
)
from framehold_loadtest.local.process import NotAvailable, Process, python
from framehold_loadtest.served.stub_nodes import BODY_BYTES, NODES, node_of

ROUTER, HAPROXY = "framehold router", "haproxy"
_EXAMPLE = ROOT / "examples" / "haproxy.cfg"
_BEYOND = ("retry", "retries", "check")
_CALLS = 512
_SEALED_CHARACTERS = 389  # of a real token of the bench's tool
_KEY = "elicit-21b23392-1"
_Relay = Callable[[Cores], AbstractContextManager[Process]]


def measure(plan: calls.Plan, cores: Cores) -> dict[str, Any]:
    """The rows of `calls.measure`, of which a call is two requests. `to_haproxy` has the ratio of CPU, turn by turn.

    Raises:
        NotAvailable: the stub nodes can't be served.
    """
    with ExitStack() as stack:
        common = settings(stack.enter_context(redis_server(cores.load)))
        ports = free_ports(len(NODES))
        words = (word for port in ports for word in ("--port", str(port)))
        stack.enter_context(announced(python("framehold_loadtest.served.stub_nodes", *words), cores.load, common))
        relays = [
            _relay(ROUTER, lambda cores: framehold_router(cores.server, common, len(ports))),
            _relay(HAPROXY, lambda cores: haproxy(cores.server, common, ports)),
        ]
        found = calls.measure(relays, [HAPROXY], plan, cores)
    for row in found["rows"]:
        row["to_haproxy"] = [1 / ratio for ratio in row["to"][HAPROXY]["cpu"]] if row["to"] else []
    return found


def _relay(name: str, relay: _Relay) -> calls.Group:
    def start(stack: ExitStack, cores: Cores) -> dict[str, calls.Site]:
        listener = stack.enter_context(relay(cores))
        return {name: calls.Site(listener.port, listener.pid)}

    return calls.Group(start, {name: ""}, {name: f"{__name__}:relayed"})


@contextlib.contextmanager
def haproxy(core: int, common: Mapping[str, str], ports: Sequence[int]) -> Iterator[Process]:
    """HAProxy on a core, as `examples/haproxy.cfg` says but for its port, its servers, and what it does beyond finding
    a node: to keep each request for another try costs it half as much again, and the router does not do it.

    Raises:
        NotAvailable: it does not start, or there is no checkout around this package.
    """
    if not _EXAMPLE.exists():
        raise NotAvailable("examples/haproxy.cfg is not installed; run it from a checkout of the project")
    (port,) = free_ports(1)
    lines = _EXAMPLE.read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}").splitlines()
    lines = [line for line in lines if not any(word in line for word in _BEYOND)]
    kept = [line for line in lines if not line.strip().startswith("server ")]
    servers = [f"    server node-{number} 127.0.0.1:{node}" for number, node in enumerate(ports, 1)]
    with haproxy_server(core, "\n".join([*kept, *servers, ""]), port, secret(common)) as proxy:
        yield proxy


# ---- what runs in the process of the load


async def relayed(channel: Connection, port: int, call: weather.Call) -> tuple[float, float]:
    """One request that starts a call, and one retry; a `Complete` of bench.calls."""
    number = call.number % _CALLS
    began = time.perf_counter()
    start, retry = _posts(port)[number]
    await _node(channel, start)
    asked = time.perf_counter()
    node = await _node(channel, retry)
    done = time.perf_counter()
    if _nodes(port).setdefault(number, node) != node:
        raise CallError("two retries of a call reached different nodes")
    return asked - began, done - asked


async def _node(channel: Connection, request: bytes) -> bytes:
    """Send a request; the letter of the node that answered it."""
    reply = await channel.request(request)
    if reply.status != 200 or len(reply.body) != BODY_BYTES:
        raise CallError(f"it answered {reply.status} with {len(reply.body)} bytes")
    return node_of(reply.body)


@cache
def _nodes(port: int) -> dict[int, bytes]:
    """By number of the call the node that its retries reach through a relay."""
    return {}


@cache
def _posts(port: int) -> list[tuple[bytes, bytes]]:
    """Requests by number: a call's start, and a retry of another call."""
    chance, posts = random.Random(1), []
    for number in range(_CALLS):
        call, sealed = f"{chance.getrandbits(128):032x}", f"{chance.getrandbits(4 * _SEALED_CHARACTERS):x}"
        question = Asked((_KEY,), f"h1.{call}.{sealed.zfill(_SEALED_CHARACTERS)}")
        made = weather.make_call(number)
        posts.append((weather.first_round(port, made), weather.second_round(port, made, question)))
    return posts

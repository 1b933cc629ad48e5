"""What stands in front of nodes, each a real process: `framehold router`, a plain aiohttp relay, HAProxy."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterator, Mapping, Sequence

from framehold_fleet.identity.trust import Trust
from framehold_loadtest.local.listeners import ROOT, Listener, announced, framehold_port, free_ports, haproxy_server
from framehold_loadtest.local.process import NotAvailable

_JOIN_SECONDS = 15.0
_EXAMPLE = ROOT / "examples" / "haproxy.cfg"
_BEYOND = ("retry", "retries", "check")


@contextlib.contextmanager
def framehold_router(core: int, settings: Mapping[str, str], nodes: int) -> Iterator[Listener]:
    """`framehold router` on a core, once so many nodes stand on its ring.

    Raises:
        NotAvailable: it does not start, or does not find the nodes.
    """
    with announced(["framehold", "router", "--port", "0"], core, settings, framehold_port) as router:
        deadline = time.monotonic() + _JOIN_SECONDS
        while _on_ring(router.port) != nodes:
            if time.monotonic() > deadline:
                raise NotAvailable(f"the router did not find {nodes} nodes{router.last_words()}")
            time.sleep(0.05)
        yield router


@contextlib.contextmanager
def aiohttp_relay(core: int, settings: Mapping[str, str], ports: Sequence[int]) -> Iterator[Listener]:
    """`plain_relay` on a core, in front of nodes on these ports."""
    nodes = [word for port in ports for word in ("--node", str(port))]
    with announced(["framehold_loadtest.bench.subjects.plain_relay", *nodes], core, secret(settings)) as relay:
        yield relay


@contextlib.contextmanager
def haproxy(core: int, settings: Mapping[str, str], ports: Sequence[int]) -> Iterator[Listener]:
    """HAProxy on a core, as `examples/haproxy.cfg` says but for its port, its servers, and what it does beyond finding
    a node: to keep each request for another try costs it half as much again, and no other relay here does it.

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
    with haproxy_server(core, "\n".join([*kept, *servers, ""]), port, secret(settings)) as proxy:
        yield proxy


def secret(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a relay that isn't ours: the key of load balancers that the fleet's keys make."""
    return {"FRAMEHOLD_SECRET": Trust([settings["FRAMEHOLD_KEYS"].encode()]).plane_key}


def _on_ring(port: int) -> int:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        link.request("GET", "/api/v1/ring")
        ring = json.load(link.getresponse())
    except (OSError, ValueError, http.client.HTTPException):
        return 0
    finally:
        link.close()
    return sum(bool(node["points"]) for node in ring["nodes"])

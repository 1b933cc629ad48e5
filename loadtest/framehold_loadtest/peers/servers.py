"""The peers, and how each is started: all that answers a peer's calls shares one core.

So calls per second are those of one core, with the store or the server that a peer needs counted in: unlike section
`calls` of the benchmark, where Redis has a core of its own. A peer that has a mode in which it responds with JSON alone
is served in it, since this mode is the fastest one, and once more in its default mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from framehold_loadtest.bench.calls import Group, Site
from framehold_loadtest.bench.servers import SDKS, plain, stored
from framehold_loadtest.local.listeners import Cores, announced
from framehold_loadtest.peers import npm
from framehold_loadtest.peers.restate import restate
from framehold_loadtest.served.measured import FRAMEHOLD


def peers(folder: Path) -> list[Group]:
    """All of them, in the order of the report; packages of npm are in `folder`."""
    by_hand = "a handler that returns its question and is entered again"
    return [
        *SDKS,
        plain("resolve", "the Python SDK with json_response=True, a parameter under Resolve", "resolve"),
        plain("resolve, default", "the same handler in the SDK's default mode", "resolve, default"),
        plain("fastmcp", f"FastMCP with json_response=True, {by_hand}", "fastmcp"),
        plain("fastmcp, default", "the same handler in FastMCP's default mode", "fastmcp, default"),
        *_of_npm(folder),
        plain("framehold memory", "Framehold, a handler that awaits its question; no store", FRAMEHOLD),
        stored(
            "framehold redis",
            "Framehold, a handler that awaits its question; leases and journal in Redis",
            FRAMEHOLD,
            beside=lambda cores: cores.server,
        ),
    ]


def _of_npm(folder: Path) -> list[Group]:
    @cache
    def packages() -> npm.Packages:
        return npm.ensure(folder)

    def typescript(name: str, what: str, *mode: str) -> Group:
        def start(stack: ExitStack, cores: Cores) -> Mapping[str, Site]:
            found = packages()
            argv = [str(found.node), str(found.weather), *mode]
            child = stack.enter_context(announced(argv, cores.server, {"NODE_ENV": "production"}))
            return {name: Site(child.port, child.pid)}

        return Group(start, {name: what})

    known, asked = "restate, known", "restate, asked"

    def durable(stack: ExitStack, cores: Cores) -> Mapping[str, Site]:
        site = stack.enter_context(restate(cores.server, packages().restate))
        return {known: site, asked: site}

    ways = "framehold_loadtest.peers.restate:"
    return [
        typescript(
            "typescript",
            'the TypeScript SDK under Node with responseMode "json", a handler that returns its question and is entered'
            " again, its state signed",
            "json",
        ),
        typescript("typescript, default", "the same handler in the TypeScript SDK's default mode"),
        Group(
            durable,
            {
                known: "Restate, a promise that round 2 resolves; round 1 is only accepted",
                asked: "Restate, a promise that round 2 resolves; round 1 returns the handler's question",
            },
            {known: ways + "known", asked: ways + "asked"},
        ),
    ]

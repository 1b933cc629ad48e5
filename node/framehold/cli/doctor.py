"""`framehold doctor`: looks at this machine, the settings and the store, and says what to do about each.

The law: it changes nothing, and prints no key and no password.
"""

from __future__ import annotations

import asyncio
import json
import platform
import re
import socket
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from urllib.parse import urlsplit

import httpx2

from framehold_core.errors import ConfigError
from framehold_router.config import KEY_BYTES

from .. import config
from . import addresses, environment, fleet_health, readiness, store_health
from .api import Api
from .findings import Finding, fail, ok, warn
from .fleet_health import Access
from .sheet import show

_WILDCARD = ("0.0.0.0", "::", "*", "")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LATEST = (3, 13)
_SURVEY = 5.0
"""Seconds that a router may take to ask its nodes."""


def run(as_json: bool, url: str, token: str | None = None) -> int:
    """Print all findings; 1 if something failed, else 0. `url` is the router's."""
    findings = asyncio.run(examine(addresses.base(url), token))
    if as_json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        rows = [(one.check, one.verdict, one.says + (f"\n-> {one.do}" if one.do else "")) for one in findings]
        show(("CHECK", "", "WHAT IT SAYS"), _spread(rows), "")
    return int(any(finding.verdict == "fail" for finding in findings))


async def examine(url: str, token: str | None = None) -> list[Finding]:
    """Every check there is. Without readable settings, those that need none."""
    findings = [python(sys.version_info[:3]), sdk(_version("mcp")), *environment.unknown()]
    try:
        settings = config.load()
        store = settings.store()
    except ConfigError as error:
        return [*findings, unreadable(str(error)), *await fleet(url, token)]
    findings += [keys(settings), await _name(settings), *await store_health.check(store)]
    return [*findings, await advertised(settings), *await fleet(url, token)]


def python(version: tuple[int, int, int]) -> Finding:
    """Which Python this is."""
    says = f"{platform.python_implementation()} {'.'.join(map(str, version))}"
    if version[:2] > _LATEST:
        return warn("python", f"{says}: this release was not tested on it", "use 3.11 to 3.13 if something is odd")
    return ok("python", says)


def sdk(version: str) -> Finding:
    """Whether the MCP SDK is the release that this one was read off."""
    from ..attach import TESTED

    if not version:
        return fail("mcp", "the MCP SDK is not installed as a package", f"pip install mcp=={TESTED}")
    if version == TESTED:
        return ok("mcp", f"{version}, the release that Framehold was tested with")
    return warn(
        "mcp", f"{version}; Framehold was tested with {TESTED}", f"pip install mcp=={TESTED} if calls fail oddly"
    )


def unreadable(why: str) -> Finding:
    """Settings that can't be read, named by the variable that is wrong."""
    named = re.match(r"FRAMEHOLD_(\w+)", why)
    # The stand-in inside one process is for trials of the store alone: `up` has it where nothing better is there.
    says = why.removesuffix("; nothing was started")
    return fail(named[1].lower().replace("_", " ") if named else "settings", says, "correct it; other checks need it")


def keys(settings: config.Settings) -> Finding:
    """How many keys there are. Too short and doubled ones are no settings at all."""
    count = len(settings.keys)
    if not count:
        # Who has a store runs more than `up` and a trial in one process.
        verdict = warn if settings.store_url is None else fail
        says = "FRAMEHOLD_KEYS is not set: node and router refuse to start; up makes keys for one run"
        return verdict("keys", says, "export FRAMEHOLD_KEYS=$(framehold keys new)")
    enough = f"long enough ({KEY_BYTES} bytes or more)"
    says = f"1 key, {enough}" if count == 1 else f"{count} keys, all {enough}; the first seals, all open"
    if count > 3:
        return warn("keys", says, "drop old keys a token's life (FRAMEHOLD_TOKEN_TTL) after the new one came first")
    return ok("keys", says)


async def _name(settings: config.Settings) -> Finding:
    given = "node_id" in settings.model_fields_set
    says = f"a node here is called {settings.node_id}"
    if given:
        return ok("node name", says)
    return ok("node name", f"{says}, after the machine; two on one machine need FRAMEHOLD_NODE_ID")


async def advertised(settings: config.Settings) -> Finding:
    """Whether routers and other nodes can reach a node by what it says of itself."""
    url, check = settings.advertise_url, "advertise url"
    if not url:
        if settings.store().scheme == "memory":
            return ok(check, "not set, and not needed by a node alone")
        do = "set FRAMEHOLD_ADVERTISE_URL=http://HOST:PORT where routers and nodes are on several machines"
        return warn(check, "not set: a node says the address that it listens on", do)
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)
    except ValueError:
        host, port = "", 0
    if parts.scheme not in ("http", "https") or host in _WILDCARD:
        do = "name a host that the router can reach: http://HOST:PORT"
        return fail(check, f"{_shown(url)} is no address that others can call", do)
    if not await _listens(host, port):
        return warn(check, f"nothing listens at {_shown(url)} now", "start the node there, or correct the address")
    if host in _LOOPBACK:
        return warn(check, f"{_shown(url)} is reachable from this machine alone", "fine where all of the fleet is here")
    return ok(check, f"{_shown(url)} can be reached from here")


async def fleet(url: str, token: str | None) -> list[Finding]:
    """The router at `url`, and where there is one what it says of its fleet."""
    try:
        Api(url, token).close()
    except ConfigError as error:
        return [fail("router", str(error), "correct --url or --token")]
    access = await access_of(url)
    found = await router(url, there=access is not None)
    return [found] if access is None else [found, *await asyncio.to_thread(fleet_health.check, url, token, access)]


async def router(where: str, there: bool) -> Finding:
    """Whether a router is ready at its address, or could listen there where that is on this machine."""
    check, (host, port, local) = "router", _place(where)
    if there:
        if await _status(f"{where}/readyz") == httpx2.codes.OK:
            return ok(check, f"one is ready at {where}")
        do = "look at its log; it needs the store and a live node"
        return warn(check, f"the one at {where} is not ready: it knows no live node", do)
    if not await _listens(host, port):
        if local:
            return ok(check, f"none at {where}; the port is free")
        return fail(check, f"nobody answers at {where}", "start one there, or correct --url")
    do = "choose another --port for framehold up and router" if local else "correct --url"
    return warn(check, f"something else listens on port {port}", do)


async def access_of(where: str) -> Access | None:
    """Whom the router there lets read; None where there is none of Framehold: /readyz alone is anybody's."""
    try:
        async with _http(where) as http:
            response = await http.get(f"{where}/api/v1/nodes")
            found = response.json()
    except (httpx2.HTTPError, OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    if response.status_code == httpx2.codes.UNAUTHORIZED:
        return "token" if "error" in found else None
    return "open" if isinstance(found.get("nodes"), list) else None


async def _status(url: str) -> int | None:
    try:
        async with _http(url) as http:
            return (await http.get(url)).status_code
    except (httpx2.HTTPError, OSError):
        return None


def _http(url: str) -> httpx2.AsyncClient:
    # What stands between this machine and itself is no proxy's business.
    return httpx2.AsyncClient(trust_env=not _place(url)[2], timeout=_SURVEY)


def _place(url: str) -> tuple[str, int, bool]:
    """Host, port, and whether that is this machine."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80), parts.hostname in _LOOPBACK


async def _listens(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(readiness.PATIENCE):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError, socket.gaierror):
        return False
    writer.transport.abort()
    return True


def _shown(url: str) -> str:
    """A URL without whatever secret someone put into it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _version(package: str) -> str:
    try:
        return installed(package)
    except PackageNotFoundError:
        return ""


def _spread(rows: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """What to do stands in a line of its own, below what was found."""
    spread = []
    for check, verdict, text in rows:
        first, *more = text.split("\n")
        spread += [(check, verdict, first), *(("", "", line) for line in more)]
    return spread

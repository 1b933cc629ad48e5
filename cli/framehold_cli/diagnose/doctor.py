"""`framehold doctor`: checks this machine, the settings, the store and the fleet, and says what to do.

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
from typing import Any
from urllib.parse import urlsplit

import httpx2

from framehold import config
from framehold_core.errors import ConfigError
from framehold_fleet.config import KEY_BYTES
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_router.config import RouterSettings

from ..checks import environment, readiness, store_health
from ..checks.findings import Finding, fail, ok, warn
from ..client import addresses, own_settings
from ..client.api import ApiClient
from ..show.sheet import show
from . import fleet_health
from .fleet_health import Access

_WILDCARD = ("0.0.0.0", "::", "*", "")  # noqa: S104  # compared with, not bound
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LATEST_TESTED = (3, 13)
_SURVEY_TIMEOUT = 5.0
"""Seconds that a router has to collect its nodes' answers."""


def run(as_json: bool, url: str | None, port: int | None, token: str | None) -> int:
    """Print all findings. Return the exit code: 1 if a check failed, else 0. The last three are options.

    Raises:
        ConfigError: the options name no one fleet.
    """
    try:
        where, token = addresses.router(url, port), token or own_settings.token()
    except ConfigError:
        # If it is an error of the settings, a finding says so; one of the options is raised again.
        where = addresses.base(addresses.server(url, port))
    findings = asyncio.run(examine(where, token))
    if as_json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        rows = [(one.check, one.verdict, one.says + (f"\n-> {one.do}" if one.do else "")) for one in findings]
        show(("CHECK", "", "WHAT IT SAYS"), _spread(rows), "")
    return int(any(finding.verdict == "fail" for finding in findings))


async def examine(url: str, token: str | None = None) -> list[Finding]:
    """Run all checks. If the settings can't be read, run only the checks that need none."""
    findings = [python(sys.version_info[:3]), sdk(_version("mcp")), scope(url), *environment.unknown()]
    try:
        settings = config.load()
        store = settings.store()
    except ConfigError as error:
        return [*findings, unreadable(str(error)), *await fleet(url, token)]
    seals = LeaseSeal(Trust(settings.secrets()), settings.namespace)
    stored = await store_health.check(store, seals)
    known = next((one.says for one in stored if one.check == "nodes" and one.verdict == "ok"), "")
    if not settings.keys and (count := _router_keys()):
        # What a router must not have is not asked for.
        findings += [ok("keys", f"{count} of a router: this is the shell of one, not of a node"), *stored]
    else:
        findings += [keys(settings), await _name(settings), *stored, await advertised(settings)]
    return [*findings, *await fleet(url, token, known)]


def _router_keys() -> int:
    """How many keys of a router this shell has."""
    try:
        return len(RouterSettings().router_keys)
    except ConfigError:
        return 0


def python(version: tuple[int, int, int]) -> Finding:
    """Whether this release of Python was tested."""
    says = f"{platform.python_implementation()} {'.'.join(map(str, version))}"
    if version[:2] > _LATEST_TESTED:
        return warn("python", f"{says}: this release was not tested on it", "use 3.11 to 3.13 if something is odd")
    return ok("python", says)


def sdk(version: str) -> Finding:
    """Whether Framehold was tested with this release of the MCP SDK. `version` is empty if the SDK is not installed."""
    from framehold.hosts.attach import TESTED

    if not version:
        return fail("mcp", "the MCP SDK is not installed as a package", f"pip install mcp=={TESTED}")
    if version == TESTED:
        return ok("mcp", f"{version}, the release that Framehold was tested with")
    return warn(
        "mcp", f"{version}; Framehold was tested with {TESTED}", f"pip install mcp=={TESTED} if calls fail oddly"
    )


def scope(url: str) -> Finding:
    """Which checks are of this shell's environment, and which are of a running fleet."""
    own = "settings, store and advertised address are those of this shell"
    says = f"{own}; router, fleet and calls are those of {_shown(url)}"
    return ok("scope", says)


def unreadable(why: str) -> Finding:
    """The finding for settings that can't be read. `why` is the error; its first word names the wrong variable."""
    named = re.match(r"FRAMEHOLD_(\w+)", why)
    says = why.removesuffix("; nothing was started")
    return fail(named[1].lower().replace("_", " ") if named else "settings", says, "correct it; other checks need it")


def keys(settings: config.Settings) -> Finding:
    """How many keys there are. Keys that are too short or doubled are errors of the settings already."""
    count = len(settings.keys)
    if not count:
        # A store in the settings means a fleet of several processes, which need common keys.
        verdict = warn if settings.store_url is None else fail
        says = "FRAMEHOLD_KEYS is not set in this shell: node and router refuse to start; up makes keys for one run"
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
    """Whether routers and other nodes can reach a node at the address that it advertises."""
    url, check = settings.advertise_url, "advertise url"
    if not url:
        if settings.store().scheme == "memory":
            return ok(check, "not set, and not needed by a node alone")
        do = "set FRAMEHOLD_ADVERTISE_URL=http://HOST:PORT where routers and nodes are on several machines"
        return warn(check, "not set: a node says the address that it listens on", do)
    host, port, _ = _place(url)
    if host in _WILDCARD:
        do = "name a host that the router can reach: http://HOST:PORT"
        return fail(check, f"{_shown(url)} is no address that others can call", do)
    if not await _listens(host, port):
        return warn(check, f"nothing listens at {_shown(url)} now", "start the node there, or correct the address")
    if host in _LOOPBACK:
        return warn(check, f"{_shown(url)} is reachable from this machine alone", "fine where all of the fleet is here")
    return ok(check, f"{_shown(url)} can be reached from here")


async def fleet(url: str, token: str | None, known: str = "") -> list[Finding]:
    """Check the router at `url`, and its fleet if a router answers. `known` says which nodes have leases."""
    try:
        ApiClient(url, token).close()
    except ConfigError as error:
        return [fail("router", str(error), "correct --port, --url or --token")]
    access = await access_of(url)
    found = await router(url, access is not None, known)
    return [found] if access is None else [found, *await asyncio.to_thread(fleet_health.check, url, token, access)]


async def router(where: str, there: bool, known: str = "") -> Finding:
    """Whether the router at `where` is ready. If none is `there`: whether its port on this machine is free, and
    whether there are nodes that it should be there for (`known`)."""
    check, (host, port, local) = "router", _place(where)
    if there:
        status = await _status(f"{where}/readyz")
        if status == httpx2.codes.OK:
            return ok(check, f"one is ready at {where}")
        if status == httpx2.codes.MISDIRECTED_REQUEST:
            do = "add it to FRAMEHOLD_ALLOWED_HOSTS of routers and nodes, or use an IP address"
            return fail(check, f"the one at {where} does not answer to this name", do)
        do = "look at its log; it needs the store and a live node"
        return warn(check, f"the one at {where} is not ready: it knows no live node", do)
    if not await _listens(host, port):
        if known:
            do = "start one: framehold router; or name the one that is there with --url"
            return fail(check, f"none answers at {where}, and nodes wait for its requests ({known})", do)
        if local:
            return ok(check, f"none at {where}; the port is free")
        return fail(check, f"nobody answers at {where}", "start one there, or correct --port or --url")
    if not await readiness.says_anything(where):
        do = "if it is a router, it has no descriptors (its log says so: raise the limit), or its process stands"
        return fail(check, f"what listens on port {port} takes connections, and answers nothing", do)
    if await _is_node(where):
        return warn(check, f"what listens on port {port} is a node", "name a router by --url")
    do = "choose another --port for framehold up and router" if local else "correct --port or --url"
    return warn(check, f"something else listens on port {port}", do)


async def access_of(where: str) -> Access | None:
    """Who may read the API of the router at `where`; None if no router of Framehold answers.

    /readyz is no proof of a router, because other servers have it too."""
    code, found = await _answer(f"{where}/api/v1/nodes")
    refused: dict[int, Access] = {401: "token", 403: "nobody", 421: "nobody"}
    if code in refused:
        return refused[code] if "error" in found else None
    return "open" if isinstance(found.get("nodes"), list) else None


async def _is_node(where: str) -> bool:
    """Whether a node of Framehold answers at `where`: it refuses to tell strangers of itself."""
    code, found = await _answer(f"{where}/admin/node")
    return code == httpx2.codes.FORBIDDEN and "error" in found


async def _answer(url: str) -> tuple[int, dict[str, Any]]:
    """The status and the JSON object that a GET of `url` gets; 0 and an empty one for any other answer, or none."""
    try:
        async with _http(url) as http:
            response = await http.get(url)
            found = response.json()
    except (httpx2.HTTPError, OSError, ValueError):
        return 0, {}
    return (response.status_code, found) if isinstance(found, dict) else (0, {})


async def _status(url: str) -> int | None:
    try:
        async with _http(url) as http:
            return (await http.get(url)).status_code
    except (httpx2.HTTPError, OSError):
        return None


def _http(url: str) -> httpx2.AsyncClient:
    # Requests to this machine don't go through a proxy.
    return httpx2.AsyncClient(trust_env=not _place(url)[2], timeout=_SURVEY_TIMEOUT)


def _place(url: str) -> tuple[str, int, bool]:
    """The host and the port of a URL, and whether the host is this machine."""
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
    """The scheme, host and port of a URL. A password, a path and a query may hold secrets and are left out."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that can't be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _version(package: str) -> str:
    try:
        return installed(package)
    except PackageNotFoundError:
        return ""


def _spread(rows: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Split each row's text into rows of one line, so that what to do is below what was found."""
    spread = []
    for check, verdict, text in rows:
        first, *more = text.split("\n")
        spread += [(check, verdict, first), *(("", "", line) for line in more)]
    return spread

"""Resolves the address of a fleet: what a person types or pastes, or the fleet of `framehold up` on this machine.

The law: a command that speaks to a fleet asks here for the address, so that all have the same habit:

    --url URL      that address, with or without a scheme, `/mcp` or `/dashboard`
    --port PORT    the router at this port of this machine
    neither        the admin port that the settings of this shell name (FRAMEHOLD_ADMIN_PORT), for commands of the API;
                   else the only fleet that `framehold up` runs on this machine for this user; of several none is
                   chosen. If none runs: the port that `framehold up` takes by default
"""

from __future__ import annotations

import sys
from urllib.parse import urlsplit, urlunsplit

from framehold_core.errors import ConfigError

from ..show import visible
from . import local_fleets, own_settings

USUAL_PORT = 8080
USUAL = f"http://127.0.0.1:{USUAL_PORT}"
OTHER = "name another --port or --url"
"""What to do where nobody answers at an address."""
OTHER_API = f"name the router by --api, or {OTHER}"
"""The same, where a command also calls a server."""
_ENDPOINT = "/mcp"
_PAGES = (_ENDPOINT, "/dashboard")


def router(url: str | None, port: int | None) -> str:
    """The base URL of the router that a command is to ask, from its options `--url` and `--port`.

    If it is a fleet that was found, and not at the usual port, one line on standard error names it.

    Raises:
        ConfigError: both options are given, or neither, and several fleets run on this machine.
    """
    if url is None and port is None and (here := own_settings.router()) != USUAL:
        return here
    return base(_chosen(url, port))


def server(url: str | None, port: int | None, is_named: bool = True) -> str:
    """The URL of the MCP endpoint that a command is to call; otherwise as `router`. `is_named`: whether that line
    names it."""
    return endpoint(_chosen(url, port, is_named))


def api(url: str | None, server: str) -> str | None:
    """The address of the API of the router at `server`, where it has another one; `url` is the option `--url`. On this
    machine it is at the admin port of the settings, if they name one: then the port of clients has none.

    Raises:
        ConfigError: a setting is malformed.
    """
    if url is not None or local_fleets.at(server) is not None:
        return None
    here = own_settings.router()
    return None if here == USUAL else here


def of_port(port: int) -> str:
    """The URL of the router at a port of this machine."""
    return f"http://127.0.0.1:{port}"


def options(url: str) -> list[str]:
    """The options by which a command that is pasted into a shell finds the router at `url`."""
    where = base(url)
    if where == USUAL:
        return []
    port = where.removeprefix("http://127.0.0.1:")
    return ["--port", port] if port.isdecimal() else ["--url", where]


def _chosen(url: str | None, port: int | None, is_named: bool = True) -> str:
    if url is not None and port is not None:
        raise ConfigError("--url and --port name two addresses; nothing was done; give one of them")
    if url is not None:
        return url
    if port is not None:
        return of_port(port)
    fleets = local_fleets.running()
    if len(fleets) > 1:
        names = ", ".join(f"--port {fleet.port} ({visible.line(fleet.serves)})" for fleet in fleets)
        raise ConfigError(f"{len(fleets)} fleets of framehold up run on this machine; nothing was done; give {names}")
    if not fleets:
        return USUAL
    [fleet] = fleets
    if is_named and fleet.port != USUAL_PORT:
        named = f"framehold: the fleet at {fleet.url}, where framehold up serves {visible.line(fleet.serves)}"
        print(named, file=sys.stderr, flush=True)
    return fleet.url


def base(url: str) -> str:
    """The router's base URL, from any URL that `framehold up` prints, or from an address without a scheme."""
    scheme, _, rest = _with_scheme(url).partition("#")[0].partition("://")
    rest = rest.rstrip("/")
    for page in _PAGES:
        rest = rest.removesuffix(page)
    return f"{scheme}://{rest.rstrip('/')}"


def endpoint(url: str) -> str:
    """The URL of the MCP endpoint, from an address that has its path or not. A path of another name is kept: a server
    may have its endpoint there."""
    whole = _with_scheme(url)
    try:
        parts = urlsplit(whole)
    except ValueError:
        return whole
    has_none = parts.path.rstrip("/") in ("", "/dashboard")
    return urlunsplit((parts.scheme, parts.netloc, _ENDPOINT, "", "")) if has_none else whole


def endpoints(url: str) -> str:
    """Options to try when nothing serves MCP at `url`: `/mcp` below it, or at the server's root. In words, for a
    message."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    below = [] if path.endswith(_ENDPOINT) else [f"{path}{_ENDPOINT}"]
    places = dict.fromkeys([*below, *([_ENDPOINT] if path != _ENDPOINT else [])])
    found = [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in places]
    return " or ".join(f"--url {one}" for one in found) or "another --url"


def _with_scheme(url: str) -> str:
    return url.strip() if "://" in url else f"http://{url.strip()}"

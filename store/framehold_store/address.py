"""Parses the URL of a store of several servers. config.py lists the forms.

The law: no part of a malformed URL is repeated in an error, because it may be a piece of a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z_.-]+)(?::([0-9]{1,5}))?")
_SERVICE = re.compile(r"[0-9A-Za-z_.-]+")
_PORTS = {"sentinel": 26379, "cluster": 6379}
KINDS = {f"{scheme}+{kind}": kind for scheme in ("redis", "rediss") for kind in _PORTS}
"""Maps each scheme of a store of several servers to its kind: `sentinel` or `cluster`."""

Place = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a URL of several servers. `places` are the sentinels, or the servers of a cluster that are asked
    first. `server` is a URL of one server in redis-py's form, with the credentials, database and options that hold for
    all servers. `login` has the `username` and `password` for the sentinels."""

    scheme: str
    kind: str
    places: tuple[Place, ...]
    service: str
    server: str = field(repr=False)
    login: dict[str, str] = field(repr=False)

    @property
    def tls(self) -> bool:
        return self.scheme.startswith("rediss")

    def __str__(self) -> str:
        """The address as logs may show it: without credentials, options and database."""
        places = ",".join(named(place) for place in self.places)
        return f"{self.scheme}://{places}/{self.service}".rstrip("/")


def named(place: Place) -> str:
    """`host:port`, or `[host]:port` for an IPv6 address."""
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse(url: str) -> Address:
    """The parts of `url`, whose scheme is one of KINDS.

    Raises:
        ValueError: the URL is malformed; the text says why, without credentials.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("its hosts have brackets or characters that no URL has") from None
    scheme, kind = parts.scheme, KINDS[parts.scheme]
    if parts.fragment:
        raise ValueError("it has a '#'; percent-encode it (%23) where it belongs to a password")
    user, at, hosts = parts.netloc.rpartition("@")
    places = tuple(_place(number, text, _PORTS[kind]) for number, text in enumerate(hosts.split(","), 1))
    service, database = _service(parts) if kind == "sentinel" else _no_database(parts)
    options = parse_qsl(parts.query, keep_blank_values=True)
    login = {name.removeprefix("sentinel_"): value for name, value in options if name in _LOGIN}
    if login and kind != "sentinel":
        raise ValueError("sentinel_username and sentinel_password are for redis+sentinel:// alone")
    rest = urlencode([(name, value) for name, value in options if name not in _LOGIN])
    server = f"{scheme.partition('+')[0]}://{user}{at}{named(places[0])}/{database}?{rest}"
    return Address(scheme, kind, places, service, server, login)


_LOGIN = ("sentinel_username", "sentinel_password")


def _place(number: int, text: str, port: int) -> Place:
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found[2] or port) < 65536:
        raise ValueError(
            f"its host number {number} is not HOST or HOST:PORT with a port of 1 to 65535; hosts stand between commas; "
            "percent-encode '/', '?', '#', '@' and ',' in user and password"
        )
    return found[1].strip("[]"), int(found[2] or port)


def _service(parts: SplitResult) -> tuple[str, str]:
    service, slash, database = unquote(parts.path).removeprefix("/").partition("/")
    if not service:
        raise ValueError("it names no service; give the name that the sentinels monitor: .../mymaster")
    if _SERVICE.fullmatch(service) is None:
        raise ValueError("its service is not a name of letters, digits, '_', '.' and '-', as sentinels allow")
    if slash and not (database.isascii() and database.isdecimal()):
        raise ValueError("behind its service stands no number of a database; leave it out, or give one: .../mymaster/0")
    return service, database


def _no_database(parts: SplitResult) -> tuple[str, str]:
    if parts.path not in ("", "/", "/0"):
        raise ValueError("it has a path; a Redis Cluster has no databases and no services: end it after the last host")
    return "", ""

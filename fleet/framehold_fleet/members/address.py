"""The network address of a process, and how it is parsed from the URL in a lease."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from framehold_core.ids import Boot


class TlsAddress(NamedTuple):
    """A host and a port where TLS is spoken. The certificate has to name the host."""

    host: str
    port: int
    is_tls: bool = True
    """It makes the address differ from the same one without TLS."""


Address = tuple[str, int] | TlsAddress | str
"""A host and a port, or the path of a Unix socket."""


def printed(address: Address) -> str:
    """An address as people write it: `host:port`, with an IPv6 host in brackets, or the path of a socket."""
    if isinstance(address, str):
        return address
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Receiver(NamedTuple):
    """A process of the fleet: where it listens, and the boots of which it has to prove one there (`statements`). Any
    process of the fleet is meant if there are none."""

    address: Address
    boots: tuple[Boot, ...]


_URL = re.compile(r"http(s?)://(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._-]+))(?::([0-9]{1,5}))?/?")
_HOST = re.compile(r"[0-9A-Za-z_-]{1,63}(?:\.[0-9A-Za-z_-]{1,63})*\.?")


def address_of(url: str) -> Address | None:
    """The address in a URL `http://host:port` or `https://host:port`, with an IPv6 host in brackets; None for any other
    text."""
    parts = _URL.fullmatch(url)
    if parts is None:
        return None
    tls, bracketed, host, port = parts.groups("")
    if bracketed:
        try:
            ipaddress.IPv6Address(bracketed)
        except ValueError:
            return None
    elif not _HOST.fullmatch(host):
        return None
    number = int(port or (443 if tls else 80))
    if not 0 < number < 65536:
        return None
    return TlsAddress(bracketed or host, number) if tls else (bracketed or host, number)

"""The network address of a process, and how it is parsed from the URL in a lease."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from framehold_core.ids import Boot

Address = tuple[str, int] | str
"""A host and a port, or the path of a Unix socket."""


class Receiver(NamedTuple):
    """A process of the fleet: where it listens, and the boots of which it has to prove one there (`statements`). Any
    process of the fleet is meant if there are none."""

    address: Address
    boots: tuple[Boot, ...]


_URL = re.compile(r"http://(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._-]+))(?::([0-9]{1,5}))?/?")
_HOST = re.compile(r"[0-9A-Za-z_-]{1,63}(?:\.[0-9A-Za-z_-]{1,63})*\.?")


def address_of(url: str) -> Address | None:
    """The address in a URL `http://host:port`, with an IPv6 host in brackets; None for any other text."""
    parts = _URL.fullmatch(url)
    if parts is None:
        return None
    bracketed, host, port = parts.groups("")
    if bracketed:
        try:
            ipaddress.IPv6Address(bracketed)
        except ValueError:
            return None
    elif not _HOST.fullmatch(host):
        return None
    number = int(port or 80)
    return (bracketed or host, number) if 0 < number < 65536 else None

"""Which `Host` a page answers to.

The law: no page answers to a name that nobody allowed. A web page whose name was re-bound to the address of this
process could read every answer, because its browser takes both for one origin. The browser sends the name as `Host`.
Whoever asks by an address, as `localhost` or without a `Host` is answered: an address is no name, `localhost` can't be
re-bound, and a browser always sends a `Host`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from ipaddress import AddressValueError, IPv4Address, IPv6Address

REFUSAL = (
    "This process does not answer to the Host of the request, so that no web page reaches it by re-binding a name: "
    "nothing was returned or done. Ask by an IP address or as localhost; to allow a name, add it to "
    "FRAMEHOLD_ALLOWED_HOSTS of this process"
)
"""The text of a refusal; its status is 421, as for `/mcp`."""
_HOST = re.compile(r"(?P<name>\[[^\[\]]*\]|[^\[\]:]*)(?::\d*)?")


def is_answered(host: str, allowed: Iterable[str]) -> bool:
    """Whether pages answer to the value of a `Host` header. `allowed` are the values of FRAMEHOLD_ALLOWED_HOSTS. A port
    is ignored in both, because names are re-bound and ports are not."""
    name = _name(host)
    if name is None:
        return False
    return (
        name in ("", "localhost")
        or _is_address(name)
        or any(fnmatchcase(name, _name(each.removesuffix(":*")) or "") for each in allowed)
    )


def _name(host: str) -> str | None:
    """The host without its port, in lower case; None if it is malformed."""
    found = _HOST.fullmatch(host.strip().lower())
    return None if found is None else found["name"]


def _is_address(name: str) -> bool:
    try:
        IPv6Address(name[1:-1]) if name.startswith("[") else IPv4Address(name)
    except AddressValueError:
        return False
    return True

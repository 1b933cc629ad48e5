"""The settings of a store. The program that builds the store reads them from the environment (FRAMEHOLD_STORE_URL,
FRAMEHOLD_NAMESPACE).

What FRAMEHOLD_STORE_URL may be:

    (left out)                                         this process's memory
    embedded://                                        a fake Redis inside this process
    redis://[USER:PASSWORD@]HOST[:6379][/DB]           one server; rediss:// with TLS
    unix://[USER:PASSWORD@]/PATH[?db=DB]               one server, by its Unix socket
    redis+sentinel://[USER:PASSWORD@]HOST[:26379],HOST[:26379],.../SERVICE[/DB]
                                                       the master that these sentinels name; rediss+sentinel:// with TLS
                                                       to both. ?sentinel_username=&sentinel_password= for the sentinels
    redis+cluster://[USER:PASSWORD@]HOST[:6379],HOST[:6379],...
                                                       a Redis Cluster, found through any of these; rediss+cluster://

Options after '?' are the options of redis-py's connections, and hold for every server: ssl_ca_certs, ssl_certfile,
ssl_keyfile, ssl_check_hostname, ... In user and password, characters with a meaning in URLs are percent-encoded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from framehold_core.errors import ConfigError

from . import address
from .base import POLL
from .keys import Keys

PACKED_VALUE_BYTES = 4096
"""Bytes of the largest value for which a hash of Redis must stay compact, so that a record with its outcome is."""
OP_TIMEOUT = 1.0
"""Seconds after which a request to the store fails."""
_ONE = ("redis", "rediss", "unix", "embedded")


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the store is, and the limits of its requests.

    `url`: one of the forms at the top of this module. `namespace`: part of every key; fleets that share a Redis use
    different ones. `op_timeout`: seconds after which a request fails with StoreUnavailable. `max_queue`: requests that
    may wait for one server at a time. `poll`: seconds after which a change feed wakes its readers without a notice.
    `max_journal`, `max_code`: the most bytes that are read as the journal of a call, and as the code of a handler.

    Raises:
        ConfigError: a value is out of its range, or the URL has none of these forms.
    """

    url: str | None = field(default=None, repr=False)
    namespace: str = "default"
    op_timeout: float = OP_TIMEOUT
    max_queue: int = 10_000
    poll: float = POLL
    max_journal: int = 15 * 1024 * 1024
    max_code: int = 1024 * 1024

    def __post_init__(self) -> None:
        Keys(self.namespace)
        for name in ("op_timeout", "max_queue", "poll", "max_journal", "max_code"):
            if not getattr(self, name) > 0:
                raise ConfigError(
                    f"the store's {name} is {getattr(self, name)}; it must be above 0; nothing was started"
                )
        if self.url is not None and self.scheme not in (*_ONE, *address.KINDS):
            raise ConfigError(self._unknown())
        try:
            _ = self.address
        except ValueError as error:
            raise ConfigError(f"FRAMEHOLD_STORE_URL of kind {self.scheme}://: {error}; nothing was started") from None

    @property
    def scheme(self) -> str:
        """The kind of the store: the scheme of the URL, or `memory` without a URL."""
        return "memory" if self.url is None else self.url.partition("://")[0].lower()

    @property
    def address(self) -> address.Address | None:
        """The parts of a URL that names several servers; None for any other URL.

        Raises:
            ValueError: the URL is malformed. Never raised after construction, which has checked it.
        """
        return address.parse(self.url) if self.url is not None and self.scheme in address.KINDS else None

    @property
    def target(self) -> str:
        """The URL as logs may show it: without user, password, options and database."""
        if self.url is None:
            return "memory"
        if (several := self.address) is not None:
            return str(several)
        try:
            parts = urlsplit(self.url)
            place = parts.path if self.scheme == "unix" else f"{parts.hostname or ''}:{parts.port or 6379}"
        except ValueError:
            place = "?"
        return f"{self.scheme}://{place}"

    def _unknown(self) -> str:
        scheme = self.scheme[:40] if "://" in (self.url or "") else "(none)"
        return (
            f"FRAMEHOLD_STORE_URL with scheme {scheme} names no kind of store; use redis://, rediss:// or unix:// for "
            "one server, redis+sentinel://HOST,HOST,HOST/SERVICE or redis+cluster://HOST,HOST,HOST for several (TLS: "
            "rediss+...), or leave it out for memory; nothing was started"
        )

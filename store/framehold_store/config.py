"""The settings of a store. The program that builds one reads them (FRAMEHOLD_STORE_URL, FRAMEHOLD_NAMESPACE)."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from framehold_core.errors import ConfigError

from .base import POLL
from .keys import Keys

_REDIS = ("redis", "rediss", "unix")
_LATER = ("sentinel", "cluster")


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the store is and how patient its callers are.

    `url`: None for this process's memory, `embedded://` for a fake Redis inside it, else redis://, rediss:// or
    unix://. `namespace`: fleets that share a Redis differ in it. `op_timeout`: seconds until a request is
    StoreUnavailable. `max_queue`: requests that may wait for the store at once. `poll`: seconds of silence after
    which a change feed wakes.

    Raises:
        ConfigError: a value is out of its range, or the URL is of no kind that this release knows.
    """

    url: str | None = field(default=None, repr=False)
    namespace: str = "default"
    op_timeout: float = 1.0
    max_queue: int = 10_000
    poll: float = POLL

    def __post_init__(self) -> None:
        Keys(self.namespace)
        for name, value in (("op_timeout", self.op_timeout), ("max_queue", self.max_queue), ("poll", self.poll)):
            if not value > 0:
                raise ConfigError(f"the store's {name} is {value}; it must be above 0; nothing was started")
        if self.url is not None and self.scheme not in (*_REDIS, "embedded"):
            raise ConfigError(self._unknown())

    @property
    def scheme(self) -> str:
        """Which kind of store: the URL's scheme, `memory` without one."""
        return "memory" if self.url is None else self.url.partition("://")[0].lower()

    @property
    def target(self) -> str:
        """The URL as logs may show it: without user and password, query and path."""
        if self.url is None:
            return "memory"
        try:
            parts = urlsplit(self.url)
            place = parts.path if self.scheme == "unix" else f"{parts.hostname or ''}:{parts.port or 6379}"
        except ValueError:
            place = "?"
        return f"{self.scheme}://{place}"

    def _unknown(self) -> str:
        later = any(word in self.scheme for word in _LATER)
        reason = "is not served by this release" if later else "names no kind of store"
        scheme = self.scheme[:40] if "://" in (self.url or "") else "(none)"
        return (
            f"FRAMEHOLD_STORE_URL with scheme {scheme} {reason}; use redis://, rediss:// or unix://, or leave it "
            "out for memory; nothing was started"
        )

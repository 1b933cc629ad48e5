"""The settings of a router: `FRAMEHOLD_*` environment variables.

Each limit has a default, and the error of a request that exceeds it names the setting.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from framehold_fleet.config import MAX_SECONDS, FleetSettings, Listed, listed
from framehold_fleet.identity.router_keys import RouterKey
from framehold_fleet.limits import Limits

TRACE_ID = "{trace_id}"
"""What stands for the id of a trace in FRAMEHOLD_TRACE_URL."""


class RouterSettings(FleetSettings):
    """The settings of a router."""

    router_keys: Listed = ()
    """What a router needs of the fleet's keys, as `framehold keys router` prints it. It takes the place of
    FRAMEHOLD_KEYS, with which a router could open tokens and stored values."""
    connect_timeout: float = Field(1.0, gt=0, le=60)
    """Seconds after which connecting to a node fails, and the next node is tried."""
    upstream_timeout: float = Field(30.0, gt=0, le=MAX_SECONDS)
    """Seconds for which a node may send nothing during a request. A node sends a ping every 15 s."""
    client_timeout: float = Field(30.0, gt=0, le=MAX_SECONDS)
    """Seconds that a client may take to send a complete request, or to read a response."""
    keep_alive: float = Field(75.0, gt=0, le=MAX_SECONDS)
    """Seconds for which an idle connection of a client stays open."""
    max_buffered: int = Field(256 * 1024 * 1024, gt=0)
    """Bytes of requests that are held, from all clients together: of unfinished heads and bodies, and of bodies above 4
    KiB until the response begins."""
    max_connections: int = Field(10_000, gt=0)
    """Connections of clients at once."""
    max_head: int = Field(32 * 1024, ge=4096, le=1024 * 1024)
    """Bytes of a request's head: its first line and its headers. Also of the framing of a chunked body, beyond a
    quarter of that body."""
    max_headers: int = Field(100, ge=20)
    """Headers of a request."""
    history: bool = True
    """Whether the figures of the fleet are kept in the store, for a day."""
    trace_url: str = ""
    """The address of a trace, with `{trace_id}` for its id, to which the dashboard links each ended call; none if
    empty."""

    @property
    def limits(self) -> Limits:
        """What clients may hold of a router."""
        return Limits(
            max_body=self.max_body,
            max_head=self.max_head,
            max_headers=self.max_headers,
            max_connections=self.max_connections,
            max_buffered=self.max_buffered,
            client_timeout=self.client_timeout,
            keep_alive=self.keep_alive,
            settings=frozenset(name.upper() for name in Limits.__struct_fields__ if name != "settings"),
        )

    @field_validator("router_keys", mode="before")
    @classmethod
    def _split_again(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("router_keys")
    @classmethod
    def _derived(cls, value: tuple[str, ...], found: ValidationInfo) -> tuple[str, ...]:
        for text in value:
            RouterKey.parse(text)
        if value and found.data.get("keys"):
            raise ValueError("FRAMEHOLD_KEYS is set too, and a router must not have it; unset FRAMEHOLD_KEYS")
        return value

    def known_keys(self) -> tuple[bytes | RouterKey, ...]:
        """What this router has of the fleet's keys; the first proves, all are believed."""
        return tuple(map(RouterKey.parse, self.router_keys)) or self.secrets()

    @field_validator("trace_url")
    @classmethod
    def _leads_to_a_trace(cls, value: str) -> str:
        if value and not (value.startswith(("http://", "https://")) and TRACE_ID in value):
            raise ValueError(f"must begin with http:// or https:// and have {TRACE_ID} where the id of a trace belongs")
        return value

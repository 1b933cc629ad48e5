"""Settings of a node: `FRAMEHOLD_*` environment variables beside those that all of a fleet has in common.

Each limit has a default, and the error of whoever meets it names the setting.
"""

from __future__ import annotations

import re
import socket
from typing import Any, Literal

from pydantic import ByteSize, Field, ValidationError, field_validator

from framehold_core.ids import is_node_id
from framehold_router.config import FleetSettings, Listed, listed, wrong
from framehold_router.config import load as load_settings


class Settings(FleetSettings):
    """Everything that a node can be told. Field `x` is read from `FRAMEHOLD_X`; times are in seconds, sizes in
    bytes."""

    node_id: str = Field(default_factory=lambda: _hostname())  # noqa: PLW0108 - defined below
    advertise_url: str = ""
    lease_ttl: float = Field(5.0, gt=0.2, le=300)
    token_ttl: float = Field(600.0, gt=0, le=86_400 * 7)
    max_round: float = Field(300.0, gt=0)
    drain_timeout: float = Field(30.0, ge=0)
    """After SIGTERM: how long rounds may run on, and calls be answered that only this process can carry on."""
    drain_at_least: float = Field(0.0, ge=0, le=10)
    """After SIGTERM: how long it goes on with nothing left to do, for load balancers that must hear of it first."""
    max_parked: int = Field(20_000, gt=0)
    """Frames on this node. Beyond it, frames of re-entrant handlers that were parked the longest are evicted for new
    calls; where there is none, new calls are refused."""
    max_parked_per_principal: int = Field(1_000, gt=0)
    """The same for one authenticated user, whose new calls are refused beyond it."""
    memory_limit: ByteSize | None = Field(None, gt=0)
    """Bytes (512Mi and 2GiB are understood) that this process may have resident; by default its cgroup's limit. From
    90 % on, frames of re-entrant handlers that were parked the longest are evicted until 80 % are reached; where there
    is none, and beyond the limit, new calls are refused."""
    strategy: Literal["hold", "replay"] = "hold"
    """Where a call waits: in a frame in memory, or in its token, from which any node re-enters the handler."""
    rehearse: bool = False
    """Drop each frame of a re-entrant handler when it asks, so that each answer replays it: a test of its promise."""
    pickle: bool = True
    """Whether what `once` returns may be pickled where JSON can't hold it."""
    max_value: int = Field(1024 * 1024, gt=0)
    """One value of a journal: an answer, or what `once` returned."""
    max_journal: int = Field(4 * 1024 * 1024, gt=0)
    """All of a call's journal."""
    legacy_shim: bool = True
    """Whether a handler that returns its questions serves clients of earlier revisions too, over their live
    session."""
    max_rounds: int = Field(8, gt=0)
    """How often such a handler is entered again within one request of such a client."""
    round_timeout: float = Field(600.0, gt=0)
    """How long such a client may take for each answer, or stay silent about its progress."""
    allowed_hosts: Listed = ()
    allowed_origins: Listed = ()

    @field_validator("allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("memory_limit", mode="before")
    @classmethod
    def _as_kubernetes_writes_it(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if re.fullmatch(r"\d+(\.\d+)? ?([kmgt]i?)?b?", value.strip(), re.IGNORECASE) is None:
            raise ValueError("must be a number of bytes, or one like 512Mi or 2GiB")
        return f"{value}B" if value.endswith("i") else value

    @field_validator("node_id")
    @classmethod
    def _names_a_node(cls, value: str) -> str:
        if not is_node_id(value):
            raise ValueError("must be 1 to 63 letters, digits, '-' or '_'")
        return value


def load(**overrides: Any) -> Settings:
    """A node's settings from the environment; `overrides` that are not None count more, here and for whatever reads it
    later.

    Raises:
        ConfigError: a setting is malformed; the message names it by its environment variable.
    """
    return load_settings(Settings, **overrides)


def decided(settings: Settings, **said: Any) -> Settings:
    """`settings` but for what an author says in code.

    Raises:
        ConfigError: that is malformed; the message names the argument.
    """
    if not said:
        return settings
    try:
        return Settings(**{**settings.model_dump(exclude_unset=True), **said})
    except ValidationError as error:
        raise wrong(error, said) from None


def _hostname() -> str:
    """The machine's name, as far as it may name a node."""
    name = "".join(
        char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in socket.gethostname()
    )
    return name.strip("-_")[:63] or "node"

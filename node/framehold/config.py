"""Settings of a node: `FRAMEHOLD_*` environment variables, read here and nowhere else.

Each limit has a default, and the error of whoever meets it names the setting.
"""

from __future__ import annotations

import os
import socket
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from framehold_core.errors import ConfigError
from framehold_core.ids import is_node_id
from framehold_store.config import StoreConfig

KEY_BYTES = 32
"""The least length of a key, in bytes."""

Listed = Annotated[tuple[str, ...], NoDecode]
"""Comma-separated in the environment."""


class Settings(BaseSettings):
    """Everything that a node can be told. Field `x` is read from `FRAMEHOLD_X`; times are in seconds, sizes in
    bytes."""

    model_config = SettingsConfigDict(env_prefix="FRAMEHOLD_", extra="ignore", frozen=True)

    store_url: str | None = None
    namespace: str = "default"
    node_id: str = Field(default_factory=lambda: _hostname())  # noqa: PLW0108 - defined below
    advertise_url: str = ""
    keys: Listed = ()
    lease_ttl: float = Field(5.0, gt=0.2, le=300)
    token_ttl: float = Field(600.0, gt=0, le=86_400 * 7)
    max_round: float = Field(300.0, gt=0)
    max_parked: int = Field(20_000, gt=0)
    max_parked_per_principal: int = Field(1_000, gt=0)
    max_body: int = Field(4 * 1024 * 1024, gt=0)
    allowed_hosts: Listed = ()
    allowed_origins: Listed = ()
    log_level: str = "info"

    @field_validator("keys", "allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("keys")
    @classmethod
    def _long_enough(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(len(key.encode()) < KEY_BYTES for key in value):
            # The value itself stays out of the message: it is a secret.
            raise ValueError(f"each key must have at least {KEY_BYTES} bytes; make one with: framehold keys new")
        if len(set(value)) < len(value):
            raise ValueError("a key is listed twice; leave each in once")
        return value

    @field_validator("node_id")
    @classmethod
    def _names_a_node(cls, value: str) -> str:
        if not is_node_id(value):
            raise ValueError("must be 1 to 63 letters, digits, '-' or '_'")
        return value

    @field_validator("log_level")
    @classmethod
    def _names_a_level(cls, value: str) -> str:
        if value.lower() not in ("debug", "info", "warning", "error", "critical"):
            raise ValueError("must be debug, info, warning, error or critical")
        return value.lower()

    def secrets(self) -> tuple[bytes, ...]:
        """The keys as bytes; the first seals, all open."""
        return tuple(key.encode() for key in self.keys)

    def store(self) -> StoreConfig:
        """The store's part."""
        return StoreConfig(url=self.store_url, namespace=self.namespace)


def load(**overrides: Any) -> Settings:
    """Read the environment; `overrides` that are not None count more, here and for whatever reads it later.

    Raises:
        ConfigError: a setting is malformed; the message names it by its environment variable.
    """
    # A server's module may read the settings itself, when it is imported: it must see the same.
    os.environ.update(
        {f"FRAMEHOLD_{name.upper()}": str(value) for name, value in overrides.items() if value is not None}
    )
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = "FRAMEHOLD_" + str(first["loc"][0]).upper()
        raise ConfigError(
            f"{name} is wrong: {first['msg'].removeprefix('Value error, ')}; nothing was started"
        ) from None


def _hostname() -> str:
    """The machine's name, as far as it may name a node."""
    name = "".join(
        char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in socket.gethostname()
    )
    return name.strip("-_")[:63] or "node"

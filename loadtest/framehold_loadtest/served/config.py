"""What a served process is told by its environment."""

from __future__ import annotations

from pydantic_settings import BaseSettings, SettingsConfigDict


class ServedSettings(BaseSettings):
    """`LOADTEST_LEDGER` names the ledger's file. The other two break on purpose what a check must then notice."""

    model_config = SettingsConfigDict(env_prefix="LOADTEST_", extra="ignore", frozen=True)

    ledger: str
    guarded: bool = True
    """Whether effects stand under `once`."""
    reentrant: bool = True
    """Whether the tool is marked."""

"""The settings of a served process, from its environment."""

from __future__ import annotations

from pydantic_settings import BaseSettings, SettingsConfigDict


class ServedSettings(BaseSettings):
    """`LOADTEST_LEDGER` names the ledger's file. `guarded` and `reentrant` break on purpose what a check must then
    notice."""

    model_config = SettingsConfigDict(env_prefix="LOADTEST_", extra="ignore", frozen=True)

    ledger: str
    guarded: bool = True
    """Whether effects stand under `once`."""
    keyed: bool = True
    """Whether their service is given idempotency keys: without, each of them has an intent of its own."""
    reentrant: bool = True
    """Whether the tool is marked."""
    state_key: str = ""
    """What states that handlers return are sealed with, 32 bytes or more, the same on all servers; empty where
    Framehold seals them."""
    slow: float = 0.0
    """Seconds that its last round takes before the effect, so that a fault finds some in the middle of it."""

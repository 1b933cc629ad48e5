"""Where a node is put together: from settings to a runtime, and from a server to an ASGI app."""

from __future__ import annotations

import os

from framehold_core.errors import ConfigError
from framehold_router.internal import Trust
from framehold_store import open_store
from framehold_store.base import Store
from framehold_store.seal import Sealer

from . import clock
from .config import Settings
from .exposition import Exposition
from .heartbeat import Alone, Heartbeat
from .metrics import Metrics
from .names import Names
from .peers import Peers
from .runtime import Runtime


def build(settings: Settings, token_ttl: float, store: Store | None = None) -> Runtime:
    """A runtime, not yet opened. `store` is what it shares with others of this process, which must have its keys.

    Raises:
        ConfigError: a store that others share needs keys that others have.
    """
    if settings.store_url is not None and not settings.keys:
        raise ConfigError(
            "FRAMEHOLD_KEYS is missing: a store outlives this process, so its values need keys that do; nothing was "
            "started; make one with: framehold keys new"
        )
    if store is None:
        store = open_store(settings.store(), clock.now)
    sealer = Sealer(settings.secrets() or (os.urandom(32),), settings.namespace)
    heartbeat: Heartbeat | Alone
    if settings.store_url is None:
        heartbeat = Alone(settings.node_id)
    else:
        heartbeat = Heartbeat(store, settings.node_id, settings.advertise_url, settings.lease_ttl)
    peers = Peers(settings.node_id, Trust(settings.secrets()), None if settings.store_url is None else store)
    runtime = Runtime(store, heartbeat, sealer, settings.model_copy(update={"token_ttl": token_ttl}), peers)
    heartbeat.watches = runtime.watches
    return runtime


def counted(runtime: Runtime, names: Names) -> Exposition | None:
    """What tells the runtime's metrics, by these names; None where nothing is to be counted."""
    if not runtime.settings.metrics:
        return None
    metrics = Metrics(names)
    runtime.watches.add(metrics)
    return Exposition(runtime, metrics)

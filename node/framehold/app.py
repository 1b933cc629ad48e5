"""Builds the engine of a node from the settings: the runtime and the parts that it and others share.

`hosts/attach.py` attaches the engine to a server, and `http/app.py` puts an ASGI app in front of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from framehold_core.clock import Clock
from framehold_core.errors import ConfigError
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.wrong_clock import WrongClock
from framehold_fleet.telemetry.descriptors import SpentDescriptors
from framehold_store import open_store
from framehold_store.base import Store
from framehold_store.seal import Sealer
from framehold_store.system_clock import system_clock
from framehold_store.values import Values

from .code.keeper import CodeKeeper, Keeper
from .config import Settings
from .engine.doors.door import Door
from .engine.doors.pauses import Pauses
from .engine.doors.store_room import StoreRoom
from .engine.drain import NodeDrain
from .engine.heartbeat import Alone, Heartbeat
from .engine.loop import Loop
from .engine.observer import Observers
from .engine.orphan_scan import OrphanScan
from .engine.peers import Peers
from .engine.rechecks import Rechecks
from .engine.records import SKEW, CallRecords
from .engine.runtime import Runtime, load_of
from .engine.shared import Shared
from .engine.table import CallTable
from .engine.tasks import Tasks, run_all
from .frame.payloads import Payloads
from .telemetry.metrics import CallMetrics
from .telemetry.prometheus import Exposition
from .telemetry.tool_labels import ToolLabels


def build(
    settings: Settings,
    token_ttl: float,
    clock: Clock | None = None,
    store: Store | None = None,
    keeper: CodeKeeper | None = None,
) -> Runtime:
    """Build a runtime. It is not yet opened.

    Args:
        settings: the node's settings.
        token_ttl: seconds for which a token is valid, from the server's request-state policy.
        clock: the clock of the runtime; None for one over the clocks of this machine.
        store: a store that several runtimes of this process share, made with the same keys; None to open the store that
            the settings name.
        keeper: keeps the code of handlers; None to keep it as the settings say.

    Raises:
        ConfigError: the settings name a shared store but no keys. Nothing was started.
    """
    if settings.store_url is not None and not settings.keys:
        raise ConfigError(
            "FRAMEHOLD_KEYS is missing: a store outlives this process, so its values need keys that do; nothing was "
            "started; make one with: framehold keys new"
        )
    chosen = settings.model_copy(update={"token_ttl": token_ttl})
    clock = clock or system_clock()
    if store is None:
        store = open_store(settings.store(), clock.time)
    return assemble(chosen, store, settings.store_url is not None, clock, keeper)


def assemble(
    settings: Settings, store: Store, is_shared: bool, clock: Clock, keeper: CodeKeeper | None = None
) -> Runtime:
    """Build a runtime over `store`. `is_shared` says whether other nodes use that store: then this node needs a lease.
    `clock` and `keeper` are as for `build`."""
    counts: Counter[str] = Counter()
    table, observers = CallTable(settings, clock), Observers()
    shared = Shared(table, Tasks(counts), counts, observers, Loop(table, clock, observers, counts), clock)
    trust = Trust(settings.secrets(), settings.fleet_ca)
    seals = LeaseSeal(trust, settings.namespace)
    peers = Peers(settings.node_id, trust, seals, store if is_shared else None, clock)
    after_renewal: list[Callable[[], None]] = [WrongClock(clock).look, SpentDescriptors().look] if is_shared else []
    after_loss: list[Callable[[], None]] = []
    heartbeat: Heartbeat | Alone = Alone(settings.node_id, clock)
    if is_shared:
        heartbeat = _heartbeat(settings, store, clock, seals)
        heartbeat.load = lambda: load_of(shared, peers, drain, heartbeat).dump()
        heartbeat.on_beat, heartbeat.on_renewed = observers.beat, lambda: run_all(after_renewal)
    drain, rechecks = NodeDrain(shared, heartbeat, peers), Rechecks(shared, heartbeat)
    payloads, room = _payloads(settings, clock), StoreRoom(store, shared.tasks, is_shared)
    keeper = keeper or (_keeper(settings, store, payloads.sealer, clock) if is_shared else CodeKeeper())
    door = Door(heartbeat, Pauses(store, shared, settings.pause_after, lambda: run_all(after_loss)), table, room)
    observers.add(door.habits)
    records = CallRecords(settings, shared, payloads, keeper, drain, peers, door, rechecks)
    after_loss.append(records.store_lost)
    return Runtime(
        settings,
        store,
        shared,
        heartbeat=heartbeat,
        peers=peers,
        records=records,
        drain=drain,
        door=door,
        orphan_scan=OrphanScan(store, heartbeat, seals, settings.max_attempts, SKEW + settings.max_round),
        rechecks=rechecks,
        after_renewal=after_renewal,
    )


def _heartbeat(settings: Settings, store: Store, clock: Clock, seals: LeaseSeal) -> Heartbeat:
    return Heartbeat(store, clock, settings.node_id, settings.advertise_url, settings.lease_ttl, seals)


def _keeper(settings: Settings, store: Store, sealer: Sealer, clock: Clock) -> CodeKeeper:
    if settings.keeps_code:
        return Keeper(store, sealer, settings.max_code, clock.now)
    return CodeKeeper()


def _payloads(settings: Settings, clock: Clock) -> Payloads:
    sealer = Sealer(settings.secrets() or (clock.fresh(32),), settings.namespace)
    return Payloads(sealer, Values(pickle=settings.pickle, limit=settings.max_value))


def counted(runtime: Runtime, labels: ToolLabels) -> Exposition | None:
    """Add metrics to a runtime, with tools named by `labels`; None if the settings switch metrics off."""
    if not runtime.settings.metrics:
        return None
    metrics = CallMetrics(labels)
    runtime.observers.add(metrics)
    return Exposition(runtime, metrics)

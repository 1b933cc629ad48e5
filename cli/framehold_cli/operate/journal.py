"""`framehold journal CALL`: the journal of one call with its values, in plain text, for the author of its handler.

The law: values are shown of a store on this machine alone, with keys that this user has: those that a `framehold up` of
this user made for its run, else those of this shell. The router and the nodes never send a value. A pickle is not
loaded, since loading one runs code. Nothing is written.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from framehold.engine.records import WHOLE
from framehold.frame.payloads import Payloads
from framehold_core import ids, journal
from framehold_core.ending import ANSWERS
from framehold_core.errors import ConfigError, JournalError, SealError, StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.journal import Entry, EntryKind
from framehold_core.requests import Read, Record, Stored
from framehold_fleet.config import FleetSettings
from framehold_store import StoreConfig, open_store, system_clock
from framehold_store.seal import Sealer
from framehold_store.values import Values

from ..client import local_fleets
from ..client.api import ApiClient
from ..show import figures
from ..show.sheet import Grid, Sheet, facts
from .lease import how, named

_WITHOUT = "no value was read; framehold lease CALL shows a journal without its values"
_DROPPED = "It has no entries: its journal is dropped when it has ended."
_UNOPENED = "(sealed with other keys than these)"
_UNSEALED = "not sealed for this call with these keys: other keys, or somebody has altered it; no node enters the call"


def sheet(url: str, token: str | None, text: str, store: str | None) -> Sheet:
    """A sheet of the journal of the call that `text` names. `url`: the router's. `store`: the URL of the store, where
    neither `framehold up` nor the environment names it.

    Raises:
        ConfigError: the fleet or its store is elsewhere, there are no keys, or there is no such call.
    """
    if urlsplit(url).hostname not in local_fleets.LOCAL:
        raise ConfigError(f"{url} is on another machine; {_WITHOUT}")
    with ApiClient(url, token) as api:
        call = CallId(named(api, text))
    settings = _settings(url, store)
    config = settings.store()
    _require_local(config)
    if not settings.keys:
        raise ConfigError(f"FRAMEHOLD_KEYS is not set in this shell; {_WITHOUT}")
    stored = asyncio.run(_read(config, call))
    if stored is None:
        raise ConfigError(
            f"{config.target} has no record of call {ids.prefix(call)}: it asked nothing, it waits in its token "
            "(strategy replay), or it is no longer kept"
        )
    # A value is opened here, and never made into an object.
    values = Values(pickle=False, limit=0)
    return _sheet(call, stored, Payloads(Sealer(settings.secrets(), settings.namespace), values))


def _settings(url: str, store: str | None) -> FleetSettings:
    """The settings that open the store of the fleet at `url`: those that `framehold up` made for its run, else those of
    this shell."""
    fleet = local_fleets.at(url)
    made: dict[str, Any] = {} if fleet is None else {"namespace": fleet.namespace}
    if fleet is not None and fleet.keys:
        made["keys"] = fleet.keys
    if fleet is not None and fleet.store_url:
        made["store_url"] = fleet.store_url
    if store is not None:
        made["store_url"] = store
    return FleetSettings(**made)


def _require_local(config: StoreConfig) -> None:
    """Raise ConfigError if the store is not one server on this machine."""
    if config.scheme == "memory":
        raise ConfigError(
            f"the store of this fleet is not known; {_WITHOUT}; name it with --store or FRAMEHOLD_STORE_URL (a node "
            "without one keeps its journals in its memory)"
        )
    local = config.scheme == "unix" or (
        config.address is None and urlsplit(config.url or "").hostname in local_fleets.LOCAL
    )
    if not local:
        raise ConfigError(f"the store {config.target} is not on this machine; {_WITHOUT}")


async def _read(config: StoreConfig, call: CallId) -> Stored | None:
    store = open_store(config, system_clock.system_clock().time)
    try:
        await store.open()
        return (await store.run(Read(call))).stored
    except (StoreUnavailable, OSError):
        raise ConfigError(f"the store {config.target} does not answer; {_WITHOUT}") from None
    finally:
        await store.close()


def _sheet(call: CallId, stored: Stored, payloads: Payloads) -> Sheet:
    record = stored.record
    try:
        entries = journal.decode_all(stored.journal)
    except JournalError as error:
        raise ConfigError(f"the journal of call {ids.prefix(call)} can't be read: {error}") from None
    found = [_entry(call, item, payloads) for item in entries]
    result = _outcome(call, record, payloads)
    ending = record.ending
    ended = how(ending.how, ending.error, ending.place) if ending else f"not yet; it is {record.state}"
    rows = [
        ("call", f"{ids.prefix(call)}: {record.head.tool} ({record.head.method})"),
        ("ended", ended),
        ("rounds", str(record.round + (ending is not None and ending.how in ANSWERS))),
        ("node", record.owner),
    ]
    if not payloads.sealer.is_sealed(call, record.head):
        rows.append(("head", _UNSEALED))
    if result is not None:
        rows.append(("result", _text(result)))
    table = [[str(one["n"]), str(one["round"]), one["kind"], one["key"], _text(one["value"])] for one in found]
    data = {"call_id": call, "tool": record.head.tool, "record": record.state, "entries": found, "result": result}
    grid = Grid(("ENTRY", "ROUND", "KIND", "KEY", "VALUE"), table, _DROPPED if ending else "It has no entries.")
    return Sheet([facts(rows), grid], data)


def _entry(call: CallId, item: Entry, payloads: Payloads) -> dict[str, Any]:
    """An entry as JSON. Its value is what was recorded; null if the entry has none."""
    return {
        "n": item.n,
        "round": item.round,
        "kind": item.kind.value,
        "key": item.key,
        "codec": item.codec,
        "value": _value(call, item, payloads),
    }


def _value(call: CallId, item: Entry, payloads: Payloads) -> Any:
    try:
        data = payloads.opened(call, item)
    except SealError:
        return _UNOPENED
    if not data:
        return None
    if item.codec == "text" and item.kind is EntryKind.ASK:
        return data.decode("utf-8", "replace")
    if "pickle" in item.codec:
        return f"(a pickle of {figures.size(len(data))}; it is not loaded)"
    return _json(data)


def _outcome(call: CallId, record: Record, payloads: Payloads) -> Any:
    """The result of a call that has ended, as it went to the client; None if it has none, or it was too large to be
    kept."""
    if not record.outcome:
        return None
    try:
        data = payloads.sealer.open("outcome", record.outcome, call=call, n=record.position, kind="outcome", key="")
    except SealError:
        return _UNOPENED
    whole = data.removeprefix(WHOLE)
    return None if whole == data else _json(whole[1:])


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def _text(value: Any) -> str:
    if value is None:
        return figures.UNKNOWN
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""`framehold lease CALL`: one call with its rounds across nodes, its journal without values, and its fate."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from urllib.parse import quote

from framehold_core import ids
from framehold_core.errors import ConfigError
from framehold_fleet.models.calls import CallsView, CallView, LeasesView, Trail

from ..client.api import ApiClient
from ..show import figures
from ..show.sheet import Grid, Sheet, facts

_PART_OF_ID = re.compile(r"[0-9A-Za-z-]{1,36}")


def named(api: ApiClient, text: str) -> str:
    """The id of the call that `text` names: `text` is the whole id, or a prefix that no other call has.

    Raises:
        ConfigError: no call has the prefix, or more than one.
    """
    if not _PART_OF_ID.fullmatch(text):
        raise ConfigError("this is no call's id: letters, digits and hyphens; list calls with framehold leases")
    if ids.is_call_id(text):
        return text
    page = api.get("leases", LeasesView, call=text, limit=2).view
    if page.total == 1 and len(page.items) == 1:
        return page.items[0].call_id
    if page.total:
        raise ConfigError(f"{page.total:,} calls begin with {text}; give more of the id (framehold leases -o json)")
    ended = api.get("calls", CallsView, call=text, limit=2).view
    if ended.total == 1 and len(ended.items) == 1:
        return ended.items[0].call_id
    if ended.total:
        raise ConfigError(
            f"{ended.total:,} ended calls begin with {text}; give more of the id (framehold calls -o json)"
        )
    silent = [*page.missing, *(["the store"] if ended.stale else [])]
    missing = f" (no answer came from {', '.join(silent)})" if silent else ""
    raise ConfigError(
        f"no call begins with {text}{missing}; framehold leases lists the open calls, "
        "framehold calls those that ended in the last hour; a call that only the store keeps needs its whole id"
    )


def lease(api: ApiClient, text: str) -> Sheet:
    """A sheet about one call: its facts, its steps and its journal. `text` is the call's id or a prefix of it.

    Raises:
        ConfigError: `text` names no call, or more than one."""
    answer = api.get(f"leases/{quote(named(api, text), safe='')}", CallView)
    view, now = answer.view, time.time()
    journal = [
        [str(one.n), one.kind, one.key, str(one.round), figures.cell(one.lane), figures.size(one.bytes)]
        for one in view.journal
    ]
    parts: list[Grid | str] = [
        facts(_facts(view, now)),
        Grid(("AT", "ROUND", "EPOCH", "NODE", "STEP", "RAN", ""), timeline(view.trail, now), "Its steps are not kept."),
        Grid(("ENTRY", "KIND", "KEY", "ROUND", "LANE", "SIZE"), journal, "No journal of it is kept."),
    ]
    return Sheet(parts, answer.raw)


def _facts(view: CallView, now: float) -> list[tuple[str, str]]:
    cause = f" ({view.cause})" if view.cause and view.cause != view.outcome else ""
    promise = "re-entrant" if view.reentrant else "not re-entrant"
    deaths = f"; {figures.many(view.attempts, 'node')} died of this round" if view.attempts else ""
    rows = [
        ("call", f"{ids.prefix(view.call_id)}: {view.tool} ({view.method})"),
        *_end(view),
        ("record", f"{view.record}{cause}, round {view.round}, epoch {view.epoch} of {view.node_id}{deaths}"),
        ("promise", f"{promise}; strategy {view.strategy}"),
    ]
    if view.created is not None:
        rows.append(("began", f"{figures.clock(view.created, now)}, {figures.since(view.created, now)} ago"))
    if view.expires is not None:
        rows.append(("kept", f"until {figures.clock(view.expires, now)}, for {figures.left(view.expires, now)}"))
        if view.expires <= now:
            rows[-1] = ("kept", f"until {figures.clock(view.expires, now)}, which is over")
    if view.live is not None:
        phase = f": {view.live.phase}" if view.live.phase else ""
        until = f"; its token expires in {figures.left(view.live.expires, now)}" if view.live.expires else ""
        rows.append(("frame", f"{view.live.state} on {view.live.node_id}{phase}{until}"))
        rows += [("stands at" if not index else "", place) for index, place in enumerate(view.live.stands_at)]
    else:
        rows.append(("frame", "no node holds one"))
    return [*rows, ("fate", view.fate or figures.UNKNOWN)]


def _end(view: CallView) -> list[tuple[str, str]]:
    """A row that says how the call ended; none while it is open, and where nobody knows it."""
    return [("ended", how(view.outcome, view.error, view.place))] if view.outcome else []


def how(outcome: str, error: str, place: str) -> str:
    """How a call ended, in words: `tool error: ValueError at shop:refund:41`."""
    raised = f": {error}" if error else ""
    return f"{outcome.replace('_', ' ')}{raised}{f' at {place}' if place else ''}"


def timeline(trail: Sequence[Trail], now: float) -> list[list[str]]:
    """A row for each step. The last cell marks a step whose epoch is another than that of the step before."""
    rows: list[list[str]] = []
    before: Trail | None = None
    for step in trail:
        at, name = figures.clock(step.at, now), f"{step.step}, kept code" if step.kept_code else step.step
        rows.append([at, str(step.round), str(step.epoch), step.node_id, name, figures.quick(step.ran)])
        rows[-1].append(_marker(before, step))
        before = step
    return rows


def _marker(before: Trail | None, step: Trail) -> str:
    if before is None or step.epoch == before.epoch:
        return ""
    if before.node_id == step.node_id:
        return "<- entered again"
    return f"<- taken over from {before.node_id}"

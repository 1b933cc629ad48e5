"""The problems of the store. What follows from a store that is full, refuses or is silent is not listed beside it: a
node that is restarted because its lease ran out loses the frames which hold what the store lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from framehold_fleet.members.losses import LOSS_SHOWN
from framehold_fleet.members.store_health import FULL, NEARLY_SLOW, REFUSES, SILENT
from framehold_fleet.models.nodes import OF_STORE
from framehold_fleet.models.problems import ProblemView

from .seen import NEARLY_FULL, RUNBOOK, FleetFacts, harm, risk
from .wording import many, names, remedy, span

_KEEP_NODES = "do not restart nodes: their frames write again what the store lacks"


def store(seen: FleetFacts) -> Iterator[ProblemView]:
    if seen.store_state == FULL:
        text = "the store is full: no node can write to it, and calls that ask are refused until it has room"
        text += _unheard(seen)
        do = f"give the store more memory, or delete what is not Framehold's; {_KEEP_NODES}"
        yield harm("store_full", text, do, f"{RUNBOOK}a-full-store")
    elif seen.store_state == REFUSES:
        refused = [node for node in seen.nodes if node.store == REFUSES]
        says = seen.store.says or next((node.store_says for node in refused if node.store_says), "") or "an error"
        whom = names([node.node_id for node in refused]) or "the router"
        text = f"the store refuses what {whom} asks: it answers {says!r}; calls that need it wait or are refused"
        text += _unheard(seen)
        yield harm("store_refuses", text, f"{remedy(says)}; {_KEEP_NODES}", f"{RUNBOOK}frameholdstoreerrors")
    elif seen.store_state == SILENT:
        silent = [node.node_id for node in seen.nodes if node.store == SILENT]
        everybody = bool(silent) and len(silent) == len(seen.nodes)
        wait = "no node can write to it, " if everybody else ""
        wait += "rounds that need it wait, new calls that ask get 503"
        whom = names(silent) or "the router"
        text = f"the store does not answer {whom}: {wait}, and what is known of the fleet may be old"
        text += _unheard(seen)
        yield harm("store_silent", text, f"look at the store; {_KEEP_NODES}", f"{RUNBOOK}frameholdstoreerrors")
    elif (use := seen.store.memory) is not None and use.used >= NEARLY_FULL * use.limit:
        refusing = [node.node_id for node in seen.nodes if OF_STORE in {met.limit for met in seen.refused(node)}]
        now = f", as {names(refusing)} did within the last minute" if refusing else ""
        text = (
            f"the store uses {use.used / use.limit:.0%} of its memory; from 90% on new calls that ask are refused{now}"
        )
        do, say = "raise its maxmemory, or lower FRAMEHOLD_TOKEN_TTL", harm if refusing else risk
        yield say("store_memory", text, do, f"{RUNBOOK}a-full-store")


def _unheard(seen: FleetFacts) -> str:
    """The nodes that live although the store does not hear of them; empty if there are none."""
    found = [node.node_id for node in seen.nodes if node.unheard]
    if not found:
        return ""
    return f" (not heard of by the store, and serving what needs no store: {names(found)})"


def slow(seen: FleetFacts) -> Iterator[ProblemView]:
    """A store whose round trips are nearly too long, or too long, as the heartbeats of nodes show that it answers."""
    trips = [(node.node_id, node.round_trip, node.longest_round_trip) for node in seen.nodes if node.store != SILENT]
    share, text = round_trip(trips)
    if share >= NEARLY_SLOW:
        times = max(node.slow_heartbeats or 0 for node in seen.nodes)
        text += f" {many(times, 'time')} in the last minute" if times else ""
        do, say = f"{LESS_SLOW}; {_KEEP_NODES}", harm if share >= 1 else risk
        yield say("store_slow", text + _BEYOND, do, f"{RUNBOOK}frameholdstoretooslow")


LESS_SLOW = "look at the store's load, and at the network to it"
_BEYOND = "; with more, requests to the store fail or come too late, and calls that ask get 503"


def round_trip(trips: Iterable[tuple[str, float | None, float | None]]) -> tuple[float, str]:
    """What heartbeats take at the store, as a part of the longest with which a node works, and in words: those of the
    node that has it worst. `trips` has for each node its name and both times, in seconds. 0.0 if nothing is known."""
    known = [(took / longest, took, longest, name) for name, took, longest in trips if took is not None and longest]
    if not known:
        return 0.0, ""
    share, took, longest, worst = max(known)
    whom = sorted(name for part, *_, name in known if part >= NEARLY_SLOW) or [worst]
    return share, f"heartbeats take {took * 1000:,.0f} of {longest * 1000:,.0f} ms at the store ({names(whom)})"


def emptied(seen: FleetFacts) -> Iterator[ProblemView]:
    """A store that has lost what it had acknowledged: what was written again, and what nobody can write again."""
    losses = [loss for loss in (seen.loss, *(node.store_loss for node in seen.nodes)) if loss is not None]
    at = max((loss.at for loss in losses), default=0.0)
    if at <= seen.at - LOSS_SHOWN:
        return
    newest = [loss for loss in losses if loss.at == at]
    calls, pauses = (sum(getattr(loss, what) for loss in newest) for what in ("calls", "pauses"))
    whole = span(at - newest[0].since)
    text = (
        f"the store {newest[0].how}: noticed {span(seen.at - at)} ago, at most {whole} after it was whole; at least "
        f"{many(calls, 'call')} with live frames and {many(pauses, 'paused tool')} were written again; what it alone "
        "had and lost is gone: calls without a frame, outcomes of ended calls, events, figures"
    )
    do = "look why it lost its data; tell the authors of tools that pay, send or book that an effect may run again"
    yield risk("store_emptied", text, do, f"{RUNBOOK}a-store-that-was-emptied-or-restored")


def clock(seen: FleetFacts) -> Iterator[ProblemView]:
    """A store whose clock is wrong. A node or two whose clocks are wrong have a problem each."""
    if (ahead := seen.store_offset) is not None:
        off = span(abs(ahead))
        text = (
            f"the store's clock is {off} {'ahead of' if ahead > 0 else 'behind'} all nodes' and this router's: tokens "
            f"are judged by it, and those from before it was set end {off} {'early' if ahead > 0 else 'late'}"
        )
        yield risk("clock_wrong", text, "run a time service (NTP) on the store's machine", "/dashboard/nodes")


def unsaved(seen: FleetFacts) -> Iterator[ProblemView]:
    """A store that answers and does not save. One that refuses writes for it, or is silent, has its own problem."""
    if (field := seen.store.unsaved) and seen.store_state not in (REFUSES, SILENT):
        text = f"the last save of the store to its disk failed ({field}): what it took since is lost if it restarts now"
        do = f"look at its log and at the room on its disk, and do not restart it; {_KEEP_NODES}"
        yield risk("store_unsaved", text, do, f"{RUNBOOK}a-store-that-does-not-save")

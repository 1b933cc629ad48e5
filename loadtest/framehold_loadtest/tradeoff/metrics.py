"""The metrics of one turn of a cell, computed from what was seen, and those of a cell, from its turns. Pure.

Law: a metric that can't be computed has a reason. An option without a store has 0 store operations and 0 CPU of a
store: that is measured, not missing.

A harm is counted in the calls that it came to, and in those that it could have come to (`..._of`): the calls that the
fault could reach. These are calls that were open when a node was killed, while one left or while the store stood still,
or whose reply was lost. Without a fault they are all calls that began. A harm that came to other calls as well needs no
fault, so all calls count then.

A round is late if it was refused before it was answered, if it took `LATE` seconds or more, or if the call could not be
begun. A late round belongs to the first fault that happened while it was tried, or else to the last one before it. A
fault took until the end of its last late round. A call that was lost is no part of it: its client waits for nothing.

A cell has medians with each turn's value, sums of what is counted, and shares of who could be hit. A turn in which the
machine was busy is left out. Where fewer than half of the turns are left, the cell was not measured, and each of its
metrics says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from framehold_loadtest import ledger
from framehold_loadtest.notes import ENDED, LOST, UNBORN, outcomes
from framehold_loadtest.report.data import NOT_MEASURED, Measured, Missing
from framehold_loadtest.report.respects import RESPECTS
from framehold_loadtest.stats import percentile
from framehold_loadtest.tradeoff.record import Seen, Turn

Metrics = dict[str, Measured | Missing]
NO_CALL = "no call came to its end"
NOT_HERE = "taken once for each option, under the undisturbed condition"
LATE = 0.5
"""Seconds. Undisturbed, on a machine that does nothing else, 99 of 100 rounds take less than a fifth of it."""
_HITS = "calls_hit_"
_DIGITS = 6


def metrics(seen: Seen, rounds: int) -> Metrics:
    """All of them."""
    return {**_costs(seen), **_pace(seen), **_waits(seen), **_rounds(seen, rounds), **_harm(seen)}


def missing(why: str) -> Metrics:
    """Those of a cell that was not measured."""
    return {respect.name: Missing(missing=why) for respect in RESPECTS}


def _ended(seen: Seen) -> int:
    return outcomes(seen.calls)[ENDED]


def _pace(seen: Seen) -> Metrics:
    within = sum(call.outcome == ENDED and call.ended <= seen.ended for call in seen.quick.calls)
    return {"calls_per_second": Measured(value=within / (seen.ended - seen.began), unit="1/s")}


def _waits(seen: Seen) -> Metrics:
    """How long users waited for calls that came to their end: all rounds, refused tries and begun-again calls too."""
    names, few = ("wait_p50_ms", "wait_p99_ms", "wait_longest_ms"), _few(seen)
    if few or not seen.waits:
        return dict.fromkeys(names, Missing(missing=few or NO_CALL))
    waits = [wait * 1e3 for wait in seen.waits]
    found = (percentile(waits, 0.5), percentile(waits, 0.99), max(waits))
    return {name: Measured(value=wait, unit="ms") for name, wait in zip(names, found, strict=True)}


def _rounds(seen: Seen, rounds: int) -> Metrics:
    """Of each round that was answered, however late."""
    found: Metrics = {}
    few = _few(seen)
    for number in range(1, rounds + 1):
        turns = [turn for turn in seen.turns if turn.round == number and turn.answered]
        for name, measured in _of_round(turns, few, last=number == rounds):
            found[f"{name}_round_{number}"] = measured
    return found


def _few(seen: Seen) -> str:
    """Why times and costs of calls say nothing: most calls never came to an end. Empty where they do."""
    ended, tried = _ended(seen), len(seen.calls)
    return "" if 2 * ended >= tried else f"{ended} of {tried} calls came to their end"


def _of_round(turns: Sequence[Turn], few: str, *, last: bool) -> Iterator[tuple[str, Measured | Missing]]:
    if not turns:
        for name in ("p50_ms", "p99_ms", "wire_bytes", *(() if last else ("token_bytes",))):
            yield name, Missing(missing="none was answered")
        return
    times = [turn.seconds * 1e3 for turn in turns]
    for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
        yield name, Missing(missing=few) if few else Measured(value=percentile(times, share), unit="ms")
    yield "wire_bytes", Measured(value=median(turn.sent + turn.received for turn in turns), unit="bytes")
    if not last:  # its reply asks nothing, so it has no token
        yield "token_bytes", Measured(value=median(turn.token for turn in turns), unit="bytes")


def _costs(seen: Seen) -> Metrics:
    found: Metrics = {f"cpu_us_{place}": _each(seen, spent * 1e6, "us") for place, spent in seen.cpu.items()}
    found["store_ops"] = _each(seen, seen.store_ops, "operations")
    if not seen.parked:
        why = NOT_HERE if seen.parked is None else "no call came to its first question"
        return found | {"bytes_per_parked_call": Missing(missing=why)}
    return found | {
        f"bytes_per_parked_call_{place}": Measured(value=each, unit="bytes") for place, each in seen.parked.items()
    }


def _each(seen: Seen, total: float, unit: str) -> Measured | Missing:
    """What a call cost. Where most calls failed, what these cost would fall on the few that ended."""
    ended = _ended(seen)
    why = _few(seen) if ended else NO_CALL
    return Missing(missing=why) if why else Measured(value=total / ended, unit=unit)


def _harm(seen: Seen) -> Metrics:
    begun = {call.call for call in seen.calls if call.outcome != UNBORN}
    again = ledger.reentries(seen.lines, seen.calls)
    names = {call.call for call in seen.calls}
    mine = [line for line in seen.lines if line.partition(" ")[0] in names]
    back = recovery(seen.turns, seen.faults)
    entries = Measured(value=round(again / len(begun), 3), unit="per call") if begun else Missing(missing=NO_CALL)
    return {
        "seconds_to_recover": Missing(missing=back) if isinstance(back, str) else Measured(value=back, unit="s"),
        **_hit("lost", {call.call for call in seen.calls if call.outcome == LOST}, begun, seen),
        **_hit("repeated", ledger.repeated(mine), begun, seen),
        "reexecutions": entries,
    }


def _hit(harm: str, harmed: set[str], begun: set[str], seen: Seen) -> Metrics:
    """The calls that a harm came to, and those that it could have come to."""
    reached = _reached(seen) & begun
    could = reached if harmed <= reached else begun | harmed
    found = {harm: len(harmed), f"{harm}_of": len(could)}
    return {f"calls_hit_{name}": Measured(value=count, unit="calls") for name, count in found.items()}


def _reached(seen: Seen) -> set[str]:
    """The calls that the fault could reach; all of them where there was none."""
    if seen.loses:
        return {call.call for call in seen.slow.calls}
    if not seen.spans:
        return {call.call for call in seen.calls}
    return {call.call for call in seen.calls for start, end in seen.spans if call.began <= end and call.ended >= start}


def recovery(turns: Iterable[Turn], faults: Sequence[float]) -> float | str:
    """The longest time to recover of all faults, in seconds, or why there is none."""
    if not faults:
        return "nothing to recover from"
    late = [turn for turn in turns if _is_late(turn)]
    return max((turn.at - at for turn in late if (at := _cause(turn, faults)) is not None), default=0.0)


def _is_late(turn: Turn) -> bool:
    if not turn.answered:
        return turn.round == 1
    return turn.refused > 0 or turn.seconds >= LATE


def _cause(turn: Turn, faults: Sequence[float]) -> float | None:
    begun = turn.at - turn.seconds
    during = [at for at in faults if begun <= at <= turn.at]
    before = [at for at in faults if at < begun]
    return during[0] if during else before[-1] if before else None


@dataclass(frozen=True, slots=True)
class Turned:
    """One turn of a cell, and why it can't be used if the machine was busy."""

    metrics: Metrics
    busy: str = ""


def merged(turns: Sequence[Turned]) -> Metrics:
    """The cell."""
    quiet = [turn.metrics for turn in turns if not turn.busy]
    if 2 * len(quiet) <= len(turns):
        why = next(turn.busy for turn in turns if turn.busy)
        return missing(f"{NOT_MEASURED}, in {len(turns) - len(quiet)} of {len(turns)} turns: {why}")
    names = dict.fromkeys(name for found in quiet for name in found)
    cell = {name: _folded(name, [found[name] for found in quiet if name in found]) for name in names}
    return _harmed({name: found for name, found in cell.items() if not name.startswith(_HITS)}, cell)


def _folded(name: str, turns: Sequence[Measured | Missing]) -> Measured | Missing:
    known = [found for found in turns if isinstance(found, Measured)]
    gaps = [found for found in turns if isinstance(found, Missing)]
    if not known or len(known) < len(gaps):
        return gaps[0]
    values = [found.value for found in known]
    if name.startswith(_HITS):
        return Measured(value=sum(values), unit=known[0].unit)
    rounded = [float(f"{value:.{_DIGITS}g}") for value in values]
    return Measured(value=median(rounded), unit=known[0].unit, turns=rounded)


def _harmed(found: Metrics, cell: Metrics) -> Metrics:
    """With the share of calls that were harmed among those that could be, over all turns."""
    for harm in ("lost", "repeated"):
        hit, could = cell.get(f"{_HITS}{harm}"), cell.get(f"{_HITS}{harm}_of")
        if isinstance(hit, Measured) and isinstance(could, Measured):
            found[f"{harm}_share"] = _harm_share(hit.value, could.value)
    return found


def _harm_share(hit: float, could: float) -> Measured | Missing:
    if not could:
        return Missing(missing="no call was open that could be hit")
    return Measured(value=100 * hit / could, unit="%", beside=f"{hit:,.0f} of {could:,.0f} calls")

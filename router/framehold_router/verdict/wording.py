"""Durations, counts and states of calls as texts for people."""

from __future__ import annotations

from collections.abc import Sequence

from framehold_fleet.models.open_calls import FigureView, OpenView

UNKNOWN = "-"
STUCK = "too many nodes died of the same round, so none enters it again, and its client is told so"
_ORPHANED = "their nodes are gone; each goes on elsewhere when its client comes back"
MAX_NAMES = 10
"""Names that a sentence lists at most."""
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def span(seconds: float | None) -> str:
    """A duration in its two largest units: `3m 12s`; `-` for None."""
    if seconds is None:
        return UNKNOWN
    parts: list[str] = []
    left = max(0, int(seconds))
    for unit, size in _UNITS:
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts[:2])


def remedy(says: str) -> str:
    """What to do where a store answers with the error `says`."""
    return next((do for code, do in _REMEDIES.items() if code in says), "look at the store's own log")


_REMEDIES = {
    "BUSY": "end the script that holds it: redis-cli SCRIPT KILL; if it says UNKILLABLE, wait or restart it",
    "MISCONF": "make room on the store's disk, or mend it: see the store's own log",
    "READONLY": "name the master in FRAMEHOLD_STORE_URL, or wait for the end of the fail-over",
    "NOREPLICAS": "start the store's replicas again (min-replicas-to-write)",
    "LOADING": "wait: it loads its data",
    "MASTERDOWN": "name the master in FRAMEHOLD_STORE_URL, or start it again",
    "CLUSTERDOWN": "start the cluster's missing servers again",
    "WRONGPASS": "correct user and password in FRAMEHOLD_STORE_URL",
    "NOAUTH": "correct user and password in FRAMEHOLD_STORE_URL",
    "NOPERM": "give its user the rights that docs/operating.md#which-redis lists",
    "max number of clients": "end what holds its connections (CLIENT LIST), or raise its maxclients",
    "used memory >": "give the store more memory",
}


def many(count: int, one: str, more: str = "") -> str:
    """A count with its noun: `1 call`, `2 calls`. `more` is the plural if it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def worded(found: OpenView, now: float) -> OpenView:
    """The account of open calls with the words of its figures, at `now` in seconds since 1970."""
    texts = {name: _figure(getattr(found, name), now) for name in ("held", "asleep")}
    texts |= {name: _figure(getattr(found, name), now, found.looked) for name in ("handed_off", "orphaned")}
    if found.orphaned.count:
        texts["orphaned"] += f": {_ORPHANED}"
    figures = {name: getattr(found, name).model_copy(update={"text": text}) for name, text in texts.items()}
    return found.model_copy(update=figures)


def _figure(found: FigureView, now: float, records: int | None = None) -> str:
    """A figure of open calls with how and when it became known. `records` is how many records its scan read,
    None if no scan counts it."""
    how = {"counted": "", "estimated": "about ", "up_to": "up to "}[found.known] if found.count else ""
    if found.at is None:
        return f"{how}{found.count:,}" if found.count else "not looked up yet"
    ago = f"looked up {span(now - found.at)} ago"
    if not found.count and records is not None:
        return f"none of {many(records, 'record')}, {ago}"
    return f"{how}{found.count:,} ({ago})"


def names(found: Sequence[str]) -> str:
    """Names in a sentence; of many only the first."""
    shown, more = found[:MAX_NAMES], len(found) - MAX_NAMES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

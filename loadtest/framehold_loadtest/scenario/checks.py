"""What each scenario must show to pass: pure functions from the evidence of a run to verdicts.

Law: a verdict without evidence has failed: "no call was lost" says nothing of a node that held no call. A limit on time
holds for processes that get the cores they want. Where they waited for cores, the limit is stretched by as much, and
the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from framehold_loadtest.ledger import Effects
from framehold_loadtest.notes import ENDED, LOST, UNBORN, Notes, Round, outcomes
from framehold_loadtest.report.data import Verdict
from framehold_loadtest.report.series import AFTER, DURING, Fault, Sample, affinity, phase, stretch, worst_lag
from framehold_loadtest.stats import percentile, slope


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a run. Seconds, shares, and bytes a minute."""

    lease_ttl: float = 5.0
    takeover_grace: float = 2.0
    affinity: float = 0.999
    errors: float = 0.001
    resume_p99: float = 5.0
    loop_lag: float = 0.25
    recovery: float = 5.0
    on_its_way: float = 0.2
    most_stretch: float = 4.0
    growth: float = 2.0**20
    outcome_life: float = 660.0
    """For how long the store keeps what came of a call."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a run left behind."""

    notes: Notes
    effects: Effects | None
    """None where no ledger could be read."""
    faults: Sequence[Fault] = ()
    samples: Sequence[Sample] = ()
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def resumes(self) -> list[Round]:
        return [item for item in self.notes.rounds if item.round > 1]

    @property
    def stretch(self) -> float:
        """How much longer than its work takes the fleet took for it; no more than `most_stretch`, beyond which a limit
        would limit nothing."""
        return min(stretch(self.samples), self.bounds.most_stretch)

    def of(self, *whats: str) -> list[Fault]:
        """The faults of these kinds."""
        return [fault for fault in self.faults if fault.what in whats]


Check = Callable[[Evidence], Verdict]


def affine(seen: Evidence) -> Verdict:
    """Resumes are served where the frame is."""
    share = affinity(seen.resumes)
    shown = "no resumes" if share is None else f"{share:.2%} of {len(seen.resumes)} resumes"
    return Verdict("affinity", (share or 0) >= seen.bounds.affinity, f">= {seen.bounds.affinity:.1%}", shown)


def few_errors(seen: Evidence) -> Verdict:
    """Hardly a round is refused or fails."""
    rounds = seen.notes.rounds
    bad = sum(not item.answered or bool(item.refused) for item in rounds)
    passed = bool(rounds) and bad / len(rounds) < seen.bounds.errors
    return Verdict("errors", passed, f"< {seen.bounds.errors:.1%}", f"{bad} of {len(rounds)} rounds")


def none_visible(seen: Evidence) -> Verdict:
    """No client sees anything but answers: not even a refusal that a second try mends."""
    rounds = seen.notes.rounds
    bad = [*(why for item in rounds for why in item.refused), *(item.why for item in rounds if item.why)]
    shown = f"{len(bad)} in {len(rounds)} rounds" + (f", the first: {bad[0]}" if bad else "")
    return Verdict("client-visible errors", bool(rounds) and not bad, "0", shown)


def none_lost(seen: Evidence) -> Verdict:
    """Each call that had begun came to its right end."""
    found = outcomes(seen.notes.calls)
    passed = found[LOST] == 0 and found[ENDED] > 0
    return Verdict("calls lost", passed, "0", f"{found[LOST]} of {found[LOST] + found[ENDED]}")


def all_begin(seen: Evidence) -> Verdict:
    """Hardly a call is turned away for good: a client that is asked to come again gets in."""
    found = outcomes(seen.notes.calls)
    tried = found[ENDED] + found[LOST] + found[UNBORN]
    passed = tried > 0 and found[UNBORN] / tried < seen.bounds.errors
    why = next((f", the first: {call.why}" for call in seen.notes.calls if call.outcome == UNBORN), "")
    return Verdict("calls that never began", passed, f"< {seen.bounds.errors:.1%}", f"{found[UNBORN]} of {tried}{why}")


def effects_once(seen: Evidence) -> Verdict:
    """The ledger holds each effect of an ended call once, and none of any call twice."""
    found = seen.effects
    if found is None:
        return Verdict("effects", False, "each once", "no ledger")
    passed = found.wanted > 0 and found.once == found.wanted and found.twice == 0
    shown = f"{found.once} of {found.wanted} once, {found.never} never, {found.twice} twice"
    return Verdict("effects", passed, "each once", shown)


def resumed_in_time(seen: Evidence) -> Verdict:
    """Calls of a node that is gone go on elsewhere, after its lease and little more. One that waits until the node is
    there again is answered by its name."""
    limit = seen.bounds.lease_ttl + seen.bounds.takeover_grace * seen.stretch

    def met(item: Round) -> bool:
        away = [fault for fault in seen.faults if fault.target == item.before]
        return bool(item.refused) or item.node != item.before or _touches(item, away)

    moved = [item.seconds for item in seen.resumes if item.before and met(item)]
    worst = percentile(moved, 0.99)
    shown = f"{worst:.2f} s of {len(moved)} resumes" if moved else "no call was resumed after the fault"
    wanted = f"< {seen.bounds.lease_ttl:g} s + {_limit(seen, seen.bounds.takeover_grace)}"
    return Verdict("resume after the fault, p99", worst < limit, wanted, shown)


def faults_made(*whats: str) -> Check:
    """The faults that the scenario is about did happen, each kind at least once."""

    def check(seen: Evidence) -> Verdict:
        missing = [what for what in whats if not seen.of(what)]
        made = ", ".join(f"{fault.what} {fault.target}" for fault in seen.of(*whats))
        shown = f"missing: {', '.join(missing)}" if missing else made
        return Verdict("faults", not missing, ", ".join(whats), shown)

    return check


def taken_over(seen: Evidence) -> Verdict:
    """A node that stood still wakes among those who carried its calls on: else its waking shows nothing."""
    taken = [fault.seen.get("taken", 0) for fault in seen.of("node-pause")]
    shown = f"{sum(taken):g} calls" if taken else "no node was paused"
    return Verdict("taken over", bool(taken) and min(taken) > 0, "calls of each paused node", shown)


def few_keys_moved(seen: Evidence) -> Verdict:
    """A node that joins N others takes about its share of the ring, and no more."""
    found = [(fault.seen["moved"], 1 / fault.seen["nodes"]) for fault in seen.of("add") if "moved" in fault.seen]
    passed = bool(found) and all(share / 2 <= moved <= share * 2 for moved, share in found)
    shown = ", ".join(f"{moved:.1%} (1/(N+1) = {share:.1%})" for moved, share in found)
    return Verdict("keys moved", passed, "half to twice 1/(N+1)", shown or "no node joined")


def parked_stay_put(seen: Evidence) -> Verdict:
    """A node that joins takes no parked call from another."""
    bands = seen.of("add")
    # Answered within it too: the next fault may be one that does take calls.
    around = [r for r in seen.resumes if any(band.at <= r.at and r.at + r.seconds <= band.until for band in bands)]
    share = affinity(around)
    shown = "no resumes" if share is None else f"{share:.2%} of {len(around)} resumes"
    return Verdict("parked calls stay put", share == 1.0, "100 % while a node joins", shown)


def duplicates_alike(seen: Evidence) -> Verdict:
    """A retry that is sent several times at once brings the same result each time."""
    pairs = seen.notes.duplicates
    same = sum(item.same for item in pairs)
    return Verdict("duplicates", bool(pairs) and same == len(pairs), "same results", f"{same} of {len(pairs)}")


def resumes_bounded(seen: Evidence) -> Verdict:
    """A crowd that comes back at once is served in bounded time."""
    worst = percentile((item.seconds for item in seen.resumes), 0.99)
    shown = "no resumes" if math.isnan(worst) else f"{worst:.2f} s"
    limit = seen.bounds.resume_p99
    return Verdict("resume, p99", worst < limit * seen.stretch, f"< {_limit(seen, limit)}", shown)


def loop_free(seen: Evidence) -> Verdict:
    """No process holds up its event loop."""
    worst = worst_lag(seen.samples)
    shown = "nothing read" if math.isnan(worst) else f"<= {worst:g} s"
    limit = seen.bounds.loop_lag
    return Verdict("loop lag, p99", worst <= limit * seen.stretch, f"<= {_limit(seen, limit)}", shown)


def fails_closed(seen: Evidence) -> Verdict:
    """While the store is away some rounds are refused, and each of them as unavailable: nothing is guessed."""
    away = [item for item in seen.notes.rounds if _touches(item, seen.faults)]
    whys = [why for item in away for why in (*item.refused, *([item.why] if item.why else []))]
    other = [why for why in whys if not why.startswith("503")]
    shown = f"{len(whys)} refused, {len(other)} otherwise" + (f", such as: {other[0]}" if other else "")
    return Verdict("fails closed", bool(whys) and not other, "only refusals with 503", shown)


def nothing_unwritten(seen: Evidence) -> Verdict:
    """No question leaves while the store stands still: it would be one that nobody has written."""
    bands = [(fault.at + seen.bounds.on_its_way, fault.until) for fault in seen.faults if fault.target == "store"]
    asked = [item for item in seen.notes.rounds if item.asked]
    early = sum(any(start < item.at and item.at + item.seconds < end for start, end in bands) for item in asked)
    shown = f"{early} of {len(asked)} questions, in {len(bands)} outages"
    return Verdict("output gate", bool(bands and asked) and early == 0, "no question without the store", shown)


def recovers(seen: Evidence) -> Verdict:
    """A little after the last fault everything is answered again, at the first try."""
    end = max((fault.until for fault in seen.faults), default=math.inf) + seen.bounds.recovery
    later = [item for item in seen.notes.rounds if item.at > end]
    bad = sum(not item.answered or bool(item.refused) for item in later)
    shown = f"{bad} refused of {len(later)} rounds"
    wanted = f"no refusal later than {seen.bounds.recovery:g} s after"
    return Verdict("recovers", bool(later) and bad == 0, wanted, shown)


def memory_flat(seen: Evidence) -> Verdict:
    """After its first third no process grows, nor the store once it has begun to forget outcomes."""
    late = seen.samples[len(seen.samples) // 3 :]
    full = seen.notes.began + seen.bounds.outcome_life
    looks = {name: [s for s in late if name in s.rss and (name != "store" or s.at > full)] for name in _sized(late)}
    rises = {name: 60 * slope([(s.at, s.rss[name]) for s in found]) for name, found in looks.items() if len(found) > 2}
    worst = max(rises, key=lambda name: rises[name], default="")
    passed = bool(rises) and rises[worst] < seen.bounds.growth
    shown = f"{worst}: {rises[worst] / 1024:+.0f} KiB a minute" if rises else "nothing read"
    if "store" in looks and "store" not in rises:
        shown += f"; the store, which forgets nothing for {seen.bounds.outcome_life:g} s, is not judged"
    return Verdict("memory", passed, f"< {seen.bounds.growth / 1024:+.0f} KiB a minute", shown)


def split(rounds: Sequence[Round], faults: Sequence[Fault]) -> dict[str, list[float]]:
    """The seconds of resumes that were answered, by where they began."""
    found: dict[str, list[float]] = {"before": [], DURING: [], AFTER: []}
    for item in rounds:
        if item.round > 1 and item.answered:
            found[phase(item.at, faults)].append(item.seconds)
    return found


def _sized(samples: Sequence[Sample]) -> list[str]:
    return sorted({name for sample in samples for name in sample.rss})


def _limit(seen: Evidence, seconds: float) -> str:
    """A limit on time, and by how much it was stretched."""
    return f"{seconds:g} s" + (f" x {seen.stretch:.1f}, for cores were waited for" if seen.stretch > 1.05 else "")


def _touches(item: Round, faults: Sequence[Fault]) -> bool:
    return any(item.at <= fault.until and item.at + item.seconds >= fault.at for fault in faults)

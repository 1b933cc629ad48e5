"""Two runs of one suite side by side: the run without Framehold, and the run of one mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.suites.accepted import Acceptance
from tests.suites.outcomes import FAILED, NOT_RUN, PASSED, Outcome, differing


@dataclass(frozen=True, slots=True)
class Difference:
    """A test that ended in another way with Framehold in between."""

    test: str
    plain: Outcome
    other: Outcome

    def __str__(self) -> str:
        message = self.other.message or self.plain.message
        return f"{self.test}: {self.plain.verdict} without Framehold, {self.other.verdict} with it: {message}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one mode changes in the outcomes of one suite.

    `accepted` counts the accepted differences by their reasons. `stale` are patterns of the list without a difference.
    `problem` says why nothing was compared.
    """

    suite: str
    mode: str
    passed: int = 0
    failed_in_both: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    new: Sequence[Difference] = ()
    stale: Sequence[str] = ()
    retried: Sequence[str] = ()
    """Tests that differed at first, and no longer when both runs ran them again."""
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """Whether each difference is accepted, and each acceptance is needed."""
        return not (self.new or self.stale or self.problem)


def compare(
    suite: str,
    mode: str,
    plain: Mapping[str, Outcome],
    other: Mapping[str, Outcome],
    listed: Sequence[Acceptance],
    is_whole: bool = True,
    retried: Sequence[str] = (),
) -> Comparison:
    """Compare the outcomes of two runs. `is_whole`: both ran the whole suite, so an acceptance may be stale."""
    if not plain or not other:
        which = "without Framehold" if not plain else f"in mode {mode}"
        return Comparison(suite, mode, problem=f"the run {which} had no test; nothing was compared")
    entries = [entry for entry in listed if entry.suite == suite and mode in entry.modes]
    names = differing(plain, other)
    reasons = {name: _reason(entries, name) for name in names}
    new = [
        Difference(name, plain.get(name, NOT_RUN), other.get(name, NOT_RUN)) for name in names if reasons[name] is None
    ]
    return Comparison(
        suite,
        mode,
        passed=sum(outcome.verdict == PASSED for outcome in other.values()),
        failed_in_both=sum(outcome.verdict == FAILED and name not in reasons for name, outcome in other.items()),
        accepted=Counter(reason for reason in reasons.values() if reason is not None),
        new=new,
        stale=[pattern for entry in entries for pattern in entry.unused(names)] if is_whole else [],
        retried=retried,
    )


def _reason(entries: Sequence[Acceptance], test: str) -> str | None:
    return next((entry.reason for entry in entries if entry.names(test) is not None), None)

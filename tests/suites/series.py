"""All runs of one suite: each mode, the mode that it is compared with, and both again for the tests that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.suites.accepted import Acceptance
from tests.suites.comparison import Comparison, compare
from tests.suites.outcomes import with_retries
from tests.suites.play import Run
from tests.suites.suites import MODES, Suite

Play = Callable[[str, Sequence[str], str], Run]
"""Plays a mode: all tests, or only these; the last argument labels the run."""


class Series:
    """The runs of one suite. `only` are the tests to run, if not all. `retries` is how often tests that differ are run
    again."""

    def __init__(
        self, suite: Suite, play: Play, listed: Sequence[Acceptance], only: Sequence[str], retries: int
    ) -> None:
        self._suite, self._play, self._listed = suite, play, listed
        self._only, self._retries = only, retries
        self._runs: dict[str, Run] = {}

    def compared(self, mode: str) -> Comparison:
        """What a mode changes. The mode without Framehold is played once for all."""
        plain, other = self._run(MODES[mode]), self._run(mode)
        for run, name in ((plain, MODES[mode]), (other, mode)):
            if run.problem:
                return Comparison(self._suite.name, mode, problem=f"{name}: {run.problem}")
        first = self._compare(mode, plain, other)
        differing = [difference.test for difference in first.new]
        if not differing or not self._retries:
            return first
        plain, other = self._again(MODES[mode], plain, differing), self._again(mode, other, differing)
        still = {difference.test for difference in self._compare(mode, plain, other).new}
        return self._compare(mode, plain, other, [test for test in differing if test not in still])

    def _run(self, mode: str) -> Run:
        if mode not in self._runs:
            self._runs[mode] = self._play(mode, self._only, "")
        return self._runs[mode]

    def _again(self, mode: str, run: Run, tests: Sequence[str]) -> Run:
        """`run`, with the tests that pass when they are run again."""
        again = [self._play(mode, tests, f"-retry-{number + 1}").outcomes for number in range(self._retries)]
        return Run(with_retries(run.outcomes, again), run.placed)

    def _compare(self, mode: str, plain: Run, other: Run, retried: Sequence[str] = ()) -> Comparison:
        is_whole = not self._only
        return compare(self._suite.name, mode, plain.outcomes, other.outcomes, self._listed, is_whole, retried)

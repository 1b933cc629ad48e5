"""The problems that a router reports, as lines and as an exit code. The router finds them; nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from framehold_fleet.models.problems import ProblemView, Severity

from ..show.sheet import lines

HARM, RISK = 1, 2
"""Exit codes: users are harmed now; something will harm them."""
_MARKS = {Severity.HARM: "!!", Severity.RISK: "!"}


def exit_code(problems: Iterable[ProblemView]) -> int:
    """The exit code of these problems: 0 for none, HARM if one of them harms users now, else RISK."""
    found = {problem.severity for problem in problems}
    return HARM if Severity.HARM in found else RISK if found else 0


def shown(problems: Iterable[ProblemView]) -> str:
    """The problems as lines: `!!` marks harm, `!` a risk; what to do is on the line below."""
    return lines(line for problem in problems for line in _lines(problem))


def _lines(problem: ProblemView) -> Iterator[str]:
    yield f"{_MARKS[problem.severity]} {problem.text}"
    if problem.next:
        where = f" ({problem.link})" if problem.link.startswith("docs/") else ""
        yield f"   -> {problem.next}{where}"

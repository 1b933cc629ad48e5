"""Writes the figures of a run of drills: a report, and the table of docs/kubernetes.md. Pure; `__main__` calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.kube.drills.judged import Facts
from tests.kube.drills.users import MARKED, UNMARKED

BEGIN, END = "<!-- begin: python -m tests.kube.drills --report -->", "<!-- end -->"
_HEAD = """# Drills on a real Kubernetes

`make kube-test` has written this page; edit `tests/kube/drills/report.py` instead of it. [tests/kube](../README.md)
says what the cluster is made of.

In each drill, users of the official MCP client are outside of the cluster, and reach the fleet through its front
Service. They are parked at a question while the fault happens, and answer as the row says. Half of the calls are
[marked](../../../docs/guarantees.md). Visitors come and go meanwhile; each makes a call of three rounds, and never
sends its first request again. The client sends a round that was refused (502, 503, 504, a broken connection) again. A
ledger of what the handlers did says what ran.

An effect is *in doubt* if its node died while it ran: the effect may have happened, so it does not run again, and the
handler gets an error that says so ([guarantees](../../../docs/guarantees.md#an-effect-whose-node-died-while-it-ran)).
Only the drills that kill a node may have such effects, and only in calls that this node held.

A pod that is deleted by force is no crash: the kubelet asks its process to end, and kills it two seconds later. A crash
is what *memory exhausted* is.
"""
_COLUMNS = (
    "Drill",
    "Marked calls: ended / parked",
    "Longest wait (s)",
    "Unmarked calls: ended / reported lost / parked",
    "Longest wait (s)",
    "Errors at users",
    "Rounds sent again",
    "Visits: ended / never began",
    "Longest wait of a visit (s)",
    "Effects that ran twice",
    "Effects in doubt",
    "Result",
)


def report(cluster: Mapping[str, str], drills: Mapping[str, str], found: Sequence[Facts]) -> str:
    """`cluster`: what it was made of, by part; `drills`: what each drill does, by name."""
    parts = _table(("Part", "Is"), list(cluster.items()))
    text = "\n".join(f"- **{facts.drill}**: {drills[facts.drill]}" for facts in found)
    rows = _table(_COLUMNS, [_row(facts) for facts in found])
    faults = [f"- **{facts.drill}**: {fault.rstrip('.')}." for facts in found for fault in facts.faults]
    wrong = "\n## What did not pass\n\n" + "\n".join(faults) + "\n" if faults else ""
    return f"{_HEAD}\n## The cluster\n\n{parts}\n\n## The drills\n\n{text}\n\n## What users saw\n\n{rows}\n{wrong}"


def summary(cluster: Mapping[str, str], found: Sequence[Facts]) -> str:
    """What was lost in each drill, and for how long a user waited. `found`: one drill at least, with equal crowds."""
    marked, unmarked = (max(facts.parked[column] for facts in found) for column in (MARKED, UNMARKED))
    lost = [f"{facts.drill}: {gone}" for facts in found if (gone := facts.parked[MARKED] - facts.ended[MARKED])]
    line = (
        f"Kubernetes {cluster['Kubernetes']}, {cluster['Date']}. {marked} marked and {unmarked} unmarked calls were "
        f"parked in each drill. Marked calls lost: {', '.join(lost) or 'none'}. Effects that ran twice: "
        f"{sum(facts.twice for facts in found)}."
    )
    rows = [(_named(facts), str(facts.reported), f"{max(facts.longest.values()):.1f}") for facts in found]
    return f"{line}\n\n{_table(('Drill', 'Unmarked calls lost', 'Longest wait (s)'), rows)}"


def inserted(page: str, part: str) -> str:
    """The page with this part between its marks.

    Raises:
        ValueError: it lacks a mark."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks {BEGIN!r} with {END!r} behind it; put them back")
    return f"{head}{begin}\n{part}\n{end}{tail}"


def _named(facts: Facts) -> str:
    return facts.drill if facts.passed else f"{facts.drill} (**failed**)"


def _row(facts: Facts) -> tuple[str, ...]:
    return (
        facts.drill,
        f"{facts.ended[MARKED]} / {facts.parked[MARKED]}",
        f"{facts.longest[MARKED]:.1f}",
        f"{facts.ended[UNMARKED]} / {facts.reported} / {facts.parked[UNMARKED]}",
        f"{facts.longest[UNMARKED]:.1f}",
        str(len(facts.failed)),
        str(facts.retried),
        f"{facts.visits_ended} / {len(facts.visits_unborn)}",
        f"{facts.longest_visit:.1f}",
        str(facts.twice),
        str(facts.doubted),
        "passed" if facts.passed else "**failed**",
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

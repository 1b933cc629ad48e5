"""Draws the state diagram of a call from `continuation.TABLE` into `architecture.md`.

    python docs/state_diagram.py --write      put the present diagram between the marks
    python docs/state_diagram.py --check      exit 1 where it is not the present one

Nothing of the drawing is kept by hand. An arrow is a row of the table that may leave its phase; events that lead the
same way share one. So that the arrows can be read, they are drawn in two parts, and what leaves a phase as it is is not
drawn.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import defaultdict
from pathlib import Path

from framehold_core.call import Phase
from framehold_core.continuation import TABLE

PAGE = Path(__file__).with_name("architecture.md")
BEGIN = "<!-- begin: written by docs/state_diagram.py -->"
END = "<!-- end: written by docs/state_diagram.py -->"


ROUND = (Phase.IDLE, Phase.RUNNING, Phase.PARKING, Phase.PARKED, Phase.FINISHING)
"""The phases of a call whose frame is here and whose store answers: they are drawn first."""
FRAME = ROUND[1:]

Arrows = dict[tuple[str, str], set[str]]


def arrows() -> Arrows:
    """The events that may lead from one phase to another."""
    found: Arrows = defaultdict(set)
    for (phase, kind), row in TABLE.items():
        for to in row.to:
            if to is not phase:
                found[phase.name, to.name].add(kind.__name__)
    return found


def gathered(found: Arrows) -> Arrows:
    """An event that leads from, or to, each of the FRAME phases alike becomes one arrow of them all."""
    names = [phase.name for phase in FRAME]
    others = [phase.name for phase in Phase if phase not in FRAME]
    for other, out in itertools.product(others, (True, False)):
        pairs = [(name, other) if out else (other, name) for name in names]
        shared = set.intersection(*(found.get(pair, set()) for pair in pairs))
        if shared:
            found[("FRAME", other) if out else (other, "FRAME")] |= shared
            for pair in pairs:
                found[pair] -= shared
    return found


def chart(found: Arrows, *head: str) -> list[str]:
    """One drawing."""
    ranks = [*(phase.name for phase in Phase), "FRAME"]
    pairs = sorted(found, key=lambda pair: [ranks.index(name) for name in pair])
    lines = [f"    {start} --> {to}: {', '.join(sorted(found[start, to]))}" for start, to in pairs if found[start, to]]
    return ["```mermaid", "stateDiagram-v2", *head, *lines, "```"]


def legend() -> list[str]:
    """What each phase means."""
    rows = [f"| `{phase.name}` | {phase.value} |" for phase in Phase]
    return ["| Phase | Meaning |", "| --- | --- |", *rows]


def diagram() -> str:
    """The block that stands between the marks."""
    found = arrows()
    inner = {pair: kinds for pair, kinds in found.items() if all(Phase[name] in ROUND for name in pair)}
    outer = gathered(defaultdict(set, {pair: kinds for pair, kinds in found.items() if pair not in inner}))
    frame = ["    state FRAME {", *(f"        {phase.name}" for phase in FRAME), "    }"]
    blocks = ["The frame is here, and the store answers:", "", *chart(inner, "    [*] --> IDLE"), ""]
    blocks += ["There is no frame, or the lease lapsed, or the store is away or went back:", ""]
    return "\n".join([*blocks, *chart(outer, *frame), "", *legend()])


def drawn(text: str) -> str:
    """`text` with the present diagram between its marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks its marks {BEGIN!r} and {END!r}; nothing was written; put them back")
    return f"{head}{begin}\n{diagram()}\n{end}{tail}"


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description="Draw the state diagram from the transition table.")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="put the present diagram into the page")
    mode.add_argument("--check", action="store_true", help="exit 1 where the page's diagram is not the present one")
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    wanted = parser.parse_args()
    text = wanted.page.read_text(encoding="utf-8")
    present = drawn(text)
    if wanted.write:
        wanted.page.write_text(present, encoding="utf-8")
    elif text != present:
        sys.stderr.write(f"{wanted.page.name}: the state diagram is not the table's; run state_diagram.py --write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The lines of `framehold up` about rounds, as a terminal shows them."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from framehold_cli.local.rounds import RoundVoice
from framehold_cli.serve.round_line import MARK, RoundLine

ROUND = RoundLine("book", "node-2", "1f3a77c0", "parked", 0.0031, asked="Which room?")


def told(*lines: str, colour: bool = False) -> str:
    """What is printed of these lines of node-2."""
    out = io.StringIO()
    voice = RoundVoice(out, colour)
    voice.names(["node-2"])
    for line in lines:
        voice.child("node-2", line)
    return out.getvalue()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (ROUND, "book  asked 'Which room?'  parked  3 ms  node-2  1f3a77c0"),
        (
            replace(ROUND, before="resumed", asked="it's", more=2, seconds=0.0004),
            'book  resumed, asked "it\'s" and 2 more  parked  <1 ms  node-2  1f3a77c0',
        ),
        (
            replace(ROUND, asked="", before="resumed", how="finished", seconds=1.25),
            "book  resumed  finished  1.2 s  node-2  1f3a77c0",
        ),
        (
            replace(ROUND, asked="", how="failed", error="ValueError", place="shop:book:41"),
            "book  failed: ValueError at shop:book:41  3 ms  node-2  1f3a77c0",
        ),
        (replace(ROUND, asked="", how="failed"), "book  failed  3 ms  node-2  1f3a77c0"),
        (
            replace(ROUND, asked="", before="revision 2025-11-25", how="finished", call=""),
            "book  revision 2025-11-25  finished  3 ms  node-2",
        ),
        (replace(ROUND, asked="", how="left"), "book  its client left  3 ms  node-2  1f3a77c0"),
        (
            replace(ROUND, asked="", how="refused", error="already-answered"),
            "book  refused: already-answered  3 ms  node-2  1f3a77c0",
        ),
        (
            replace(ROUND, asked="", before="taken over", how="refused", error="lost"),
            "book  taken over  refused: the call is lost: its node died, and the handler is not marked "
            "@framehold.reentrant  3 ms  node-2  1f3a77c0",
        ),
    ],
)
def test_a_round_is_one_line(line: RoundLine, shown: str) -> None:
    """Without a terminal it is plain text."""
    assert told(line.dump()) == f"{shown}\n"


def test_names_are_in_one_column() -> None:
    """The column grows with the longest name so far."""
    found = told(*(replace(ROUND, tool=name).dump() for name in ("book", "complaint", "add")))
    assert [line.index("asked") for line in found.splitlines()] == [6, 11, 11]


def test_a_terminal_shows_colours() -> None:
    """A failed round is red."""
    found = told(replace(ROUND, asked="", how="failed", error="ValueError").dump(), colour=True)
    assert "\x1b[1;31mfailed: ValueError\x1b[0m" in found and found.count("\n") == 1


def test_no_text_steers_the_terminal() -> None:
    """Control characters of a question, a name and a place are escaped, and no line ends early."""
    odd = replace(ROUND, tool="a\x1b[2J", asked="b\n\x9bc\u202e", how="failed", error="d\x07", place="e\n")
    found = told(odd.dump())
    assert found.count("\n") == 1 and not set("\x1b\x9b\x07\u202e") & set(found)


def test_other_output_stays_the_process_s_own() -> None:
    """Text that stands before a round's line, and a line that is none, have the prefix of their process."""
    assert told(f"no line end{ROUND.dump()}").splitlines() == [
        "node-2 | no line end",
        "book  asked 'Which room?'  parked  3 ms  node-2  1f3a77c0",
    ]
    assert told(f"{MARK}[1]") == f"node-2 | {MARK}[1]\n"
    assert told("printed") == "node-2 | printed\n"

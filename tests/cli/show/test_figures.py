"""Durations, sizes and times as text for people."""

from __future__ import annotations

import pytest

from framehold_cli.show import figures


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((None, "-"), (-3, "0s"), (0.4, "0s"), (59.9, "59s"), (60, "1m"), (192, "3m 12s"), (3600, "1h")),
        *((3661, "1h 1m"), (90_000, "1d 1h"), (86_405, "1d")),
    ],
)
def test_a_while(seconds: float | None, text: str) -> None:
    """A duration has at most two units: the largest, and the next smaller one."""
    assert figures.span(seconds) == text


def test_short_whiles_and_sizes() -> None:
    assert [figures.quick(one) for one in (None, 0.0032, 0.25, 0.9999, 1.5)] == [
        "-",
        "3.2 ms",
        "250 ms",
        "1.00 s",
        "1.50 s",
    ]
    assert [figures.size(one) for one in (None, 100, 13_517, 5 * 1024**2)] == ["-", "0.1 KiB", "13.2 KiB", "5.0 MiB"]
    assert [figures.many(one, "node") for one in (0, 1, 2_000)] == ["0 nodes", "1 node", "2,000 nodes"]


def test_before_and_after_now() -> None:
    """A time that has passed gives `over`, not a duration."""
    assert (figures.left(100, 40), figures.left(100, 100), figures.left(None, 1)) == ("1m", "over", "-")
    assert figures.since(40, 100) == "1m"
    assert len(figures.clock(1_790_000_000, 1_790_000_009)) == 8 and len(figures.clock(1_790_000_000, 0)) == 19
    assert figures.clock(2.0**53, 0) == "9.0072e+15"

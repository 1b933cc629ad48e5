"""What the figures look like. Their colours are told apart by readers who see no red or no green, and seen on their
ground."""

from itertools import combinations

import pytest
from matplotlib.figure import Figure

from framehold_loadtest.report.theme import DASHES, FAULT, GROUND, HATCHES, INK, MARKERS, SERIES, SOFT, upright
from framehold_loadtest.tradeoff.options import OPTIONS

pytestmark = pytest.mark.load

Triple = tuple[float, float, float]

# Machado, Oliveira and Fernandes 2009, on linear RGB: what a reader sees, at full strength of the deficiency.
SIGHTS: dict[str, tuple[Triple, Triple, Triple]] = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
APART = 0.09  # in OKLab, where 0.02 is just seen


def linear(colour: str) -> Triple:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def seen(colour: str, sight: str) -> Triple:
    """The colour in OKLab, as the reader sees it."""
    red, green, blue = (min(1.0, max(0.0, dot(row, linear(colour)))) for row in SIGHTS[sight])
    lms = [
        dot(row, (red, green, blue)) ** (1 / 3)
        for row in (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        )
    ]
    cone: Triple = (lms[0], lms[1], lms[2])
    return (
        dot((0.2104542553, 0.7936177850, -0.0040720468), cone),
        dot((1.9779984951, -2.4285922050, 0.4505937099), cone),
        dot((0.0259040371, 0.7827717662, -0.8086757660), cone),
    )


def dot(row: Triple, column: Triple) -> float:
    return sum(left * right for left, right in zip(row, column, strict=True))


def contrast(one: str, other: str) -> float:
    """WCAG 2."""
    low, high = sorted(dot((0.2126, 0.7152, 0.0722), linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_series_colours_stay_apart(sight: str) -> None:
    """Any two of them, for readers of each sight."""
    close = [
        (one, other)
        for one, other in combinations(SERIES, 2)
        if sum((a - b) ** 2 for a, b in zip(seen(one, sight), seen(other, sight), strict=True)) ** 0.5 < APART
    ]
    assert close == []


def test_what_is_drawn_stands_out_from_its_ground() -> None:
    """Text at 4.5 to 1, lines and bars at 2.9."""
    assert [c for c in (INK, SOFT, FAULT) if contrast(c, GROUND) < 4.5] == []
    assert [c for c in SERIES if contrast(c, GROUND) < 2.9] == []


def test_colour_is_never_the_only_difference() -> None:
    """Each option has a colour, a marker and a hatch of its own; four lines have four dashes."""
    options = len(OPTIONS)
    for marks in (MARKERS, HATCHES, SERIES):
        assert len(set(marks[:options])) == options
    assert len(set(DASHES)) == len(DASHES) == 4


def test_the_ticks_of_a_logarithmic_axis_are_plain_numbers() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], values := [0.02, 20_000.0])
    assert upright(axes, values, 10)
    figure.canvas.draw()
    ticks = [label.get_text() for label in axes.get_yticklabels()]
    assert {"0.1", "1", "10", "10000"} <= set(ticks)

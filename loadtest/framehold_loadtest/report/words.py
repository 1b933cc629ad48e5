"""How numbers are worded."""

from __future__ import annotations


def number(figure: float) -> str:
    """Three digits, or all those before the point, with thousands set off."""
    size = abs(figure)
    if size >= 100 or figure == int(figure):
        return f"{figure:,.0f}"
    if size >= 10:
        return f"{figure:.1f}"
    return f"{figure:.2f}" if size >= 1 else f"{figure:.2g}"


def seconds(figure: float | None) -> str:
    """Seconds in milliseconds where they are few, or a dash for none."""
    if figure is None:
        return "-"
    return f"{number(figure * 1e3)} ms" if 0 < figure < 1 else f"{number(figure)} s"

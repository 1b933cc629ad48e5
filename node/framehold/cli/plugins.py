"""Commands that come from above: a room on a higher floor can't be imported here, so it registers itself.

Law: an entry point of the group `framehold.commands` is a function that is given the Typer app, and adds to it. One
that can't be loaded costs its own commands, and one line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

import typer

from . import visible

GROUP = "framehold.commands"


def add(app: typer.Typer, found: Iterable[EntryPoint] | None = None) -> None:
    """Add the commands of every installed plug-in, or of those that were `found`."""
    for point in entry_points(group=GROUP) if found is None else found:
        try:
            point.load()(app)
        except Exception as error:
            why = visible.line(f"{type(error).__name__}: {error}")
            print(f"framehold: the commands of {point.value} are missing ({why}); reinstall it", file=sys.stderr)

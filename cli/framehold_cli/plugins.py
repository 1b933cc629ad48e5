"""Adds the commands of other packages. A package above this one can't be imported here, so it registers an entry point.

The law: an entry point of the group `framehold.commands` is a function that takes the Typer app and adds commands to
it. If one can't be loaded, its commands are missing and one line says so; all other commands work. If the distribution
of the load tests is not installed, its commands say how to install it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

import typer

from framehold_core.errors import ConfigError

from .show import visible

GROUP = "framehold.commands"
_LOAD_TESTS = "load"
"""The name of the entry point that framehold-loadtest registers."""
_HAVE_THEM = weakref.WeakSet[typer.Typer]()
_ANY_WORDS = {"ignore_unknown_options": True, "allow_extra_args": True}


def add(app: typer.Typer, found: Iterable[EntryPoint] | None = None) -> None:
    """Add the commands of the entry points `found`; by default, of all installed ones. A second call for an app adds
    nothing."""
    if app in _HAVE_THEM:
        return
    _HAVE_THEM.add(app)
    points = list(entry_points(group=GROUP) if found is None else found)
    if all(point.name != _LOAD_TESTS for point in points):
        for command in ("load", "bench"):
            app.command(command, hidden=True, add_help_option=False, context_settings=_ANY_WORDS)(_not_installed)
    for point in points:
        try:
            point.load()(app)
        except Exception as error:
            why = visible.line(f"{type(error).__name__}: {error}")
            print(f"framehold: the commands of {point.value} are missing ({why}); reinstall it", file=sys.stderr)


def _not_installed(context: typer.Context) -> None:
    """Replaces a command of framehold-loadtest if that distribution is not installed."""
    install = "install it with: pip install 'framehold[load]'"
    raise ConfigError(f"{context.command_path} needs framehold-loadtest; nothing was started; {install}")

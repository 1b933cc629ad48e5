"""Checks of options that several commands have."""

from __future__ import annotations

from collections.abc import Callable

import typer

from framehold_core.errors import ConfigError

Number = float | None


def between(
    least: float, most: float, undone: str = "nothing was started"
) -> Callable[[typer.Context, typer.CallbackParam, Number], Number]:
    """A check that an option's number is from `least` to `most`, or left out. `undone` says what an error prevents.
    "nan" is a number to the parser, and is between nothing.

    Typer's own check is not used: its messages differ between releases, and are written for programmers."""

    def checked(context: typer.Context, param: typer.CallbackParam, value: Number) -> Number:
        if value is None or least <= value <= most:
            return value
        problem = f"{param.opts[0]} must be {least} to {most}, not {value}; {undone}"
        raise ConfigError(f"{problem}; see: {context.command_path} --help")

    return checked

"""`python -m framehold_loadtest load SCENARIO`: the commands that this distribution adds to `framehold`."""

from __future__ import annotations

import typer

from framehold_loadtest import cli

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def loadtest() -> None:
    """Measure Framehold under load."""


cli.add(app)

if __name__ == "__main__":
    app(prog_name="framehold")

"""The command line. A mistake of its user ends in one clear line and exit code 2, never in a traceback."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

import typer

from framehold_core.errors import FrameholdError

from . import plugins, visible
from .commands import app

_MISUSED = typer.BadParameter.__base__
"""The parser's own error of the one who typed; some releases of typer bring their own parser and don't export it."""


_NAME = "framehold"


def main() -> None:
    """Run `framehold`."""
    if os.getpid() == 1:
        # In a container. Linux spares its first process a signal that it has no handler for, and a server may take a
        # while to import: a process that is told to end then would be waited for until it is killed. It holds nothing.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    plugins.add(app)
    try:
        status = app(prog_name=_NAME, standalone_mode=False)
    except FrameholdError as error:
        _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        status = 130
    except Exception as error:
        if _MISUSED is None or not isinstance(error, _MISUSED):
            raise
        said = str(getattr(error, "format_message", error.__str__)()).replace(": Value error, ", ": ")
        if said:
            command = getattr(getattr(error, "ctx", None), "command_path", _NAME)
            _refuse(f"{said.rstrip('.')}; nothing was started; see: {command} --help")
        # Without a command the help was shown.
        status = 2
    sys.exit(status)


def _refuse(why: str) -> NoReturn:
    """One line, whatever another's error was made of."""
    print("framehold:", visible.line(" ".join(why.split())), file=sys.stderr)
    sys.exit(2)

"""The command line. A user's mistake ends with one clear line and exit code 2, never with a traceback."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

try:
    import typer

    from framehold_core.errors import FrameholdError

    from . import plugins
    from .commands import app
    from .operate import operating
    from .show import visible
except KeyboardInterrupt:
    # Ctrl-C before there is a command to end.
    sys.exit(130)

_USAGE_ERROR = typer.BadParameter.__base__
"""The parser's error for a wrong command line. Some releases of typer have their own parser and don't export the
class."""

_WANTED = {
    "int_parsing": "a whole number",
    "float_parsing": "a number",
}
"""What a value must be, by the type of pydantic's error."""
_NAME = "framehold"


def main() -> None:
    """Run `framehold`."""
    if os.getpid() == 1:
        # In a container. Linux doesn't deliver a signal to process 1 if the process has no handler for it. Without this
        # one a SIGTERM during the import of a server would have no effect until the container is killed. The process
        # holds no call yet, so it can end at once.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    # Imports make many objects and no garbage. With Python's own thresholds a tenth of a start is spent on looking.
    gc.set_threshold(50_000, 20, 100)
    _prepare_streams()
    _check_arguments(sys.argv[1:])
    try:
        plugins.add(app)
        status = app(prog_name=_NAME, standalone_mode=False)
    except FrameholdError as error:
        _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        status = 130
    except SystemExit as ended:
        # The parser ends with 1 where the reader of the output has gone.
        sys.exit(operating.UNKNOWN if _is_status() else ended.code)
    except Exception as error:
        if _USAGE_ERROR is None or not isinstance(error, _USAGE_ERROR):
            if not _is_status():
                raise
            traceback.print_exc()
            sys.exit(operating.UNKNOWN)
        message = _message(error)
        if message:
            command = getattr(getattr(error, "ctx", None), "command_path", _NAME)
            _refuse(f"{message.rstrip('.')}; nothing was done; see: {command} --help")
        # Without a command the parser has printed the help, and the error has no message.
        status = 2
    sys.exit(status)


def _prepare_streams() -> None:
    """Give each standard stream that is closed an empty one. Input that is no text is read all the same: who reads it
    says what is wrong with it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115 - for as long as the process lives
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")


def _check_arguments(words: list[str]) -> None:
    """Refuse bytes that are no text: no request can hold them. The argument is not shown, because it may be a
    secret."""
    for number, word in enumerate(words, start=1):
        if not visible.encodable(word):
            _refuse(f"argument {number} is not UTF-8; nothing was done; write it in UTF-8")


def _message(error: Exception) -> str:
    """The text of the parser's error; empty if it has printed the help instead. Releases of typer that read values by
    pydantic name neither the value nor, in plain words, what it must be."""
    cause, names = error.__cause__, getattr(getattr(error, "param", None), "opts", None)
    wrong: list[dict[str, Any]] = getattr(cause, "errors", list)()
    if names and wrong and (wanted := _WANTED.get(wrong[0]["type"])):
        return f"{names[0]} must be {wanted}, not {wrong[0]['input']!r}"
    return str(getattr(error, "format_message", error.__str__)()).replace(": Value error, ", ": ")


def _refuse(why: str) -> NoReturn:
    """Print an error as one line, and exit with 2. Line ends and control characters in it are replaced."""
    print("framehold:", visible.line(" ".join(why.split())), file=sys.stderr)
    sys.exit(operating.UNKNOWN if _is_status() else 2)


def _is_status() -> bool:
    """Whether the command is `status`. A 1 or a 2 of it speaks of the fleet, so its errors have another code."""
    return sys.argv[1:2] == ["status"]

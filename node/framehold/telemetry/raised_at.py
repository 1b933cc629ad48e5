"""Names an exception of an author's handler without its text: its class, and the line of the author's code.

The law: texts of exceptions hold what users typed, so only names of the code are used. What raised is the author's code
although the line in a library failed: the innermost line of the author's is named, which is the one that called the
library.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import NamedTuple

from .stacks import Place, is_authors, is_unknown, printable

_MAX_FRAMES = 2000
_MAX_CAUSES = 20
_WRAPPERS = ("mcp", "fastmcp")
"""Packages that wrap what a handler raises into an exception of their own."""


class RaisedAt(NamedTuple):
    """An exception by its class (`KeyError`, `httpx.ConnectError`) and its place, `module:function:line`. The place is
    empty where no line of the author's was passed, as for arguments that don't validate."""

    error: str
    place: str


def raised_at(error: BaseException) -> RaisedAt:
    """The exception that an author's code raised, as `error` brought it: beneath what the SDK wraps round it, and of an
    exception group the first one. Its tracebacks must not have been removed."""
    found: BaseException | None = error
    foreign: list[BaseException] = []
    while found is not None and len(foreign) < _MAX_CAUSES:
        if isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        elif place := _place(found.__traceback__):
            return RaisedAt(_class_name(found), place)
        else:
            foreign.append(found)
            found = found.__cause__ or found.__context__
    # No line of the author's was passed: what the SDK wrapped says more than its wrapper.
    cause = next((item for item in foreign if _top(type(item).__module__) not in _WRAPPERS), error)
    return RaisedAt(_class_name(cause), "")


def _class_name(error: BaseException) -> str:
    kind = type(error)
    return printable(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def _place(traceback: TracebackType | None) -> str:
    """The innermost line of the author's code. Where all code is installed, as in an image, the author's is the package
    that the SDK called: the first one on the way inwards that is not known."""
    lines = [(Place.of((step.tb_frame.f_code, step.tb_frame.f_globals)), step.tb_lineno) for step in _steps(traceback)]
    own = [place.at(line) for place, line in lines if is_authors(place)]
    if not own:
        packages = frozenset(islice((_top(place.module) for place, _ in lines if is_unknown(place)), 1))
        own = [place.at(line) for place, line in lines if is_authors(place, packages)]
    return own[-1] if own else ""


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """The frames that an exception passed, the outermost first."""
    for _ in range(_MAX_FRAMES):
        if traceback is None:
            return
        yield traceback
        traceback = traceback.tb_next


def _top(module: str) -> str:
    return module.partition(".")[0]

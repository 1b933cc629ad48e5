"""The class of an exception, and the place in the author's code that raised it.

The law: neither has a value or the text of an exception. The place is the innermost frame of the author's code: what
the author calls in a library counts for the line that calls it.

The SDK makes an error result of an exception, and the exception is gone then. So whoever makes that result remembers
the exception's class and place (`remember`) for the one who reports the outcome (`remembered`), in the context of the
handler.
"""

from __future__ import annotations

import sys
import traceback
from contextvars import ContextVar
from itertools import islice
from typing import NamedTuple

from framehold_core.errors import causes

from ..frame.contained import ENDS_PROCESS
from ..frame.rehearsal import rehearsal_observer
from .stacks import FRAMEHOLD, HANDLERS, SDK, CodePlace


class HandlerFailure(NamedTuple):
    """The name of an exception's class, and where the author's code raised it: `module:function:line`. The place is
    empty if no code of the author's was running."""

    error: str
    place: str


_MAX_CAUSES = 20
"""How many exceptions are looked at from the outermost to its causes."""
_remembered: ContextVar[HandlerFailure | None] = ContextVar("framehold_failure", default=None)


def failure_of(error: BaseException) -> HandlerFailure:
    """The class and place of what the author's code raised, as `error` brought it: beneath what the SDK or FastMCP put
    around it, and of a group its first exception."""
    found, place = raised_by_author(error)
    return HandlerFailure(_class_name(found), place)


def raised_by_author(error: BaseException) -> tuple[BaseException, str]:
    """The exception that `failure_of` names, and its place."""
    foreign: list[BaseException] = []
    for found in islice(causes(error, first_of_groups=True), _MAX_CAUSES):
        places = _places(found)
        if not _is_wrapper(found, places) and (place := _place(places)):
            return found, place
        foreign.append(found)
    # No line of the author's was passed: what the SDK has wrapped says more than the wrapper.
    return next((item for item in foreign if not _is_sdks(item)), error), ""


def remember(error: BaseException) -> None:
    """Remember the class and place of an exception that an error result was made from. A rehearsal gets the
    exception."""
    _remembered.set(failure_of(error))
    if (observer := rehearsal_observer.get()) is not None:
        observer.broke(error)


def remembered() -> HandlerFailure | None:
    """The failure that was remembered last in this context; None if none was."""
    return _remembered.get()


def _is_wrapper(error: BaseException, places: list[CodePlace]) -> bool:
    """Whether the SDK put this exception around another one. A middleware of the author's may have passed it on since:
    then its traceback has lines of the author's, too. One that stands for an exit is a wrapper of that."""
    if isinstance(error.__cause__, ENDS_PROCESS):
        return True
    raised_by = places[-1].owner() if places else SDK
    return error.__cause__ is not None and _is_sdks(error) and raised_by in (SDK, FRAMEHOLD)


def _is_sdks(error: BaseException) -> bool:
    """Whether the class of an exception is of the SDK or of FastMCP."""
    return CodePlace(type(error).__module__, "", "<class>", 0).owner() == SDK


def _class_name(error: BaseException) -> str:
    kind = type(error)
    return _clean(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def _places(error: BaseException) -> list[CodePlace]:
    """The frames of an exception's traceback, the innermost last."""
    walked = traceback.walk_tb(error.__traceback__)
    return [CodePlace.of((frame.f_code, frame.f_globals, line)) for frame, line in walked]


def _place(places: list[CodePlace]) -> str:
    own = [place for place in places if place.owner() == HANDLERS]
    if not own:
        # A server that is an installed package itself: its handler is the first frame that no known package owns.
        packages = (place.module.partition(".")[0] for place in places if place.owner() is None)
        authors = frozenset(list(filter(_may_be_authors, packages))[:1])
        own = [place for place in places if place.owner(authors) == HANDLERS]
    return own[-1].where if own else ""


def _may_be_authors(package: str) -> bool:
    """Whether a package is none of those through which a handler is called, in a thread or on the loop."""
    return package not in ("anyio", "uvloop") and package not in sys.stdlib_module_names


def _clean(name: str) -> str:
    """`name` as it may be stored and shown: printable, and not too long."""
    return "".join(sign if sign.isprintable() else "?" for sign in name[:MAX_CLASS_CHARACTERS])


MAX_CLASS_CHARACTERS = 120
"""Characters of the longest name of a class that is kept."""

"""The class of an exception, and the place in the author's code that raised it.

The law: neither has a value or the text of an exception. The place is the innermost frame of the author's code: what
the author calls in a library counts for the line that calls it.

The SDK makes an error result of an exception, and the exception is gone then. So whoever makes that result remembers
the exception's class and place (`remember`) for the one who reports the outcome (`remembered`), in the context of the
handler.
"""

from __future__ import annotations

import traceback
from contextvars import ContextVar
from typing import NamedTuple

from .stacks import FRAMEHOLD, HANDLERS, SDK, Place


class Failure(NamedTuple):
    """The name of an exception's class, and where the author's code raised it: `module:function:line`. The place is
    empty if no code of the author's was running."""

    error: str
    place: str


_remembered: ContextVar[Failure | None] = ContextVar("framehold_failure", default=None)


def failure_of(error: BaseException) -> Failure:
    """The class and place of `error`, or of the exception that the SDK made it from."""
    original = _original(error)
    kind = type(original)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return Failure(_clean(name), _place(_places(original)))


def remember(error: BaseException) -> None:
    """Remember the class and place of an exception that an error result was made from."""
    _remembered.set(failure_of(error))


def remembered() -> Failure | None:
    """The failure that was remembered last in this context; None if none was."""
    return _remembered.get()


def _original(error: BaseException) -> BaseException:
    """The exception below those that the SDK, FastMCP or a group put around it."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif error.__cause__ is not None and _is_wrapper(error):
            error = error.__cause__
        else:
            return error


def _is_wrapper(error: BaseException) -> bool:
    """Whether the SDK, and not the author's code, raised this exception of the SDK's."""
    places = _places(error)
    raised_by = places[-1].owner() if places else SDK
    return Place(type(error).__module__, "", "<class>", 0).owner() == SDK and raised_by in (SDK, FRAMEHOLD)


def _places(error: BaseException) -> list[Place]:
    """The frames of an exception's traceback, the innermost last."""
    walked = traceback.walk_tb(error.__traceback__)
    return [Place.of((frame.f_code, frame.f_globals, line)) for frame, line in walked]


def _place(places: list[Place]) -> str:
    own = [place for place in places if place.owner() == HANDLERS]
    if not own:
        # A server that is an installed package itself: its handler is the first frame that no known package owns.
        packages = (place.module.partition(".")[0] for place in places if place.owner() is None)
        authors = frozenset(list(packages)[:1])
        own = [place for place in places if place.owner(authors) == HANDLERS]
    return own[-1].where if own else ""


def _clean(name: str) -> str:
    """`name` as it may be stored and shown: printable, and not too long."""
    return "".join(sign if sign.isprintable() else "?" for sign in name[:MAX_CLASS_CHARACTERS])


MAX_CLASS_CHARACTERS = 120
"""Characters of the longest name of a class that is kept."""

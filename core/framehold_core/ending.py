"""How a call ended: what a record keeps of it beyond the end, for people.

The law: it is there to look at, like the trail. No verdict, fence or hash rests on it. It has the class of an exception
and the place that raised it, and never the exception's text or a value.
"""

from __future__ import annotations

from enum import StrEnum

from .value import Value


class How(StrEnum):
    """The ways in which a call ends."""

    COMPLETED = "completed"
    """The handler returned a result."""
    TOOL_ERROR = "tool_error"
    """The result of the tool is an error (`isError`)."""
    PROTOCOL_ERROR = "protocol_error"
    """The client got an error of JSON-RPC."""
    CANCELLED = "cancelled"
    """An operator ended the call, or its first request ended before it had asked anything."""
    LOST = "lost"
    """The frame is gone, and the handler may not be entered again; or the store has no trace of the call."""
    EXPIRED = "expired"
    """No client came back while its token was valid."""
    DIVERGED = "diverged"
    """The code that runs now can't continue the call: it goes another way than recorded, or can't read what is
    recorded. The record stays for the code that wrote it."""
    STUCK = "stuck"
    """Too many processes died running it: nobody enters it again."""


FAILED = frozenset({How.TOOL_ERROR, How.PROTOCOL_ERROR, How.LOST, How.DIVERGED, How.STUCK})
"""The ends that an author or an operator has to look at. Who cancels a call, or lets it expire, wanted or accepted
that."""


ANSWERS = frozenset({How.COMPLETED, How.TOOL_ERROR, How.PROTOCOL_ERROR})
"""The ends that are the answer to a round: a call had one round more then than sets of questions."""


class Ending(Value):
    """How a call ended. Where an exception ended it, `error` is the name of its class, and `place` is where the
    author's code raised it, as `module:function:line`; both are empty where there was none."""

    how: How
    error: str = ""
    place: str = ""


COMPLETED, CANCELLED, LOST = Ending(How.COMPLETED), Ending(How.CANCELLED), Ending(How.LOST)
NOT_KEPT = Ending(How.LOST, "StoreUnavailable")
"""The store did not take the first round: nobody has a token to come back with."""

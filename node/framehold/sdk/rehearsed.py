"""Enters a handler once more when its call ends, on a node that rehearses (FRAMEHOLD_REHEARSE), and logs what differs.

Between the rounds a rehearsal finds what differs in questions and effects. A difference in the result alone, such as a
random number in it, shows only here: on another node the result would have been another one.
"""

from __future__ import annotations

import asyncio
import logging
import reprlib
from typing import Any

from mcp_types.methods import is_input_required
from pydantic_core import to_jsonable_python

from framehold_core.replay import DEPENDS

from ..code import lines
from ..frame.difference import difference
from ..frame.rehearsed_frame import RehearsedFrame
from .present_call import current
from .wrapped_handler import Find, Handler

logger = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds that a handler may take when it is entered once more."""
_words = reprlib.Repr()
_words.maxstring = _words.maxother = 200


def entered_once_more(enter: Handler, method: str, find: Find) -> Handler:
    """`enter`, whose re-entrant handlers are entered once more when they have heard answers and have ended. The client
    gets the first result."""

    async def run(ctx: Any, params: Any) -> Any:
        result = await enter(ctx, params)
        present = current.get()
        frame = None if present is None else present.frame
        if not isinstance(frame, RehearsedFrame) or not frame.has_heard or frame.dead or is_input_required(result):
            return result
        handler = find(method, ctx.params or {})
        if handler.marks.reentrant:
            found = await _otherwise(frame, enter, ctx, params, result)
            place = lines.definition(handler.function)
            if found:
                logger.error(_DIFFERS, frame.log_fields.get("tool"), found, DEPENDS, place, extra=frame.log_fields)
        return result

    return run


_DIFFERS = (
    "the handler of %r was entered once more with all that it had heard, and came to something else: %s; its client "
    "gets what came first; likely %s; the handler is defined at %s"
)


async def _otherwise(frame: RehearsedFrame, enter: Handler, ctx: Any, params: Any, result: Any) -> str:
    """How a handler that is entered once more differs from `result` or on the way to it; empty if it does not."""
    raised = ""
    with frame.once_more():
        try:
            async with asyncio.timeout(PATIENCE) as limit:
                again = await enter(ctx, params)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raised = f"it did not end within {PATIENCE:g} s" if limit.expired() else f"it raised {type(error).__name__}"
    if frame.otherwise or raised:
        return frame.otherwise if not raised.startswith("it did not end") else raised
    found = difference(_shown(result), _shown(again), "result")
    return "" if found is None else f"{found[0]} is {_words.repr(found[2])}, and was {_words.repr(found[1])}"


def _shown(result: Any) -> Any:
    return to_jsonable_python(result, by_alias=True, exclude_none=True)

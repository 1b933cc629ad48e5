"""What a part of a test leaves to the garbage collector: the cycles that were made in it, and none that are older.

Whatever ran before in the same process may become garbage while the part runs: the exception that ended the task which
runs an async test outlives that test, and pytest keeps a phase's log records, with their tracebacks, until the next
phase begins. So nothing is asked of the past. All that lives when a part begins is frozen: the collector passes it by.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Found = Callable[..., list[Any]]


@contextmanager
def cycles() -> Iterator[Found]:
    """Begin a part; it yields `found`, which collects what the part has left so far. Nothing is collected meanwhile.

    What is made once for a process or a server is no cycle of a call: let a first call go before the part.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield _found
    finally:
        gc.enable()
        gc.unfreeze()


def _found(*kinds: type) -> list[Any]:
    """The objects in cycles that nobody holds any more; of these kinds, if some are named."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [item for item in gc.garbage if not kinds or isinstance(item, kinds)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()

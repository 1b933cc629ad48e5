"""A function with one piece of its text replaced: the shortest way to say what a mutation breaks."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any


def edited(function: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """The function with `new` where its source says `old`. It looks up other names as the original does.

    Raises:
        AssertionError: the source does not say `old` once. Whoever changed it looks at the mutation anew.
    """
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{function.__qualname__} says {source.count(old)} times: {old}"
    made: dict[str, Any] = {}
    future = "from __future__ import annotations\n"
    exec(compile(future + source.replace(old, new), "<mutation>", "exec"), vars(sys.modules[function.__module__]), made)
    found: Callable[..., Any] = made[function.__name__]
    return found

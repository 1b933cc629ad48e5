"""A function in a process of its own: `python -m framehold_loadtest.bench.child MODULE:FUNCTION JSON`.

So whatever drives a server, or is measured itself, runs alone on its core. The function is a coroutine function; it
gets the JSON as its arguments, and what it returns is printed as JSON.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Any

import uvloop

from framehold_loadtest.client.connection import CallError
from framehold_loadtest.local.listeners import started
from framehold_loadtest.local.process import python


def run(function: Callable[..., Coroutine[Any, Any, Any]], core: int, seconds: float, /, **given: Any) -> Any:
    """Run a function on a core to its end; what it returned, read back from JSON.

    Raises:
        NotAvailable: it failed, or took longer than so many seconds.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    with started(function.__name__, python(__name__, name, json.dumps(given)), core, {}) as child:
        return json.loads(child.output(seconds))


def main() -> None:
    """Run the function, and print what it returned; a call that failed is a reason in one line, and exit code 1."""
    _, name, given = sys.argv
    try:
        found = uvloop.run(pkgutil.resolve_name(name)(**json.loads(given)))
    except (CallError, OSError) as error:
        sys.exit(f"no figure: {error}")
    print(json.dumps(found, default=asdict))


if __name__ == "__main__":
    main()

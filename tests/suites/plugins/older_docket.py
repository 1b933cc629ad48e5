"""A plugin of pytest, for runs with and without Framehold: FastMCP's tasks run with a Docket before 0.29 too.

The tasks of FastMCP 4.2 name the argument `parent_task_spans`, which Docket 0.27 doesn't know. Off, it changes nothing:
so it isn't handed on. A test that switches it on fails.
"""

import inspect
from typing import Any

from docket import Worker

OPTION = "parent_task_spans"
construct = Worker.__init__


def without_option(self: Any, *args: Any, **options: Any) -> None:
    """Take the place of a worker's constructor."""
    if options.get(OPTION) is False:
        del options[OPTION]
    construct(self, *args, **options)


if OPTION not in inspect.signature(construct).parameters:
    Worker.__init__ = without_option

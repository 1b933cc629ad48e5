"""Plays one mutant in a process of its own: 300 schedules of the pure simulation, then 100 of real runtimes.

The process is forked from one that has imported all that is played; only the code of one function is exchanged in it.
What stands in no function is left to the tests of the room, which import its module anew (`hook`).
"""

from __future__ import annotations

import ast
import gc
import importlib
import os
import resource
from collections.abc import Iterator
from types import CodeType, FunctionType

from framehold_store.scripts import SCRIPTS
from tests.node import injecting
from tests.seeded import report
from tests.seeded.places import ROOMS
from tests.seeded.plan import draw
from tests.seeded.redis import NAMES
from tests.seeded.world import play
from tests.sim import report as sim

from . import guards
from .places import STARTED, Mutant, as_it_is, module_of, mutated, started

SIM, SEEDED = 300, 100
"""Schedules of the pure simulation, and of real runtimes."""
LIMIT = 120
"""Seconds of CPU after which a mutant counts as found: it hangs."""
_REDIS = ("store/framehold_store/batch", guards.FOLDER)
"""What only the store of Redis runs: all its schedules have that."""


class NotExchanged(Exception):
    """The mutant can't be played in this process."""


def exchange(name: str) -> None:
    """Have this process run the mutant of this name."""
    file, function, number = name.split(":")
    if file.endswith(".lua"):
        for old, new in guards.exchange(file, int(number), SCRIPTS).items():
            NAMES[new.encode()] = NAMES.pop(old.encode())
        return
    module = importlib.import_module(module_of(file))
    vars(module)[STARTED] = started
    exchanged = 0
    for was, found in zip(_codes(file, as_it_is(file)), _codes(file, mutated(name)), strict=True):
        if function and found.co_qualname == function:
            injecting._function(module, function).__code__ = found
            exchanged += 1
        elif not function and found.co_qualname == "<lambda>" and found != was:
            exchanged += _lambda(module.__name__, was, found)
    if not exchanged:
        raise NotExchanged(f"no function of this process has the place {name}")


def _codes(file: str, tree: ast.Module) -> Iterator[CodeType]:
    """The code of each function of a file, in their order."""
    *_, room, stem = file.split("/")
    if room in ROOMS:
        injecting._Marker(f"{room}/{stem}.py").visit(tree)
    return injecting._functions(compile(tree, f"{file}.py", "exec", dont_inherit=True))


def _lambda(module: str, was: CodeType, code: CodeType) -> int:
    """Exchange the code of the function without a name that has this one. How many there are: one, or none if another
    one is the same program on the same line."""
    functions = [item for item in gc.get_objects() if isinstance(item, FunctionType) and item.__module__ == module]
    found = [item for item in functions if item.__code__ == was]
    if len(found) != 1:
        return 0
    found[0].__code__ = code
    return 1


def verdict(mutant: Mutant) -> str:
    """What turned red by the mutant, and at which schedule; empty if nothing did."""
    if mutant.file.startswith("core/"):
        _, failed = sim.run_part(1, SIM, None)
        if failed is not None:
            return f"simulation, schedule {failed}"
    for seed in range(1, SEEDED + 1):
        plan = draw(seed)
        _, error = play(plan._replace(redis=True) if mutant.file.startswith(_REDIS) else plan, report.places())
        if error is not None:
            return f"runtimes, schedule {seed}: {str(error).partition(':')[0][:60]}"
    return ""


def in_child(mutant: Mutant) -> str:
    """`verdict` in a forked process."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        try:
            exchange(mutant.name)
            told = verdict(mutant)
        except NotExchanged:
            told = ""
        except BaseException as error:
            told = f"raises {type(error).__name__}: {str(error)[:60]}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told_by:
        text = told_by.read()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else f"hangs, or ends its process ({status})"

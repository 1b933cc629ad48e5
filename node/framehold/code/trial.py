"""Loads code once when it is written, so that what can't be loaded is named then and not after a deploy."""

from __future__ import annotations

import enum
import gc
from typing import Any

from framehold_store.named import Named

from . import loading


def check(body: bytes) -> None:
    """Load code as a process would that has nothing of it unchanged. Nothing of what is made stays: its classes would
    be among the subclasses of installed ones, until the collector comes to them.

    Raises:
        Exception: anything: it can't be loaded, or would be other code.
    """
    is_on = gc.isenabled()
    # All that is made is young then, and a collection of the young costs little.
    gc.disable()
    try:
        _load(body)
    except Exception as error:
        # Its frames hold what was made.
        error.__traceback__ = None
        raise
    finally:
        gc.collect(0)
        if is_on:
            gc.enable()


def _load(body: bytes) -> None:
    for named, made in loading.load(body, {}).known.items():
        if isinstance(made, type) and issubclass(made, enum.Enum):
            _compare(named, made)


def _compare(named: Named, made: type[enum.Enum]) -> None:
    """Raise TypeError if the members of an enum that was made again are not those that it had. A `__new__` of the
    author makes others of their values."""
    present: Any = named.present()
    for name, member in present.__members__.items():
        again = made.__members__[name]
        plain = next(base for base in present.__mro__ if not issubclass(base, enum.Enum))
        alike = plain is object or bool(plain.__eq__(member, again))
        if again.value != member.value or not alike:
            raise TypeError(f"the members of {named.module}.{named.name} can't be made from their values")

"""The fingerprint of an effect: a digest of its function's name and of a description of its arguments.

The law: equal arguments give equal fingerprints, in every process and run, and no argument is an error. No code of the
author's is called (no `__repr__`, `__eq__`, property or `__getattr__`), so nothing hangs here. Nothing depends on
addresses, on the order of sets and dicts, or on the hash seed. How arguments are compared:

    None, bool, int, float, str         by type and value: 1, True, 1.0 and "1" are four
    list, tuple, dict, set, deque, ...  by type and parts; a dict or set whatever its order
    bytes, long texts, huge integers    by length and digest
    dates, UUID, Decimal, Path, ...     by type and text; an enum's member by type, name and value
    dataclasses                         by type and the fields that `==` compares
    pydantic models                     by type and fields; private attributes are left out
    functions, classes                  by name; what a closure holds, or a method's object, is left out
    everything else                     by its type's name alone: **two objects of one such type count as equal**

The last line is deliberate. A connection or a logger describes itself differently in each process. A call that can't be
continued because of that is worse than a reused key that goes unnoticed. Modules are left out of names: a script is
`__main__` in one process and a module in another. Beyond MAX_PARTS parts, a list is described by its length and the
parts before.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import ipaddress
import types
from collections import deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from pydantic_core import TzInfo

from framehold_core.journal import canonical, digest, fingerprint

MAX_PARTS = 10_000
"""How many parts of an effect's arguments are described, in all."""
MAX_DEPTH = 40
"""How deep containers inside containers are described."""
MAX_TEXT = 1000
"""Characters of the longest text that is described by itself; a longer one is described by its digest."""

_HUGE = 1 << 1024
_ADDRESSES = (
    *(ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
    *(ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network),
)
_TEXTS: dict[type, Callable[[Any], str]] = {
    **{kind: kind.__str__ for kind in (timedelta, UUID, Decimal, Fraction, PurePath, timezone, ZoneInfo, TzInfo)},
    **{kind: kind.__str__ for kind in _ADDRESSES},
    complex: complex.__repr__,
    range: range.__repr__,
    date: date.isoformat,
}
_BYTES = frozenset({bytes, bytearray, memoryview})
_LISTS = frozenset({list, tuple, deque})
_SETS = frozenset({set, frozenset})
_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def name_of(fn: object) -> str:
    """The name of a function without its module and without the functions that it is defined in.

    Examples: "charge", "Shop.charge", "<lambda>". A partial or a wrapper has the name of its function. Any other object
    that can be called has the name of its class.
    """
    for _ in range(MAX_DEPTH):
        if type(fn) is types.FunctionType:
            break
        bases = _bases(type(fn))
        if types.MethodType in bases:
            fn = _slot(fn, "__func__")
        elif functools.partial in bases:
            fn = _slot(fn, "func")
        else:
            break
    name = fn.__qualname__ if type(fn) is types.FunctionType else _slot(fn, "__qualname__")
    name = name or _attributes(fn).get("__qualname__")  # functools.wraps leaves the latter
    return str.__str__(name).rpartition("<locals>.")[2] if isinstance(name, str) else _type_name(type(fn))


def of(fn: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The fingerprint of an effect. A partial counts as its function with all of the arguments.

    Raises:
        RecursionError: the caller's own stack is nearly full. A description that is cut short there would differ in a
            process with a shorter stack.
    """
    name = name_of(fn)
    if type(fn) is functools.partial:
        args, kwargs = (*fn.args, *args), {**fn.keywords, **kwargs}
    description = _Description()
    return fingerprint("once", name, description.part(args), description.part(kwargs))


class _Description:
    """One run of the description. `_left` is how many parts may still be described; `_path` has the ids of the
    containers around the present part."""

    __slots__ = ("_left", "_path")

    def __init__(self) -> None:
        self._left = MAX_PARTS
        self._path: set[int] = set()

    def part(self, value: Any) -> Any:
        """`value` as JSON can hold it: a plain scalar as itself, anything else as a list that names its type first."""
        self._left -= 1
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is str and len(value) <= MAX_TEXT:
            return value
        if kind is int and -_HUGE < value < _HUGE:
            return value
        if id(value) in self._path or len(self._path) >= MAX_DEPTH:
            return ["..."]
        self._path.add(id(value))
        try:
            return [_type_name(kind), *self._inside(kind, value)]
        except (RecursionError, MemoryError):
            raise
        except Exception:  # the object changes meanwhile, or is half made
            return [_type_name(kind)]
        finally:
            self._path.discard(id(value))

    def _inside(self, kind: Any, value: Any) -> Iterable[Any]:
        """The parts of `value`, read by its first known base class with that class's own methods, never with those of a
        subclass."""
        # Most arguments are of these types themselves, not of subclasses.
        if kind is tuple or kind is list:
            return self._in_order(len(value), value)
        if kind is dict:
            return self._by_key(value)
        bases = _bases(kind)
        if Enum in bases:
            held = _attributes(value)
            return held.get("_name_"), self.part(held.get("_value_"))
        if any("__dataclass_fields__" in base.__dict__ for base in bases):
            return self._fields(value, [field.name for field in dataclasses.fields(kind) if field.compare])
        for base in bases:
            if base in _LISTS:
                return self._in_order(base.__len__(value), base.__iter__(value))
            if base in _SETS:
                return self._in_any_order(list(base.__iter__(value)))
            if base is dict:
                return self._by_key(value)
            if base is BaseModel:
                return (*self._fields(value, kind.__pydantic_fields__), self.part(_slot(value, "__pydantic_extra__")))
            scalar = self._scalar(base, value)
            if scalar is not None:
                return scalar
        named = _slot(value, "__qualname__") is not None or functools.partial in bases or types.MethodType in bases
        return (name_of(value),) if named else ()

    def _scalar(self, base: type, value: Any) -> Iterable[Any] | None:
        if base in _TEXTS:
            return (_TEXTS[base](value),)
        if base is str:
            return _short(str.__str__(value))
        if base is int:
            return _short(hex(int.__int__(value)))
        if base is float:
            return (float.__float__(value),)
        if base in _BYTES:
            return len(value), hashlib.sha256(memoryview(value).tobytes()).hexdigest()
        if base is datetime:
            naive = datetime.combine(datetime.date(value), datetime.time(value))
            return naive.isoformat(), naive.fold, self.part(_slot(value, "tzinfo"))
        if base is time:
            naive_time = time(*(_slot(value, unit) for unit in ("hour", "minute", "second", "microsecond")))
            return naive_time.isoformat(), self.part(_slot(value, "tzinfo"))
        return None

    def _in_order(self, length: int, items: Iterable[Any]) -> Iterable[Any]:
        yield length
        for item in items:
            if self._left <= 0:
                return
            yield self.part(item)

    def _in_any_order(self, items: list[Any]) -> Iterable[Any]:
        """Each item as a digest, sorted. Each gets an equal share of the parts that are left, so that the order of the
        items does not matter."""
        left, digests = self._left, []
        share = left // max(1, len(items))
        yield len(items)
        if share <= 0:
            return
        for item in items:
            self._left = share
            digests.append(digest(canonical(self.part(item))))
            left -= share - self._left
        self._left = left
        yield from sorted(digests)

    def _by_key(self, value: dict[Any, Any]) -> Iterable[Any]:
        items = list(dict.items(value))
        if len(items) > self._left or any(type(key) is not str for key, _ in items):
            return self._in_any_order(items)
        items.sort(key=lambda item: item[0])
        return self._in_order(len(items), [side for item in items for side in item])

    def _fields(self, value: Any, names: Iterable[str]) -> Iterable[Any]:
        held = _attributes(value)
        return [[name, self.part(held[name] if name in held else _slot(value, name))] for name in names]


def _short(text: str) -> Iterable[Any]:
    if len(text) <= MAX_TEXT:
        return (text,)
    return len(text), digest(text.encode("utf-8", "surrogatepass"))


def _bases(kind: type) -> tuple[Any, ...]:
    """The base classes of `kind`, read through `type`, since a metaclass may return others."""
    return tuple(type.__dict__["__mro__"].__get__(kind))


def _slot(value: object, name: str) -> Any:
    """The attribute that C code or `__slots__` stores under `name`, or None. A property is not called."""
    for base in _bases(type(value)):
        if type(base.__dict__.get(name)) in _SLOTS:
            try:
                return base.__dict__[name].__get__(value)
            except AttributeError:  # never set
                return None
    return None


def _attributes(value: object) -> dict[str, Any]:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) is dict else {}


def _type_name(kind: type) -> str:
    name = kind.__qualname__ if type(kind) is type else str(_slot(kind, "__qualname__"))
    return name.rpartition("<locals>.")[2]

"""Loads the code of a handler that another process has written.

The law: **callers give `load` only bytes whose seal was verified.** Loading runs code.

A function or class that the present process has as it was is not made again: the present one is taken, so that `is`,
`isinstance` and `except` hold between the code, the values that it recorded, and objects of the process. What the bytes
say of it is read and dropped. The caller says which these are.

The stored bytes refer to the functions of this module, so they must keep their names and their arguments.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import pickle
import types
import typing
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any, ForwardRef, NamedTuple

from framehold_store.named import Known, Named


class Part(ModuleType):
    """A module of the author as kept code sees it: the names that the code uses, as they were. Any other name is that
    of the present module."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


class Globals(dict[str, Any]):
    """The globals of the kept functions of a module: the names that went along. Names of live objects are looked up in
    the present module whenever they are used, since that may bind them anew. Those in `bodies` are not: the body of a
    class finds only what is in the dict, so they are put there once."""

    def __init__(self, module: str, live: frozenset[str], bodies: frozenset[str]) -> None:
        super().__init__()
        self.module, self.live, self.bodies = module, live, bodies

    def __missing__(self, name: str) -> Any:
        if name not in self.live:
            raise KeyError(name)
        try:
            return getattr(importlib.import_module(self.module), name)
        except AttributeError:
            raise KeyError(name) from None


CachedFunction: Any = type(functools.lru_cache(lambda: None))
_GENERIC: Any = functools.singledispatch(lambda value: None)
"""All generic functions have the code of this one: what differs is in their closures."""
"""The class of what `functools.lru_cache` returns."""


class _Plain:
    pass


class _Quiet:
    """The first base of a class while it is made: no hook of its bases runs."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        pass

    @classmethod
    def __pydantic_init_subclass__(cls, **keywords: Any) -> None:
        pass


def is_plain(kind: type) -> bool:
    """Whether objects of a class have all their state in their `__dict__`, so that an object of another class can share
    it."""
    own = kind.__mro__[:-1]
    has_only_that = kind.__basicsize__ == _Plain.__basicsize__ and kind.__dictoffset__ == _Plain.__dictoffset__
    return has_only_that and not any({"__slots__", "__new__"} & vars(base).keys() for base in own)


class Loader(pickle.Unpickler):
    """Loads one code. `unchanged` has what need not be made again. `known` gets all that has a name, `live` the objects
    of the process that the code uses, `functions` the code of what was made again."""

    def __init__(self, data: bytes, unchanged: Known) -> None:
        super().__init__(io.BytesIO(data))
        self._unchanged = unchanged
        self.known: dict[Named, Any] = {}
        self.live: dict[Named, Any] = {}
        self.functions: list[tuple[CodeType, Globals]] = []
        self._spaces: dict[str, Globals] = {}

    def persistent_load(self, place: tuple[str, str, str]) -> Any:
        """What the writer left to the loading process: see `writing.Left`. Raises AttributeError or ImportError if the
        process has no live object of this name."""
        what, module, name = place
        named = Named(module, name)
        if what == "make":
            return functools.partial(self._make, named)
        if what == "fill":
            return functools.partial(self._fill, named)
        if what == "bind":
            return Globals.update
        if what == "globals":
            return functools.partial(self._globals, module)
        if what == "shared":
            return functools.partial(self._shared, named)
        return self._lives(named)

    def find_class(self, module: str, name: str) -> Any:
        """What the bytes refer to by name. The one by which cloudpickle makes functions is listened to."""
        found = super().find_class(module, name)
        return functools.partial(_function, self.functions, found) if name == "_make_function" else found

    def _lives(self, named: Named) -> Any:
        importlib.import_module(named.module)
        found = self.live[named] = named.present()
        return found

    def _globals(self, module: str, live: tuple[str, ...], bodies: tuple[str, ...]) -> Globals:
        """The globals of a module's functions, with the live objects that `bodies` names. A name that is gone is an
        error before anything runs."""
        found = {name: self._lives(Named(module, name)) for name in live}
        made = self._spaces[module] = Globals(module, frozenset(live), frozenset(bodies))
        made.update({name: found[name] for name in bodies})
        return made

    def resolve(self) -> None:
        """Replace annotations of classes that were made again, where they are texts, by what they mean in the code.
        Those that mean nothing stay as they are."""
        for named, made in self.known.items():
            own = vars(made).get("__annotations__", {}) if isinstance(made, type) else {}
            if not own or named in self._unchanged or made.__module__ not in self._spaces:
                continue
            written = dict(own)
            # A reference may look its text up in the present module.
            own.update({name: text.__forward_arg__ for name, text in own.items() if isinstance(text, ForwardRef)})
            try:
                meant = typing.get_type_hints(made, self._spaces[made.__module__], include_extras=True)
            except Exception:
                own.update(written)
                continue
            fields = vars(made).get("__dataclass_fields__", {})
            for name in own:
                own[name] = meant[name]
                if name in fields:
                    fields[name].type = own[name]

    def _make(self, named: Named, build: Callable[..., Any], *arguments: Any) -> Any:
        made = self._unchanged[named] if named in self._unchanged else build(*arguments)
        self.known[named] = made
        return made

    def _fill(self, named: Named, made: Any, state: tuple[Callable[[Any, Any], Any], Any]) -> None:
        if named not in self._unchanged:
            fill, inner = state
            fill(made, inner)

    def _shared(self, named: Named, kind: type, present: Any) -> Any:
        """An object with the methods of `kind`, its class when the code was kept, and the state of the present object.
        Both have one `__dict__`: what one sets, the other sees. The present object itself if its class is that one, or
        is of another layout now."""
        if named in self.known:
            # It refers to itself by way of its class.
            return self.known[named]
        made = present
        if type(present) is not kind and is_plain(type(present)):
            made = object.__new__(kind)
            # Past a `__setattr__` of the author: that of a frozen dataclass raises.
            object.__setattr__(made, "__dict__", present.__dict__)
        self.known[named] = made
        return made


def _function(
    functions: list[tuple[CodeType, Globals]], make: Callable[..., Any], code: CodeType, space: Globals, *others: Any
) -> Any:
    functions.append((code, space))
    return make(code, space, *others)


class Unpacked(NamedTuple):
    """What was loaded: the handler, all of it that has a name, the live objects that it uses, and the code of the
    functions that were made again, each with its globals."""

    handler: Any
    known: Known
    live: Known
    functions: list[tuple[CodeType, Globals]]


def load(data: bytes, unchanged: Known) -> Unpacked:
    """Load what `writing.write` has written. This fleet sealed the bytes, and the caller has verified the seal.

    Raises:
        Exception: anything: a module or a name that it needs is missing here, or code that runs meanwhile raises.
    """
    loader = Loader(data, unchanged)
    found = loader.load()
    loader.resolve()
    handler = found[0] if isinstance(found, list) and found else found
    return Unpacked(handler, loader.known, loader.live, loader.functions)


def resolve_annotations(fn: Any) -> None:
    """Replace annotations that are texts by what they mean in the function's own globals. Libraries look such texts up
    in the module of the function's name, which is the present one. Annotations that mean nothing stay texts."""
    fn = getattr(fn, "__func__", fn)
    while isinstance(fn, FunctionType):
        if isinstance(fn.__globals__, Globals):
            with contextlib.suppress(Exception):
                fn.__annotations__ = typing.get_type_hints(fn, include_extras=True)
        fn = getattr(fn, "__wrapped__", None)


def part(name: str) -> Part:
    """An empty part of a module; `fill` gives it its names."""
    return Part(name)


def fill(module: Part, names: dict[str, Any]) -> None:
    """Give a part of a module its names."""
    vars(module).update(names)


def cached(fn: Any, parameters: dict[str, Any]) -> Any:
    """A function with a cache of its own, as `functools.lru_cache` makes it."""
    return functools.lru_cache(**parameters)(fn)


def is_generic(item: Any) -> bool:
    """Whether an object is a generic function of `functools.singledispatch`."""
    return isinstance(item, FunctionType) and item.__code__ is _GENERIC.__code__


def implementations(item: Any) -> tuple[tuple[type, Any], ...]:
    """The functions of a generic function, each with its class; the default first, which is the one of `object`."""
    found = item.registry.items()
    return tuple(sorted(found, key=lambda pair: (pair[0] is not object, pair[0].__module__, pair[0].__qualname__)))


def generic(*found: tuple[type, Any]) -> Any:
    """A generic function with these implementations, as `implementations` gives them."""
    (_, default), *others = found
    made = functools.singledispatch(default)
    for kind, fn in others:
        made.register(kind, fn)
    return made


def new_class(kind: Any, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], maker: Any) -> Any:
    """A class without its attributes; `fill_class` gives it those. Where the author's own code would run, a metaclass
    of his or a hook of its bases, `maker` is the metaclass without that code; else None."""
    if maker is None:
        return types.new_class(name, bases, {"metaclass": kind}, lambda made: made.update(namespace))
    resolved = types.resolve_bases(bases)
    if resolved is not bases:
        namespace["__orig_bases__"] = bases
    if resolved in ((), (object,)):
        return maker.__new__(kind, name, resolved, namespace)
    made = maker.__new__(kind, name, (_Quiet, *resolved), namespace)
    type.__setattr__(made, "__bases__", resolved)
    return made


EARLY = "early"
"""Stands in the attributes of a class for those that it has got already."""


def cached_property(kind: Any, fn: Any, name: str | None) -> Any:
    """A `functools.cached_property`, which knows its name."""
    made = kind(fn)
    made.attrname = name
    return made


def fill_class(made: Any, attributes: dict[str, Any]) -> None:
    """Give a class its attributes, and the classes that were registered with it, if it is an abstract one."""
    attributes.pop(EARLY, None)
    registered = attributes.pop("_abc_impl", ())
    first_line = attributes.get("__firstlineno__")
    for name, value in attributes.items():
        # Past a `__setattr__` of the metaclass.
        type.__setattr__(made, name, value)
    if first_line is not None:
        # Setting `__module__` has deleted it.
        type.__setattr__(made, "__firstlineno__", first_line)
    for other in registered:
        made.register(other)


def new_enum(bases: tuple[Any, ...], name: str, members: dict[str, Any], module: str, qualname: str) -> Any:
    """An enum with its members, and without its other attributes; `fill_enum` gives it those."""
    kind: Any = type(bases[-1])
    namespace = kind.__prepare__(name, bases)
    for member, value in members.items():
        namespace[member] = value
    made = kind.__new__(kind, name, bases, namespace)
    made.__module__, made.__qualname__ = module, qualname
    return made


def fill_enum(made: Any, state: tuple[dict[str, Any], dict[str, dict[str, Any]]]) -> None:
    """Give an enum its attributes, and its members those that its constructor set."""
    attributes, members = state
    fill_class(made, attributes)
    for name, own in members.items():
        vars(made.__members__[name]).update(own)

"""Results of effects as pickles, with the classes of the code that reads them.

The law: **callers give `loads` only bytes whose seal was verified.** Loading a pickle can run any code.

A pickle names classes and functions by reference. `known` says which objects these names mean: a call that goes on with
kept code has its values read with that code's classes, and not with those of the present release. So `is`,
`isinstance`, `match` and `except` hold between a handler and what it recorded.

- An object that is known by its identity (`named`) is written with its name and its state. It is read as the object of
  that name, if that has the same state.
- A class that no name leads to is refused: whoever reads the value could only make another class of the same form.
- A function that no name leads to (a lambda) is written out by cloudpickle.
"""

from __future__ import annotations

import functools
import io
import operator
import pickle
from types import FunctionType, GenericAlias, UnionType
from typing import Any, NoReturn

import cloudpickle

from .named import Known, Named, Names

_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that was made by a statement, and not by the interpreter


def dumps(value: Any, known: Known, *, constructs: bool = True) -> bytes:
    """A pickle of `value`. If not `constructs`, exceptions in it are loaded without a call of their constructor.

    Raises:
        Exception: anything: it can't be pickled, or the code of its classes raises.
    """
    writes = functools.partial(_References, known, constructs)
    for kind in (_ByName, _ByValue):
        file = io.BytesIO()
        pickler = kind(file, 5)
        pickler.references = writes()
        try:
            pickler.dump(value)
            return file.getvalue()
        except NoName:
            raise
        except Exception:
            if kind is _ByValue:
                raise
    raise AssertionError("the last pickler returns or raises")


def loads(data: bytes, known: Known) -> Any:
    """The object of a pickle. This fleet sealed the bytes, and the caller has verified the seal.

    Raises:
        Exception: anything: a class is missing here, or its code raises.
    """
    return _Reader(data, known).load()


class NoName(TypeError):
    """No name leads to a class."""


def generic_of(item: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """The origin and the arguments of a generic model of pydantic with arguments, as in `Form[int]`; else None."""
    found = getattr(item, "__pydantic_generic_metadata__", None) if isinstance(item, type) else None
    return (found["origin"], found["args"]) if found and found.get("origin") is not None else None


class _References:
    """Decides what goes into a pickle by its name."""

    def __init__(self, known: Known, constructs: bool) -> None:
        self._known, self._constructs, self._names = known, constructs, Names()

    def reduced(self, item: Any) -> Any:
        """How to make an object again; NotImplemented to leave this to pickle."""
        if isinstance(item, type):
            return self._class(item)
        if isinstance(item, FunctionType):
            place = Named(item.__module__, item.__qualname__)
            return (find, tuple(place)) if self._known.get(place) is item else NotImplemented
        kind: Any = type(item)
        if isinstance(item, BaseException):
            plain = kind.__reduce__ in (BaseException.__reduce__, OSError.__reduce__)
            if not self._constructs and plain and type(kind.__init__) is FunctionType:
                return made, (kind, item.args, dict(vars(item)))
        elif (named := self._names.of(item)) is not None:
            return identical, (*named, kind, _state(item))
        return NotImplemented

    def _class(self, kind: type) -> Any:
        generic = generic_of(kind)
        if generic is not None:
            return operator.getitem, generic
        named = Named(kind.__module__, kind.__qualname__)
        if self._known.get(named) is kind:
            return find, tuple(named)
        if kind.__flags__ & _HEAP and named.found() is not kind:
            raise NoName(
                f"no name leads to the class {named.name} of {named.module}, so no other process finds it; define it "
                "at the top of a module, under its own name"
            )
        return NotImplemented


class _ByName(pickle.Pickler):
    references: _References

    def reducer_override(self, item: Any) -> Any:
        return self.references.reduced(item)


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    references: _References

    def reducer_override(self, item: Any) -> Any:
        reduced = self.references.reduced(item)
        return super().reducer_override(item) if reduced is NotImplemented else reduced


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, known: Known) -> None:
        super().__init__(io.BytesIO(data))
        self._known = known

    def find_class(self, module: str, name: str) -> Any:
        """What a name means here."""
        if module == __name__ and name in ("find", "identical"):
            return self._find if name == "find" else self._identical
        known = self._known.get(Named(module, name))
        if known is not None:
            return known
        found = super().find_class(module, name)
        if self._known and isinstance(found, type):
            self._check(found)
        return found

    def _check(self, kind: type) -> None:
        """Raise TypeError if a class of the present release derives from one that the code of the call has otherwise:
        neither this class nor any other would be right."""
        for base in kind.__mro__[1:]:
            named = Named(base.__module__, base.__qualname__)
            if self._known.get(named, base) is not base:
                raise TypeError(
                    f"{kind.__module__}.{kind.__qualname__} was not kept with the code of the call, and its base "
                    f"{named.name} is another one in this release"
                )

    def _find(self, module: str, name: str) -> Any:
        return self.find_class(module, name)

    def _identical(self, module: str, name: str, kind: Any, state: Any) -> Any:
        named = Named(module, name)
        found = self._known.get(named)
        if found is None:
            found = named.found()
        if type(found) is kind and _state(found) == state:
            return found
        if type(found).__qualname__ == kind.__qualname__ and type(found) is not kind:
            raise TypeError(f"{module}.{name} is an object of another release, and of no class that can be exchanged")
        copy = kind.__new__(kind)
        own, slots = state if isinstance(state, tuple) else (state, None)
        vars(copy).update(own or {})
        for slot, value in (slots or {}).items():
            object.__setattr__(copy, slot, value)
        return copy


def _state(item: Any) -> Any:
    return item.__reduce_ex__(2)[2]


# ---- what stored pickles refer to: these must keep their names, their module and their arguments


def find(module: str, name: str) -> NoReturn:
    """Stands for `_Reader._find` in a pickle."""
    raise TypeError("only framehold reads this pickle")


def identical(module: str, name: str, kind: type, state: Any) -> NoReturn:
    """Stands for `_Reader._identical` in a pickle."""
    raise TypeError("only framehold reads this pickle")


def made(kind: Any, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Build an exception without its constructor."""
    error = kind.__new__(kind, *arguments)
    BaseException.__setattr__(error, "args", arguments)
    vars(error).update(attributes)
    return error


def is_typing(item: Any) -> bool:
    """Whether an object is made for annotations: `list[int]`, a union, a type variable, a special form. A protocol is a
    class, though its metaclass belongs to `typing`."""
    if issubclass(type(item), type):
        return False
    return type(item).__module__ in ("typing", "typing_extensions") or isinstance(item, GenericAlias | UnionType)

"""What a handler reaches: functions, classes and constants of its author's modules, and live objects of the process.

The walk decides for each object how it goes along with a call:

- by value: functions and classes of the author, and what they consist of; constants (`constants`)
- by name: everything that is installed; and live objects (a connection, a logger, a setting that was read from the
  environment), which a process that loads the code has itself under the same name
- neither: then the handler's code is not kept, and `problems` says why

The digest is over the form of all that goes by value, and over the names of the rest. It is equal in every process of
one release of Python: it has no ids, no order of sets, no line numbers, no comments and no docstrings of functions.
The docstring of a model is part of it, since clients get it with the model's schema.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import logging
import re
import sys
import types
import typing
from collections.abc import Container, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from pydantic_core import SchemaSerializer, SchemaValidator

from framehold_store.named import Named, Names
from framehold_store.pickles import generic_of, is_typing

from .authors import Authors, is_importable, is_process_bound, module_of
from .follows import DERIVED, HOOKS, NOISE, OF_ENUM, OF_MODULE, REGISTRATION
from .forms import ObjectForms
from .instructions import Used, head, instructions, names_in, used
from .loading import CachedFunction, implementations, is_generic, is_plain
from .pieces import defaults_of, pieces_of
from .sources import VALUES, ModuleSources, Origin

_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range)
MAX_PROBLEMS = 3
"""Reasons that are named for one handler."""
MAX_OBJECTS = 1_000
"""Objects that a handler may lead to. Those of one that holds its server would keep the event loop for seconds."""


class Reach:
    """What one handler reaches. `handler` is the function that the server has for it, with its decorators. `sources`
    has the sources of the author's modules. A class is alike only if its subclasses are: those that are reached, and
    are in `subclasses` if that is given.

    After the walk:

    - `digest` names the code
    - `problems` says why it can't be kept; empty if it can
    - `live` has the objects that go by name, by their `id`; `shared` those of them that also get their kept class
    - `forms` has the digests of the functions and classes that go by value and have a name of their own: what has the
      same digest in the process that loads the code need not be a copy. `names` has these names, by the `id`
    - `rebound` says which globals the functions that go by value bind anew, `bodies` which ones classes in them use
    - `globals` has the names that the functions of each module use, by the `id` of their globals; `spaces` has those
    - `slices` has the names that are used of a module, by the `id` of the module
    - `attributes` has the attributes of classes that go by name, as what stands for them, by the `id` of the class
    - `modules` are the author's modules among them
    """

    def __init__(
        self,
        handler: Any,
        authors: Authors,
        sources: ModuleSources | None = None,
        sets: frozenset[int] = frozenset(),
        subclasses: Container[Named] | None = None,
    ) -> None:
        self.live: dict[int, Named] = {}
        self.shared: dict[int, type] = {}
        self.names: dict[int, Named] = {}
        self.globals: dict[int, dict[str, Any]] = {}
        self.slices: dict[int, dict[str, Any]] = {}
        self.spaces: dict[int, dict[str, Any]] = {}
        self.attributes: dict[int, dict[str, Any]] = {}
        self.modules, self.rebound, self.bodies = set[str](), set[str](), set[tuple[int, str]]()
        self._authors, self._forms = authors, ObjectForms()
        self._put = self._forms.put
        self._problems: dict[str, None] = {}
        self._seen, self._objects, self._sets, self._subclasses = dict[int, int](), 0, sets, subclasses
        self._alive: list[Any] = []
        self._sources = sources or ModuleSources(authors)
        self._used: dict[CodeType, Used] = {}
        self._names: dict[int, Named] | None = None
        self.sentinels = Names(lambda module: not authors.own(module))
        """The objects of installed modules that are known by their identity, e.g. `dataclasses.MISSING`."""
        self._visit(handler, "the handler")
        digests = self._forms.digests()
        self.digest = digests[0]
        self.forms = {name: digests[self._seen[item]] for item, name in self.names.items()}
        self.problems = tuple(self._problems)

    # ---- the walk

    def _visit(self, item: Any, where: str) -> None:
        """Add an object to the digest, by value or by name. `where` says where it was found."""
        if self._visit_plain(item, where):
            return
        known = self._seen.get(id(item))
        if known is not None:
            self._forms.lead(known)
            return
        self._seen[id(item)] = self._forms.begin()
        self._alive.append(item)
        if isinstance(item, FunctionType | type) and not self.is_generic(item):
            self._visit_code(item, where)
        elif isinstance(item, ModuleType):
            self._put("module", item.__name__)
        elif not self._visit_wrapper(item, where):
            self._visit_object(item, where)
        self._forms.end()

    def _visit_plain(self, item: Any, where: str) -> bool:
        """Add an object that is known by its value. Two objects of equal value may be one object in another process."""
        kind = type(item)
        if kind in _ATOMS or (isinstance(item, VALUES) and not self._authors.own(kind.__module__)):
            self._put(kind.__name__, repr(item))
        elif kind is tuple:
            self._put("tuple", len(item))
            for part in item:
                self._visit(part, where)
        elif kind is frozenset or kind is set:
            self._visit_set(item, where)
        elif kind is re.Pattern:
            self._put("pattern", repr(item.pattern), item.flags)
        elif isinstance(item, enum.Enum):
            self._put("member", item.name)
            self._visit(type(item), where)
        elif isinstance(item, CodeType):
            self._put("code", *head(item))
            for step in instructions(item):
                self._put(step.name)
                if step.loads:
                    self._visit(step.argument, where)
                else:
                    self._put(step.argument)
        elif (generic := generic_of(item)) is not None:
            self._put("generic")
            for part in generic:
                self._visit(part, where)
        elif is_typing(item):
            origin = typing.get_origin(item)
            self._put("typing", repr(item) if origin is None else getattr(origin, "__qualname__", repr(origin)))
            bounds = (getattr(item, name, None) for name in ("__bound__", "__constraints__", "__supertype__"))
            for part in (origin, *typing.get_args(item), *bounds):
                self._visit(part, where)
        else:
            return False
        return True

    def _visit_wrapper(self, item: Any, where: str) -> bool:
        """Add an object that stands round functions or other objects."""
        parts: Iterable[Any]
        if isinstance(item, functools.partial):
            parts = (item.func, item.args, item.keywords)
        elif isinstance(item, MethodType):
            parts = (item.__func__, item.__self__)
        elif isinstance(item, staticmethod | classmethod):
            parts = (item.__func__,)
        elif isinstance(item, property):
            parts = (item.fget, item.fset, item.fdel)
        elif isinstance(item, functools.cached_property):
            parts = (item.func,)
        elif isinstance(item, CachedFunction):
            self._name(item)
            parts = (item.__wrapped__, tuple(sorted(item.cache_parameters().items())))
        elif self.is_generic(item):
            self._name(item)
            parts = implementations(item)
        elif isinstance(item, functools.singledispatchmethod):
            parts = (item.dispatcher, item.func)
        elif type(item) is list:
            parts = (len(item), *item)
        elif type(item) is dict:
            parts = (len(item), *(part for pair in item.items() for part in pair))
        else:
            return False
        self._put(type(item).__name__)
        for part in parts:
            self._visit(part, where)
        return True

    def _visit_code(self, item: Any, where: str) -> None:
        """Add a function or a class: by value if it is the author's. A class that a library has registered when it was
        made, e.g. as a table, belongs to the process."""
        if not self._authors.wrote(item):
            self._put("installed", item.__module__, item.__qualname__)
            return
        named = self._name(item)
        if named is not None and isinstance(item, type) and self._authors.is_registered(item):
            self._put("registered", *named)
            self.live[id(item)] = named
        elif isinstance(item, FunctionType):
            self._visit_function(item)
        else:
            self._visit_class(item)

    def _name(self, item: Any) -> Named | None:
        """The name of a function or class that goes by value, if it is found under it."""
        if not self._authors.own(item.__module__) or not is_importable(item):
            return None
        named = self.names[id(item)] = Named(item.__module__, item.__qualname__)
        return named

    def has_seen(self, fn: FunctionType) -> bool:
        """Whether the walk came to a function, or need not: it is installed."""
        return id(fn) in self._seen or not self._authors.own(module_of(fn))

    def is_generic(self, item: Any) -> bool:
        """Whether an object is a generic function of the author."""
        return is_generic(item) and self._authors.own(item.__module__)

    def maker(self, kind: type) -> type | None:
        """The metaclass by which a class of the author is made again without his code, where a metaclass of his or a
        hook of a base of his would register it a second time; else None."""
        wrote = self._authors.wrote
        metaclass = next(found for found in type.mro(type(kind)) if not wrote(found))
        hooks = (base for base in kind.__mro__[1:] if vars(base).keys() & HOOKS)
        return metaclass if metaclass is not type(kind) or any(map(wrote, hooks)) else None

    def _visit_function(self, fn: FunctionType) -> None:
        where, module = f"{fn.__module__}.{fn.__qualname__}", module_of(fn)
        if self._authors.own(module):
            self.modules.add(module)
        self._put("function")
        self._visit(fn.__code__, where)
        for given in self._sources.given(fn):
            self._put(given.name)
            self._visit_given(module, given.node, given.value, given.kind, f"the default of {given.name!r} of {where}")
            if given.is_changed:
                self.rebound.add(f"{where} binds {given.name!r}")
        for name, cell in sorted(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)):
            self._put("closure", name)
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            self._visit(content, f"{name!r} in the closure of {where}")
        outside = self._annotated(fn, where)
        for name, value in sorted(vars(fn).items()):
            if name not in NOISE and name != REGISTRATION:
                self._put(name)
                self._visit(value, f"the attribute {name!r} of {where}")
                if self._sources.binds_inside(fn, name):
                    self.rebound.add(f"{where} binds {name!r}")
        use = self._names_of(fn.__code__)
        self.rebound |= {f"{where} binds {name!r}" for name in use.rebound}
        self.bodies |= {(id(fn.__globals__), name) for name in use.bodies}
        for name in sorted(use.globals | outside):
            if name in OF_MODULE:
                # cloudpickle writes them with the function.
                self._put("global", name, fn.__globals__.get(name))
            elif name in fn.__globals__:
                names = self.globals.setdefault(id(fn.__globals__), {})
                self.spaces[id(fn.__globals__)] = fn.__globals__
                self._visit_global(names, module, name, fn.__globals__[name], use.attributes)

    def _visit_given(self, module: str, node: ast.expr | None, value: Any, kind: type | None, where: str) -> None:
        """Add a value that a function or a class has been given when it was made. What was read from the environment of
        a process, or is of its time, can't go along, unless a name leads to it."""
        if self._sources.origin(module, node, value, kind) is Origin.COMPUTED and not self._has_place(value):
            if type(value) not in (*_ATOMS, tuple) and (named := self._named().get(id(value))) is not None:
                self._by_name(value, *named)
                return
            if self._sources.reads_process(module, node, value, kind):
                self._refuse(f"{where} is read from the process when its module is imported; read it when it is used")
                return
        self._visit(value, where)

    def _visit_names(self, module: str, names: frozenset[str]) -> None:
        """Add what the annotations of a class of this module mean that are texts."""
        space = vars(sys.modules[module]) if module in sys.modules else {}
        for name in sorted(names & space.keys()):
            self.spaces[id(space)] = space
            self._visit_global(self.globals.setdefault(id(space), {}), module, name, space[name], frozenset())

    def _annotated(self, item: Any, where: str) -> frozenset[str]:
        """Add the annotations of a function or a class. Returns the names that texts in them look up."""
        names: frozenset[str] = frozenset()
        for name, annotation in sorted(getattr(item, "__annotations__", {}).items()):
            self._put("annotation", name)
            self._visit(annotation, f"an annotation of {where}")
            names |= names_in(annotation)
        return names

    def _visit_class(self, kind: type) -> None:
        where = f"{kind.__module__}.{kind.__qualname__}"
        if self._authors.own(kind.__module__):
            self.modules.add(kind.__module__)
        self._put("class", kind.__name__)
        for part in (type(kind), *kind.__bases__):
            self._visit(part, where)
        self._join_bases(kind)
        self._visit_names(kind.__module__, self._annotated(kind, where))
        for piece in pieces_of(kind, where):
            self._put(*piece.names)
            for part in piece.parts:
                self._visit(part, piece.where)
        nodes = self._sources.in_class(kind)
        for name, value in sorted(defaults_of(kind).items()):
            self._visit_given(kind.__module__, nodes.get(name), value, kind, f"the field {name!r} of {where}")
        self._visit_attributes(kind, where)

    def _visit_attributes(self, kind: type, where: str) -> None:
        nodes, source = self._sources.in_class(kind), self._sources.of(kind.__module__)
        members = kind.__members__ if issubclass(kind, enum.Enum) else {}
        for name, value in sorted(vars(kind).items()):
            if name in NOISE or isinstance(value, DERIVED) or (name.startswith("__pydantic_") and name not in HOOKS):
                continue
            if members and (name in members or name in OF_ENUM):
                continue
            self._put(name)
            node, at = nodes.get(name), f"the attribute {name!r} of {where}"
            is_stored = source is not None and name in source.facts.stored
            origin = self._sources.origin(kind.__module__, node, value, kind, is_stored)
            place = Named(kind.__module__, f"{kind.__qualname__}.{name}")
            by_name = self.attributes.setdefault(id(kind), {}) if place.found() is value else {}
            if source and node is not None and origin is Origin.CHANGED:
                # The digest is over what the source says: it does not change while the process runs.
                by_name[name] = source.value_of(node, kind) if isinstance(value, kind) else place
                self._visit(source.value_of(node, kind), at)
            elif place.found() is value and (origin is Origin.COMPUTED or is_process_bound(value)):
                self._put(ast.dump(node) if node is not None else "")
                by_name[name] = self._by_name(value, *place)
            else:
                self._visit(value, at)
            if is_stored and node is not None:
                self.rebound.add(f"{where} binds {name!r}")

    def _join_bases(self, kind: type) -> None:
        """Have the bases of a class lead to it: a copy of it must not be among the subclasses of the present ones."""
        named = self.names.get(id(kind))
        if named is not None and (self._subclasses is None or named in self._subclasses):
            for base in filter(lambda base: id(base) in self.names, kind.__bases__):
                self._forms.join(self._seen[id(base)], self._seen[id(kind)])

    def _visit_set(self, item: Any, where: str) -> None:
        """Add a set in an order that is equal in every process: by the digests of its items, each of them alone."""
        if id(item) in self._sets:
            self._problem(item, where, "which holds itself")
            return
        outside, self._sets = self._sets, self._sets | {id(item)}
        self._put(type(item).__name__, len(item))
        for part in sorted(item, key=self._in_set):
            self._visit(part, where)
        self._sets = outside

    def _in_set(self, item: Any) -> str:
        if type(item) in _ATOMS:
            return f"{type(item).__name__} {item!r}"
        if isinstance(item, enum.Enum) and item.name is not None:
            return f"member {type(item).__module__} {type(item).__qualname__} {item.name}"
        return Reach(item, self._authors, self._sources, self._sets).digest

    # ---- names

    def _names_of(self, code: CodeType) -> Used:
        found = self._used.get(code)
        if found is None:
            found = self._used[code] = used(code)
        return found

    def _visit_global(
        self, names: dict[str, Any], module: str, name: str, value: Any, attributes: frozenset[str]
    ) -> None:
        """Add a global of a module. `names` gets it as it goes along. `attributes` are the names that the code which
        uses it has: of a module of the author only these are used."""
        self._put("global", name)
        if isinstance(value, ModuleType):
            names[name] = value
            self._visit_module(value, attributes)
        elif self._goes_by_value(module, name, value):
            names[name] = value
            self._visit(value, f"{module}.{name}")
        else:
            names[name] = self._by_name(value, module, name)

    def _visit_module(self, module: ModuleType, attributes: frozenset[str]) -> None:
        self._put("module", module.__name__)
        if not self._authors.own(module.__name__):
            return
        self.modules.add(module.__name__)
        self._alive.append(module)
        names = self.slices.setdefault(id(module), {})
        for name in sorted(attributes & vars(module).keys()):
            if not name.startswith("__"):
                self._visit_global(names, module.__name__, name, vars(module)[name], attributes)

    def _goes_by_value(self, module: str, name: str, value: Any) -> bool:
        if isinstance(value, FunctionType | type):
            return self._authors.wrote(value) or is_importable(value)
        if isinstance(value, enum.Enum | BuiltinFunctionType | CachedFunction | logging.Logger) or is_typing(value):
            return True
        return self._sources.is_constant(module, name, value)

    def _by_name(self, value: Any, module: str, name: str) -> Any:
        """Have an object go by name. An object of a class of the author also gets the class as it is now: its methods
        are code of the author. Returns what stands for the object."""
        live = Named(module, name)
        self._put("live", module, name)
        if type(value) not in _ATOMS:
            self._alive.append(value)
            self.live.setdefault(id(value), live)
            kind = type(value)
            if self._authors.own(kind.__module__) and is_plain(kind):
                self.shared[id(value)] = kind
                self._visit(kind, f"{module}.{name}")
        self._put_behind(value, live)
        return value if id(value) in self.shared else live

    def _put_behind(self, value: Any, live: Named) -> None:
        """Add the code of the function that the object of a decorator stands in front of, under the function's name.
        It goes by name, too: the digest is to tell that its body has changed. What the body leads to is left out: a
        walk behind each such object would double with each layer of them."""
        held = list[Any]()
        with contextlib.suppress(Exception):
            held += vars(value).values()
        for fn in held:
            if isinstance(fn, FunctionType) and (fn.__module__, fn.__qualname__) == live:
                self._visit(fn.__code__, live.name)

    def _named(self) -> dict[int, Named]:
        """All objects that are globals of the author's modules, by their `id`."""
        if self._names is None:
            self._names = {}
            for module, found in list(sys.modules.items()):
                if self._authors.own(module):
                    for name, value in list(vars(found).items()):
                        self._names.setdefault(id(value), Named(module, name))
        return self._names

    # ---- objects

    def _has_place(self, item: Any) -> bool:
        """Whether an object is known by its identity, in a library."""
        if self.sentinels.of(item) is not None:
            return True
        with contextlib.suppress(Exception):
            return type(item) not in _ATOMS and isinstance(item.__reduce_ex__(4), str)
        return False

    def _visit_object(self, item: Any, where: str) -> None:
        """Add an object that no name leads to: it goes by value if it can be pickled."""
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise ValueError(f"{where} leads to more than {MAX_OBJECTS:,} objects; make it a global of a module")
        if isinstance(item, logging.Logger):
            self._put("logger", item.name)
            return
        live = self._named().get(id(item))
        if live is not None:
            self._by_name(item, *live)
            return
        if (installed := self.sentinels.of(item)) is not None:
            self._put("installed", *installed)
            return
        if isinstance(item, BuiltinFunctionType | types.MethodDescriptorType):
            self._put("builtin", getattr(item, "__module__", None), item.__qualname__)
            return
        if is_process_bound(item):
            self._problem(item, where)
            return
        if isinstance(item, SchemaValidator | SchemaSerializer) or (
            type(item).__module__.startswith("pydantic.") and hasattr(type(item), "__pydantic_validator__")
        ):
            # Its schema has ids of this process, and all names of its module.
            self._refuse(f"{where} holds a validator of pydantic, which can't be made again; validate with a model")
            return
        try:
            reduced = item.__reduce_ex__(4)
        except Exception:
            self._problem(item, where)
            return
        self._put("object")
        if isinstance(reduced, str):
            self._put(type(item).__module__, reduced)
            return
        for part in reduced:
            self._visit(list(part) if isinstance(part, Iterator) else part, where)

    def _problem(self, item: Any, where: str, why: str = "which belongs to this process") -> None:
        kind = type(item)
        found = f"{where} is an object of {kind.__module__}.{kind.__qualname__}, {why}"
        self._refuse(f"{found}; make it a global of a module, so that it goes by name")

    def _refuse(self, problem: str) -> None:
        self._put("problem", problem)
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.setdefault(problem)

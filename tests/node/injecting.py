"""Finds every await of some modules by their syntax trees, and makes a chosen one raise once.

The functions of the modules get code in which each awaited expression passes through the injector. Coroutines that run
already keep their old code, so whoever tests a node installs the injector before the node starts.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
from collections import Counter
from collections.abc import Awaitable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, TracebackType
from typing import Any, NamedTuple

import pytest

_HOOKS = ("_injected_awaited", "_injected_entered", "_injected_iterated")


class Site(NamedTuple):
    """One place at which a coroutine may be suspended. `kind` is `await`, `enter` or `exit` of an `async with`, or
    `for`."""

    module: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.kind} {self.text[:60]}"


class _Marker(ast.NodeTransformer):
    """Wraps each awaited expression of a module, and lists the sites."""

    def __init__(self, module: str) -> None:
        self.module, self.sites = module, list[Site]()

    def _wrapped(self, hook: str, expression: ast.expr, *kinds: str) -> ast.Call:
        text = " ".join(ast.unparse(expression).split())
        first = len(self.sites)
        self.sites += [Site(self.module, expression.lineno, kind, text) for kind in kinds]
        numbers = [ast.parse(repr((self.module, first + at)), mode="eval").body for at in range(len(kinds))]
        self.generic_visit(expression)
        call = ast.Call(ast.Name(hook, ast.Load()), [*numbers, expression], [])
        return ast.fix_missing_locations(ast.copy_location(call, expression))

    def visit_Await(self, node: ast.Await) -> ast.AST:
        node.value = self._wrapped("_injected_awaited", node.value, "await")
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        for item in node.items:
            item.context_expr = self._wrapped("_injected_entered", item.context_expr, "enter", "exit")
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        node.iter = self._wrapped("_injected_iterated", node.iter, "for")
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        if not node.is_async:
            return self.generic_visit(node)
        node.iter = self._wrapped("_injected_iterated", node.iter, "for")
        return node


class Injector:
    """Makes one site raise `error` once: before what it awaits has begun, or, if `late`, after that has ended."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.met: Counter[Site] = Counter()
        """How often each site was reached."""
        self.armed: Site | None = None
        self.error: Exception = RuntimeError("injected")
        self.late = False
        self._by_number: dict[tuple[str, int], Site] = {}

    def install(self, modules: list[Path], package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Give all functions of these files of `package` their code with the sites in it."""
        for path in modules:
            name = package if path.stem == "__init__" else f"{package}.{path.stem}"
            marker = _Marker(f"{package.rpartition('.')[2]}/{path.name}")
            tree = ast.fix_missing_locations(marker.visit(ast.parse(path.read_text())))
            self._by_number |= {(marker.module, at): site for at, site in enumerate(marker.sites)}
            self.sites += marker.sites
            if marker.sites:
                module = importlib.import_module(name)
                self._replace(module, compile(tree, str(path), "exec", dont_inherit=True), marker, monkeypatch)

    def _replace(self, module: ModuleType, code: CodeType, marker: _Marker, monkeypatch: pytest.MonkeyPatch) -> None:
        for hook in _HOOKS:
            monkeypatch.setattr(module, hook, getattr(self, hook.removeprefix("_injected_")), raising=False)
        found = set[int]()
        for new in _functions(code):
            numbers = set(_numbers(new, marker.module))
            if numbers:
                monkeypatch.setattr(_function(module, new.co_qualname), "__code__", new)
                found |= numbers
        assert found == set(range(len(marker.sites))), f"{module.__name__}: a site stands in no function that is known"

    def arm(self, site: Site, error: Exception, late: bool = False) -> None:
        """The next time that `site` is reached, it raises."""
        # A new one: an exception keeps the tracebacks of all places that raised it.
        self.armed, self.error, self.late = site, type(error)(*error.args), late

    def disarm(self) -> None:
        self.armed = None

    def _hit(self, number: tuple[str, int]) -> bool:
        site = self._by_number[number]
        self.met[site] += 1
        if site is not self.armed:
            return False
        self.armed = None
        return True

    def awaited(self, number: tuple[str, int], awaitable: Awaitable[Any]) -> Awaitable[Any]:
        if not self._hit(number):
            return awaitable
        return self._raising(awaitable)

    async def _raising(self, awaitable: Awaitable[Any]) -> None:
        if self.late:
            await awaitable
        else:
            _abandon(awaitable)
        raise self.error

    def entered(self, enters: tuple[str, int], exits: tuple[str, int], scope: Any) -> Any:
        return _Scope(self, enters, exits, scope)

    def iterated(self, number: tuple[str, int], items: Any) -> Any:
        return self._items(number, aiter(items))

    async def _items(self, number: tuple[str, int], items: Any) -> Any:
        try:
            while True:
                if self._hit(number):
                    raise self.error
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if hasattr(items, "aclose"):
                await items.aclose()


class _Scope:
    """An asynchronous context manager whose ends may raise."""

    def __init__(self, injector: Injector, enters: tuple[str, int], exits: tuple[str, int], scope: Any) -> None:
        self._injector, self._enters, self._exits, self._scope = injector, enters, exits, scope

    async def __aenter__(self) -> Any:
        if self._injector._hit(self._enters):
            raise self._injector.error
        return await self._scope.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        swallowed = await self._scope.__aexit__(kind, error, trace)
        if error is None and self._injector._hit(self._exits):
            raise self._injector.error
        return swallowed


def _abandon(awaitable: Any) -> None:
    """Close a coroutine that never began, and those among its arguments."""
    if inspect.iscoroutine(awaitable):
        for argument in list(awaitable.cr_frame.f_locals.values()) if awaitable.cr_frame else ():
            _abandon(argument)
        awaitable.close()
    elif isinstance(awaitable, asyncio.Future) and type(awaitable).__name__ == "_GatheringFuture":
        # Nobody waits for the parts of a `gather` any more.
        awaitable.cancel()
        awaitable.add_done_callback(lambda gathered: gathered.cancelled() or gathered.exception())


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The code of each function that a module or a class of it has."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & inspect.CO_OPTIMIZED:
                yield constant
            else:
                yield from _functions(constant)


def _numbers(code: CodeType, module: str) -> Iterator[int]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _numbers(constant, module)
        elif isinstance(constant, tuple) and len(constant) == 2 and constant[0] == module:
            yield constant[1]


def _function(module: ModuleType, qualname: str) -> FunctionType:
    found: Any = module
    for name in qualname.split("."):
        found = vars(found)[name]
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    found = inspect.unwrap(found)
    assert isinstance(found, FunctionType), qualname
    return found

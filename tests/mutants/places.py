"""The places of the shells, of core's takeover and of the scripts at which a decision is taken out, one at a time.

    if a:            -> if False:
    a and b          -> b, and a
    a or b           -> b, and a
    a < b, a == b    -> a <= b, a != b
    a is b, a in b   -> a is not b, a not in b
    await f()        -> f() is started, and nobody waits for it

In the scripts these are the guards (`guards`). A mutant is known by the digest of its function, or of its script: when
that changes, what was known of it is forgotten.
"""

from __future__ import annotations

import ast
import asyncio
import copy
import hashlib
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import guards
from .guards import ROOT

MODULES = (
    "core/framehold_core/ownership",
    "core/framehold_core/lease",
    "core/framehold_core/takeover",
    "node/framehold/engine/records",
    "node/framehold/engine/heartbeat",
    "node/framehold/engine/drain",
    "node/framehold/engine/performer",
    "node/framehold/engine/loop",
    "node/framehold/frame/effect_call",
    "node/framehold/frame/once",
    "node/framehold/frame/rebuild",
    "store/framehold_store/batch",
    "store/framehold_store/memory",
)
"""The modules whose decisions are taken out."""
FILES = (*MODULES, *guards.FILES)
"""The files whose decisions are taken out."""
_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
STARTED = "_mutant_started"
"""The name under which a mutant's module has `started`."""
_kept: list[asyncio.Future[Any]] = []


def started(awaitable: Awaitable[Any]) -> None:
    """Start what would be awaited."""
    _kept.append(asyncio.ensure_future(awaitable))


class Mutant(NamedTuple):
    """One place without its decision. `number` counts the places of `function` in their order; `text` is the place as
    it stands, `digest` that of its function."""

    file: str
    function: str
    number: int
    line: int
    kind: str
    text: str
    digest: str

    @property
    def name(self) -> str:
        """The name under which its result is kept."""
        return f"{self.file}:{self.function}:{self.number}"


class _Changes(ast.NodeVisitor):
    """All places of a module, each with what stands there instead."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.AST, str, int, ast.AST]] = []
        """Function, node, kind, which of several changes of that node, and the node that replaces it."""
        self.functions: dict[str, str] = {}
        self._within: list[str] = []

    def _add(self, node: ast.AST, kind: str, new: ast.AST, which: int = 0) -> None:
        self.found.append((".".join(self._within), node, kind, which, new))

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._within.append(node.name)
        qualified = ".".join(self._within)
        self.functions[qualified] = _digest(node)
        self.generic_visit(node)
        self._within.pop()

    def visit_Module(self, node: ast.Module) -> None:
        # What stands in no function is forgotten when anything in its file changes.
        self.functions[""] = _digest(node)
        self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _enter

    def _decide(self, node: ast.If | ast.IfExp) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        new = copy.copy(node)
        new.test = ast.Constant(False)
        self._add(node, "if", new)
        self.generic_visit(node)

    visit_If = visit_IfExp = _decide

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        kind = "and" if isinstance(node.op, ast.And) else "or"
        for which in range(len(node.values)):
            left = [*node.values[:which], *node.values[which + 1 :]]
            self._add(node, kind, left[0] if len(left) == 1 else ast.BoolOp(node.op, left), which)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for which, operator in enumerate(node.ops):
            new = copy.copy(node)
            new.ops = [*node.ops[:which], _OTHER[type(operator)](), *node.ops[which + 1 :]]
            self._add(node, "comparison", new, which)
        self.generic_visit(node)

    def visit_Await(self, node: ast.Await) -> None:
        self._add(node, "await", ast.Call(ast.Name(STARTED, ast.Load()), [node.value], []))
        self.generic_visit(node)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return ast.copy_location(self._new, node)
        found: ast.AST = super().visit(node)
        return found


def _digest(node: ast.AST) -> str:
    return hashlib.blake2b(ast.dump(node).encode(), digest_size=8).hexdigest()


def _path(file: str) -> Path:
    return ROOT / f"{file}.py"


def module_of(file: str) -> str:
    """The name of the module in a file."""
    return file.partition("/")[2].replace("/", ".")


def mutants(file: str) -> Iterator[Mutant]:
    """All mutants of a file: a module's name without its ending, or a script in Lua."""
    return _of_script(file) if file.endswith(".lua") else _of_module(file)


def _of_script(file: str) -> Iterator[Mutant]:
    digest = hashlib.blake2b((ROOT / file).read_bytes(), digest_size=8).hexdigest()
    for number, guard in enumerate(guards.guards(file)):
        text = f"{guard.keeps_out}{f', without part {guard.left_out}' if guard.left_out else ''}"
        yield Mutant(file, "", number, guard.line, "part of a guard" if guard.left_out else "guard", text, digest)


def _of_module(file: str) -> Iterator[Mutant]:
    changes = _Changes()
    changes.visit(as_it_is(file))
    numbers: dict[str, int] = {}
    for function, node, kind, which, _ in changes.found:
        number = numbers[function] = numbers.get(function, -1) + 1
        assert isinstance(node, ast.stmt | ast.expr)
        place = node.test if isinstance(node, ast.If) else node
        text = f"{ast.unparse(place)[:90]}{f' without part {which + 1}' if kind in ('and', 'or') else ''}"
        digest = changes.functions[function]
        yield Mutant(file, function, number, node.lineno, kind, text, digest)


def as_it_is(file: str) -> ast.Module:
    """The syntax tree of a module's file."""
    return ast.parse(_path(file).read_text())


def mutated(name: str) -> ast.Module:
    """The syntax tree of the file of a mutant, with its change."""
    file, function, number = name.split(":")
    tree = as_it_is(file)
    changes = _Changes()
    changes.visit(tree)
    of_function = [change for change in changes.found if change[0] == function]
    _, node, _, _, new = of_function[int(number)]
    made = _Replace(node, new).visit(tree)
    assert isinstance(made, ast.Module)
    return ast.fix_missing_locations(made)

"""What a source file refers to, and where: names are followed through imports and aliases to what they stand for."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from tests.structure.rooms import ROOMS, ROOT

_PASSED_OVER = ("annotation", "returns", "ctx", "op", "ops")
"""Members of a node that use nothing: types, and marks."""


class Place(NamedTuple):
    """A node of a file's syntax tree, and the qualified name of the function or class around it; empty for the module
    itself. A decorator, a default and a base stand in what they belong to."""

    node: ast.AST
    around: str


@dataclass(frozen=True)
class File:
    """A source file. `path`: from the top of the repository. `module`: its name for who imports it."""

    path: str
    module: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, self.path)

    @cached_property
    def imported(self) -> dict[str, str]:
        """What each imported name stands for, wherever in the file it is imported."""
        found = {}
        for place in self.places:
            node = place.node
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    found[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                found |= {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
        return found

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        is_package = self.path.endswith("__init__.py")
        parts = self.module.split(".")
        kept = parts[: len(parts) - node.level + is_package]
        return ".".join([*kept, *([node.module] if node.module else [])])

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """All nodes that use something."""
        found, left = [], [Place(self.tree, "")]
        while left:
            place = left.pop()
            found.append(place)
            node, around = place.node, place.around
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                around = f"{around}.{node.name}".lstrip(".")
            for name, value in ast.iter_fields(node):
                if name not in _PASSED_OVER:
                    children = value if isinstance(value, list) else [value]
                    left += [Place(child, around) for child in children if isinstance(child, ast.AST)]
        return tuple(found)

    @cached_property
    def assigned(self) -> dict[tuple[str, str], list[ast.expr]]:
        """What each variable is set to, by the function around and its name."""
        found: dict[tuple[str, str], list[ast.expr]] = {}
        for node, around in self.places:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        found.setdefault((around, target.id), []).append(node.value)
        return found

    @cached_property
    def own(self) -> frozenset[tuple[str, str]]:
        """The variables that hold an object of a class of this file that inherits nothing, with the function around:
        a method of theirs is defined in this file."""
        plain = {node.name for node in self.tree.body if isinstance(node, ast.ClassDef) and not node.bases}

        def is_plain(value: ast.expr) -> bool:
            return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in plain

        return frozenset(variable for variable, values in self.assigned.items() if all(map(is_plain, values)))

    def name(self, node: ast.AST) -> str:
        """The dotted name that a name or an attribute stands for. It begins with `.` if what the first part stands for
        is not known; empty for anything else, and for a bare name that is not imported."""
        if isinstance(node, ast.Name):
            return _origin(self.imported.get(node.id, ""))
        if isinstance(node, ast.Attribute):
            return _origin(f"{self.name(node.value)}.{node.attr}")
        return ""


def _origin(name: str) -> str:
    """What a name of ours stands for, where its module has imported it."""
    module, _, last = name.rpartition(".")
    file = _modules().get(module)
    found = file.imported.get(last) if file else None
    return name if found is None or found == name else _origin(found)


@cache
def _modules() -> dict[str, File]:
    return {file.module: file for file in shipped()}


def forget() -> None:
    """Give the memory back that the syntax trees take."""
    shipped.cache_clear()
    _modules.cache_clear()


def is_ours(name: str) -> bool:
    """Whether a dotted name is one of the packages that ship."""
    return name.partition(".")[0] in ROOMS


@cache
def shipped() -> tuple[File, ...]:
    """All files that ship."""
    found = []
    for package, folder in ROOMS.items():
        for path in sorted((folder / package).rglob("*.py")):
            module = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
            found.append(File(str(path.relative_to(ROOT)), module, path.read_text()))
    return tuple(found)

"""Rules of the source that neither ruff nor import-linter can state: core is pure, settings are read in one place, and
files and functions stay readable. The layers are contracts of import-linter, in pyproject.toml.

Each rule is a function from a parsed file to its violations. Each has a test over the packages and one over a bad
sample, so that a rule which has gone blind is as red as a rule which is broken.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from tests import house
from tests.structure.rooms import ROOMS, ROOT

IMPURE = {"asyncio", "time", "random", "secrets", "uuid", "logging", "os", "threading"}
# No less impure, and the ways around the list above.
IMPURE |= {"concurrent", "multiprocessing", "sched", "selectors", "signal", "socket", "ssl", "subprocess", "importlib"}
VALUES = ("msgspec", "dataclasses", "typing.NamedTuple", "collections.namedtuple")
"""What makes values: core has it in one file (docs/decisions/046-values-are-structs.md)."""
CLOCKS = {"now", "utcnow", "today"}

FILE_LINES, FUNCTION_LINES = 501, 40  # each is the first number that is too many


@dataclass(frozen=True)
class Source:
    """One file of a package: where it is, counted from the room's folder, and what it says."""

    path: Path
    text: str

    @property
    def package(self) -> str:
        return self.path.parts[0]

    @cached_property  # the rules compare nodes by identity, so a file is parsed once
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))


Rule = Callable[[Source], Iterator[str]]


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of each import, wherever it stands; relative ones are resolved."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(source.path.parent.parts)
            start = base[: len(base) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def core_is_pure(source: Source) -> Iterator[str]:
    if source.package != "framehold_core":
        return
    for line, name in imports(source):
        top = name.split(".")[0]
        if top in IMPURE:
            yield f"{source.path}:{line}: core imports {top}"
        elif name.startswith(VALUES):
            if source.path.name != "value.py":
                yield f"{source.path}:{line}: core imports {name}: its values are those of value.py"
        elif top != "framehold_core" and top not in sys.stdlib_module_names:
            yield f"{source.path}:{line}: core imports {top}, which is not the standard library"
    clocks = {"datetime", "date"} | set(bound_as(source.tree, "datetime"))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS and dotted(node.value).split(".")[-1] in clocks:
            yield f"{source.path}:{node.lineno}: core reads the clock: {dotted(node)}"
        if isinstance(node, ast.Call) and dotted(node.func) in {"__import__", "open", "print"}:
            yield f"{source.path}:{node.lineno}: core calls {dotted(node.func)}"


def one_clock(source: Source) -> Iterator[str]:
    """Time and randomness come from the `Clock` of the runtime: a time that another process reads is the store's."""
    if source.path.parts[:2] not in _ON_ONE_CLOCK and source.package != "framehold_store":
        return
    free: set[str] = _FREE_OF_IT.get(str(source.path), set())
    for line, name in imports(source):
        if name.split(".")[0] in _SOURCES or name in _SOURCES | {"framehold_store.system_clock.now"}:
            yield from () if name in free else (f"{source.path}:{line}: imports {name}, beside the clock",)
    known = {as_: module for module in ("os", "uuid") for as_ in bound_as(source.tree, module)}
    dates = {"datetime", *bound_as(source.tree, "datetime")}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute):
            continue
        said, of = dotted(node), dotted(node.value)
        if f"{known.get(of)}.{node.attr}" in _SOURCES - free:
            yield f"{source.path}:{node.lineno}: draws {said}, beside the clock"
        if (node.attr in CLOCKS and of.split(".")[-1] in dates) or said == "system_clock.now":
            yield f"{source.path}:{node.lineno}: reads {said}, beside the clock"


_ON_ONE_CLOCK = {("framehold", name) for name in ("engine", "frame", "sdk", "code")}
_SOURCES = {"time", "random", "secrets", "os.urandom", "os.getrandom", "uuid.uuid1", "uuid.uuid4"}
_FREE_OF_IT = {
    # Here the clock is made.
    "framehold_store/system_clock.py": {"time", "os.urandom"},
    # A nonce must not repeat: no test and no simulation may choose it.
    "framehold_store/seal.py": {"os.urandom"},
}


def settings_in_config(source: Source) -> Iterator[str]:
    """The environment is read in config.py only. The CLI may copy it whole, and set it, for its children."""
    if source.path.name == "config.py":
        return
    for line, name in imports(source):
        if name.startswith(("os.environ", "os.getenv", "pydantic_settings")):
            yield f"{source.path}:{line}: imports {name} outside config.py"
    system = set(bound_as(source.tree, "os"))
    handed_on = copies_for_children(source.tree) if source.package == "framehold_cli" else set()
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in {"environ", "environb", "getenv", "getenvb"}
            and dotted(node.value) in system
            and node not in handed_on
        ):
            yield f"{source.path}:{node.lineno}: reads the environment outside config.py: {dotted(node)}"


def copies_for_children(tree: ast.Module) -> set[ast.AST]:
    """The nodes that stand where an environment is copied whole ({**e}, e | {}, dict(e), e.copy()) or written."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            found |= {value for key, value in zip(node.keys, node.values, strict=True) if key is None}
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            found |= {node.left, node.right}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            found |= set(node.args)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in {"copy", "update"}:
                found.add(node.func.value)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found.add(node.value)
    return found


READERS = {"framehold/engine/records.py", "framehold_cli/operate/journal.py"}


def records_are_read_where_their_seal_is_checked(source: Source) -> Iterator[str]:
    """On a node. A router has no key, and shows what stands there."""
    if source.package not in ("framehold", "framehold_cli") or source.path.as_posix() in READERS:
        return
    for line, name in imports(source):
        if name == "framehold_core.requests.Read":
            yield f"{source.path}:{line}: reads records past the check of their seal"


def certificates_are_checked(source: Source) -> Iterator[str]:
    """ruff knows other clients, and neither httpx2 nor aiohttp."""
    switches = {"verify", "ssl", "check_hostname"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword):
            off = node.arg in switches and ast.unparse(node.value) == "False"
        elif isinstance(node, ast.Assign):
            off = bool(switches.intersection(dotted(each).rpartition(".")[2] for each in node.targets))
            off = off and ast.unparse(node.value) == "False"
        else:
            off = isinstance(node, ast.Attribute | ast.Name) and dotted(node).endswith("CERT_NONE")
        if off and isinstance(node, ast.keyword | ast.stmt | ast.expr):
            yield f"{source.path}:{node.lineno}: takes any certificate"


def causes_are_walked_in_one_place(source: Source) -> Iterator[str]:
    """The causes of an exception may form a ring, and whoever follows them by itself may follow them for ever."""
    if source.path.as_posix() == "framehold_core/errors.py":
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "__context__" and isinstance(node.ctx, ast.Load):
            yield f"{source.path}:{node.lineno}: follows the causes of an exception beside errors.causes"


def files_are_short(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines >= FILE_LINES:
        yield f"{source.path}: {lines} lines, must stay under {FILE_LINES}"


def functions_are_short(source: Source) -> Iterator[str]:
    """From the line of the def to its last one, without the docstring."""
    for node in functions(source.tree):
        lines = node.end_lineno - node.lineno + 1 if node.end_lineno else 0
        first = node.body[0]
        if ast.get_docstring(node, clean=False) is not None and first.end_lineno:
            lines -= first.end_lineno - first.lineno + 1
        if lines >= FUNCTION_LINES:
            yield f"{source.path}:{node.lineno}: {node.name} has {lines} lines, must stay under {FUNCTION_LINES}"


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def bound_as(tree: ast.Module, module: str) -> Iterator[str]:
    """The names under which a file knows `module` and what it took from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.asname or alias.name for alias in node.names if alias.name == module)
        elif isinstance(node, ast.ImportFrom) and node.module == module:
            yield from (alias.asname or alias.name for alias in node.names)


def dotted(node: ast.expr) -> str:
    """`a.b.c` as written, or the empty string for any other expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache  # with each file's tree
def sources() -> list[Source]:
    return [
        Source(path.relative_to(folder), path.read_text(encoding="utf-8"))
        for package, folder in ROOMS.items()
        for path in sorted((folder / package).rglob("*.py"))
    ]


RULES: list[Rule] = [
    core_is_pure,
    one_clock,
    settings_in_config,
    records_are_read_where_their_seal_is_checked,
    certificates_are_checked,
    causes_are_walked_in_one_place,
    files_are_short,
    functions_are_short,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_packages_keep_the_rule(rule: Rule) -> None:
    """No file of a package breaks it."""
    assert [violation for source in sources() for violation in rule(source)] == []


def test_a_class_name_has_one_meaning() -> None:
    """One word, one thing: who reads a name in a log, a traceback or a review need not ask which of two it is."""
    assert house.ambiguous(ROOT) == []


def test_every_package_is_looked_at() -> None:
    """A room that moved would otherwise keep every rule by having no files."""
    assert {source.package for source in sources()} == set(ROOMS)


LONG = "def f():\n" + "    x = 1\n" * (FUNCTION_LINES - 1)

BAD: list[tuple[Rule, str, str]] = [
    (core_is_pure, "framehold_core/a.py", "import time"),
    (core_is_pure, "framehold_core/a.py", "from os import path"),
    (core_is_pure, "framehold_core/a.py", "import concurrent.futures"),
    (core_is_pure, "framehold_core/a.py", "import pydantic"),
    (core_is_pure, "framehold_core/value.py", "import pydantic"),
    (core_is_pure, "framehold_core/a.py", "import dataclasses"),
    (core_is_pure, "framehold_core/a.py", "from typing import NamedTuple"),
    (core_is_pure, "framehold_core/a/b.py", "__import__('os')"),
    (core_is_pure, "framehold_core/a.py", "import datetime\nx = datetime.datetime.now()"),
    (core_is_pure, "framehold_core/a.py", "from datetime import datetime\nx = datetime.utcnow()"),
    (core_is_pure, "framehold_core/a.py", "from datetime import datetime as d\nclock = d.now"),
    (one_clock, "framehold/engine/a.py", "import time"),
    (one_clock, "framehold/frame/a.py", "from time import monotonic"),
    (one_clock, "framehold/sdk/a.py", "def f():\n    import random"),
    (one_clock, "framehold/code/a.py", "import uuid\nx = uuid.uuid4()"),
    (one_clock, "framehold_store/a.py", "import os\nx = os.urandom(8)"),
    (one_clock, "framehold_store/a.py", "import os as system\nx = system.getrandom(8)"),
    (one_clock, "framehold_store/seal.py", "import time"),
    (one_clock, "framehold/engine/a.py", "from datetime import datetime\nx = datetime.now()"),
    (one_clock, "framehold/engine/a.py", "from framehold_store.system_clock import now"),
    (one_clock, "framehold/engine/a.py", "from framehold_store import system_clock\nx = system_clock.now()"),
    (settings_in_config, "framehold/a.py", "import os\nx = os.environ['A']"),
    (settings_in_config, "framehold/a.py", "import os\nx = {**os.environ}"),
    (settings_in_config, "framehold_store/a.py", "import os as system\nx = system.getenv('A')"),
    (settings_in_config, "framehold_store/a.py", "from os import environ as e"),
    (settings_in_config, "framehold_router/a.py", "from pydantic_settings import BaseSettings"),
    (settings_in_config, "framehold_cli/up.py", "import os\nx = os.environ['A']"),
    (records_are_read_where_their_seal_is_checked, "framehold/a.py", "from framehold_core.requests import Head, Read"),
    (certificates_are_checked, "framehold/a.py", "httpx2.AsyncClient(verify=False)"),
    (certificates_are_checked, "framehold/a.py", "await session.get(url, ssl=False)"),
    (certificates_are_checked, "framehold/a.py", "context.check_hostname = False"),
    (certificates_are_checked, "framehold/a.py", "context.verify_mode = ssl.CERT_NONE"),
    (causes_are_walked_in_one_place, "framehold/a.py", "x = error.__cause__ or error.__context__"),
    (files_are_short, "framehold/a.py", "x = 1\n" * FILE_LINES),
    (functions_are_short, "framehold/a.py", LONG),
    (functions_are_short, "framehold/a.py", "class A:\n    async " + LONG.replace("\n", "\n    ").rstrip()),
]

GOOD: list[tuple[Rule, str, str]] = [
    (core_is_pure, "framehold_core/a.py", "import enum\nfrom .ids import CallId\nfrom . import time"),
    (core_is_pure, "framehold_core/value.py", "import msgspec\nfrom msgspec.structs import replace"),
    (core_is_pure, "framehold_core/a.py", "from datetime import timedelta\nx = state.now, self.lease.now()"),
    (core_is_pure, "framehold/a.py", "import asyncio, mcp"),
    (
        one_clock,
        "framehold/engine/a.py",
        "import asyncio, os, uuid\nx = self.clock.now(), clock.fresh(8), os.getpid(), uuid.UUID",
    ),
    (one_clock, "framehold/engine/a.py", "from framehold_store.system_clock import measure"),
    (one_clock, "framehold/telemetry/a.py", "import time"),
    (one_clock, "framehold_store/seal.py", "import os\nx = os.urandom(12)"),
    (settings_in_config, "framehold_store/config.py", "import os\nx = os.environ['A']"),
    (settings_in_config, "framehold_cli/up.py", "import os\nx = {**os.environ, 'A': '1'}"),
    (settings_in_config, "framehold_cli/up.py", "import os\nx = os.environ | {'A': '1'}\nos.environ['A'] = '1'"),
    (settings_in_config, "framehold_cli/local/up.py", "import os\nx = dict(os.environ)\ny = os.environ.copy()"),
    (settings_in_config, "framehold/a.py", "x = request.environ['A']"),
    (
        records_are_read_where_their_seal_is_checked,
        "framehold/engine/records.py",
        "from framehold_core.requests import Read",
    ),
    (records_are_read_where_their_seal_is_checked, "framehold/a.py", "from framehold_core.requests import Reply"),
    (certificates_are_checked, "framehold/a.py", "httpx2.Client(verify=not local)\nget(url, ssl=context, verify=True)"),
    (causes_are_walked_in_one_place, "framehold_core/errors.py", "x = error.__cause__ or error.__context__"),
    (causes_are_walked_in_one_place, "framehold/a.py", "error.__context__ = None\nx = error.__cause__"),
    (files_are_short, "framehold/a.py", "x = 1\n" * (FILE_LINES - 1)),
    (functions_are_short, "framehold/a.py", LONG.replace("    x = 1\n", "", 1)),
    (functions_are_short, "framehold/a.py", LONG.replace("x = 1", "'''One.\n\n    Two.'''", 1).replace("x = 1", "", 1)),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_a_bad_sample_is_caught(rule: Rule, path: str, text: str) -> None:
    """Each rule sees what it is for: exactly one violation, at the sample's path."""
    found = list(rule(Source(Path(path), text)))
    assert len(found) == 1
    assert found[0].startswith(path)


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_a_good_sample_passes(rule: Rule, path: str, text: str) -> None:
    """A rule that cries at lawful code would be switched off."""
    assert list(rule(Source(Path(path), text))) == []

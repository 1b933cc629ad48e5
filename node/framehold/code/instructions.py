"""Code objects in a form that is equal in every process, and the names that they use.

The form has what the code does: its instructions with the values that they load, its parameters, and which exceptions
are caught where. It has no comments, no line numbers, no file names, and no docstring of a function, since no
instruction loads that. It is the form of one release of Python: another compiles otherwise.
"""

from __future__ import annotations

import ast
import dis
import typing
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL"})
_REBOUND = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_REBOUND_OUTSIDE = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_PLAIN = frozenset({"LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
"""Instructions of the bodies of classes. They look in the dict of the globals, past any `__missing__` of its class."""


class Instruction(NamedTuple):
    """One instruction: its name, and its argument. The argument is a constant of the code (`loads`), or a text or a
    number that is equal in every process."""

    name: str
    argument: Any
    loads: bool


class Used(NamedTuple):
    """The names that a code object uses: `globals` are those that it looks up outside of itself, `attributes` are all
    names that it has, `rebound` the globals and the names of its closure that it assigns or deletes, `bodies` the
    globals that classes in it use."""

    globals: frozenset[str]
    attributes: frozenset[str]
    rebound: frozenset[str]
    bodies: frozenset[str]


def instructions(code: CodeType) -> Iterator[Instruction]:
    """The instructions of a code object, without those of the functions and classes in it."""
    for item in dis.get_instructions(code):
        loads = item.opcode in dis.hasconst
        plain = item.arg if item.opcode in dis.hasjrel or item.opcode in dis.hasjabs else item.argrepr or item.arg
        if item.opcode in dis.haslocal or item.opcode in dis.hasfree:
            # Names of local variables have no meaning outside of the function.
            plain = item.arg
        yield Instruction(item.opname, item.argval if loads else plain, loads)


def head(code: CodeType) -> tuple[Any, ...]:
    """What a code object says beside its instructions: its name, which `once` records for a function in a function, its
    parameters, kind, and where exceptions are caught."""
    count = code.co_argcount + code.co_kwonlyargcount
    parameters = code.co_varnames[:count]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    flags = code.co_flags & (0x04 | 0x08 | 0x20 | 0x80 | 0x100 | 0x200)
    return code.co_name, *counts, flags, parameters, code.co_exceptiontable


def used(code: CodeType) -> Used:
    """The names that a code object uses, with those of the functions and classes in it."""
    steps = [(item.opname, item.argval) for item in dis.get_instructions(code)]
    outside, rebound, bodies = ({name for step, name in steps if step in of} for of in (_GLOBAL, _REBOUND, _PLAIN))
    attributes: set[str] = set(code.co_names)
    rebound |= {name for step, name in steps if step in _REBOUND_OUTSIDE and name in code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = used(constant)
            outside |= inner.globals
            attributes |= inner.attributes
            rebound |= inner.rebound - set(code.co_cellvars)
            bodies |= inner.bodies
    return Used(frozenset(outside), frozenset(attributes), frozenset(rebound), frozenset(bodies))


def names_in(annotation: Any) -> frozenset[str]:
    """The names in the texts of an annotation; none of a text that is no expression."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if not isinstance(text, str):
        parts = () if typing.get_origin(annotation) is typing.Literal else typing.get_args(annotation)
        return frozenset[str]().union(*map(names_in, parts))
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return frozenset()
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(names).union(*map(names_in, texts))

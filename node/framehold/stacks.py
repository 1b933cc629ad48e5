"""Whose work a stack of Python frames is.

The law: the innermost frame of a package that is known decides (`store`, `HTTP server`, `MCP SDK`, ...), but what a
handler calls is the handler's. From the innermost frame outwards:

1. the loop waits for its sockets: idle; so it is where nothing stands above the loop (one that is written in C)
2. a handler's frame comes first of it and Framehold's: the handler's, whatever it has called
3. Framehold's comes first: the work of the innermost known package. So is a question or an effect that a handler waits
   for, all that is done inside of it, and all that no handler is part of
4. no known package at all: other

Handlers are what is neither the standard library's, nor an installed package's, nor ours; what a server's handlers are
from is theirs though it is installed. C code has no frame: it is its caller's work.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from types import CodeType, FrameType
from typing import NamedTuple

PARTS = ("idle", "handlers", "Framehold", "MCP SDK", "JSON and pydantic", "HTTP server", "store", "other")
IDLE, HANDLERS, FRAMEHOLD, SDK, JSON, HTTP, STORE, OTHER = PARTS
LONGEST = 200
"""Characters of a function's name."""

_DEEPEST = 2000
_OURS = ("framehold", "framehold_core", "framehold_router", "framehold_store")
_EXAMPLES = "framehold.examples"
"""Servers that come with us: their handlers are handlers."""
_KNOWN = {
    **dict.fromkeys(("framehold", "framehold_core", "framehold_router"), FRAMEHOLD),
    **dict.fromkeys(("mcp", "mcp_types", "fastmcp"), SDK),
    **dict.fromkeys(("pydantic", "pydantic_core", "json", "jsonschema"), JSON),
    **dict.fromkeys(("uvicorn", "hypercorn", "h11", "httptools", "starlette", "sse_starlette", "fastapi"), HTTP),
    **dict.fromkeys(("framehold_store", "redis", "fakeredis"), STORE),
}
"""By top-level package."""
_WAITING = ("selectors", "asyncio.windows_events")
_TURN = "BaseEventLoop._run_once"
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


Raw = tuple[CodeType, Mapping[str, object]]
"""A frame's code, and the globals that it runs in."""


class Place(NamedTuple):
    """A frame by its code: the module, the function's qualified name, the file, and the line where it begins."""

    module: str
    function: str
    file: str
    line: int

    @classmethod
    def of(cls, raw: Raw) -> Place:
        """The place of a frame."""
        code, names = raw
        module = names.get("__name__")
        return cls(module if isinstance(module, str) else "?", code.co_qualname, code.co_filename, code.co_firstlineno)

    @property
    def name(self) -> str:
        """`module.function:line`, fit to print and without a path."""
        module = re.split(r"[/\\]", self.module)[-1]
        name, line = f"{module}.{self.function}", f":{self.line}"
        return "".join(sign if sign.isprintable() else "?" for sign in name[: LONGEST - len(line)]) + line


class Verdict(NamedTuple):
    """Whose work it is, and which function did it: the innermost of a handler's or ours, if there is one."""

    part: str
    where: str


def root(callback: FrameType | None) -> FrameType | None:
    """The frame that runs the loop, by the one that a callback of the loop has been called from."""
    while callback is not None and callback.f_code.co_qualname in ("Handle._run", _TURN):
        callback = callback.f_back
    return callback


def above(frame: FrameType | None, base: FrameType | None) -> list[Raw]:
    """What stands above `base`, from `frame` outwards. Quick, since a stack holds still only for so long, and no frame
    outlives it here: what it holds would end in another thread than its own."""
    found: list[Raw] = []
    while frame is not None and frame is not base and len(found) < _DEEPEST:
        found.append((frame.f_code, frame.f_globals))
        frame = frame.f_back
    return found


def judge(stack: Sequence[Place], handlers: frozenset[str] = frozenset()) -> Verdict:
    """Whose work it is. The stack stands above the loop, the innermost frame first; `handlers` are the top-level
    packages that handlers are from (`authors`)."""
    if _waits(stack):
        return Verdict(IDLE, "")
    decides: tuple[str, Place] | None = None
    mark: Place | None = None
    for place in stack:
        part, marks = _owner(place.module, place.file, handlers)
        if mark is None and marks:
            mark = place
            if part == HANDLERS:
                decides = part, place
        if decides is None and part is not None:
            decides = part, place
        if part == HANDLERS:
            break
    part, place = decides or (OTHER, stack[0])
    return Verdict(part, (mark or place).name)


def authors(functions: Iterable[object]) -> frozenset[str]:
    """The top-level packages that a server's handlers are from, without those that are nobody's or known."""
    tops = {str(getattr(_innermost(fn), "__module__", "")).partition(".")[0] for fn in functions}
    return frozenset(tops - _KNOWN.keys() - sys.stdlib_module_names)


def _innermost(fn: object) -> object:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.unwrap(fn) if callable(fn) else fn


def _waits(stack: Sequence[Place]) -> bool:
    waiting = sum(1 for _ in takewhile(lambda place: place.module in _WAITING, stack))
    return not stack or (0 < waiting < len(stack) and stack[waiting].function == _TURN)


@functools.lru_cache(4096)
def _owner(module: str, file: str, handlers: frozenset[str]) -> tuple[str | None, bool]:
    """Whose frame it is, None of a library that is not known; and whether it is a handler's or ours."""
    top = module.partition(".")[0]
    if module.startswith(_EXAMPLES):
        return HANDLERS, True
    known = _KNOWN.get(top)
    if known is not None:
        return known, top in _OURS
    return (HANDLERS, True) if top in handlers or not _is_library(file) else (None, False)


def _is_library(file: str) -> bool:
    """Whether a file is the standard library's, an installed package's, or none: code that was made at run time."""
    return file.startswith(("<", *_STANDARD)) or _INSTALLED.search(file) is not None

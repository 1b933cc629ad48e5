"""Finds out which part of a process a stack of Python frames works for.

The law: the innermost frame of a known package decides (`store`, `HTTP server`, `MCP SDK`, ...), but everything that a
handler calls counts for the handler. From the innermost frame outwards:

1. the loop waits for its sockets: idle. Also idle if no frame is above the loop (a loop that is written in C)
2. a handler's frame comes before any frame of Framehold: the handler, whatever it has called
3. a frame of Framehold comes before any handler's: the innermost known package. That covers a question or an effect
   that a handler waits for, everything done inside of one, and everything outside of handlers
4. no known package at all: other

Code that is not of the standard library, not of an installed package and not of Framehold is a handler's. The package
that a server's handlers come from is a handler's, too, even if it is installed. C code has no frame: it counts for its
caller.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from types import CodeType, FrameType
from typing import NamedTuple

from ..code.authors import FRAMEHOLD as OURS
from ..code.authors import is_library

PARTS = ("idle", "handlers", "Framehold", "MCP SDK", "JSON and pydantic", "HTTP server", "store", "other")
IDLE, HANDLERS, FRAMEHOLD, SDK, JSON, HTTP, STORE, OTHER = PARTS
MAX_NAME_CHARACTERS = 200
"""Characters of the longest function name that is shown."""

_MAX_FRAMES = 2000
_EXAMPLES = "framehold.examples"
"""Servers that come with Framehold: their handlers count as handlers."""
_KNOWN = {
    **dict.fromkeys(OURS, FRAMEHOLD),
    **dict.fromkeys(("mcp", "mcp_types", "fastmcp"), SDK),
    **dict.fromkeys(("pydantic", "pydantic_core", "json", "jsonschema"), JSON),
    **dict.fromkeys(("uvicorn", "hypercorn", "h11", "httptools", "starlette", "sse_starlette", "fastapi"), HTTP),
    **dict.fromkeys(("framehold_store", "redis", "fakeredis"), STORE),
}
"""The part that each known top-level package belongs to."""
_WAITING = ("selectors", "asyncio.windows_events")
_LOOP_TURN = "BaseEventLoop._run_once"


Raw = tuple[CodeType, object, int]
"""A frame's code, the globals that it runs in, and the line at which it stands."""


class CodePlace(NamedTuple):
    """A frame by its code: the module, the function's qualified name, the file, the line where the function begins,
    and the line at which the frame stands (0: not known)."""

    module: str
    function: str
    file: str
    line: int
    at: int = 0

    @classmethod
    def of(cls, raw: Raw) -> CodePlace:
        """The place of a frame."""
        code, names, at = raw
        # Python 3.11 has given what is no namespace for a frame that another thread was just leaving.
        module = names.get("__name__") if isinstance(names, Mapping) else None
        named = module if isinstance(module, str) else "?"
        return cls(named, code.co_qualname, code.co_filename, code.co_firstlineno, at)

    @property
    def name(self) -> str:
        """`module.function:line` with the line where the function begins."""
        return _printable(f"{_bare(self.module)}.{self.function}", self.line)

    @property
    def where(self) -> str:
        """`module:function:line` with the line at which the frame stands."""
        return _printable(f"{_bare(self.module)}:{self.function}", self.at)

    def owner(self, handlers: frozenset[str] = frozenset()) -> str | None:
        """The part that this frame belongs to; None for a library that is not known. `handlers` are the top-level
        packages that handlers come from."""
        return _owner(self.module, self.file, handlers)[0]


class Judgement(NamedTuple):
    """The part that a stack works for, and the function: the innermost of a handler's or of Framehold's, or the
    innermost of all if there is neither. Empty if idle."""

    part: str
    where: str


def _bare(module: str) -> str:
    """A module's name without a path: a program that is run by its path may be named by it."""
    return re.split(r"[/\\]", module)[-1]


def _printable(name: str, line: int) -> str:
    """`name:line` with printable characters only, cut to MAX_NAME_CHARACTERS."""
    end = f":{line}"
    return "".join(sign if sign.isprintable() else "?" for sign in name[: MAX_NAME_CHARACTERS - len(end)]) + end


def loop_frame(callback: FrameType | None) -> FrameType | None:
    """The frame that runs the loop, found from `callback`, the frame that called a callback of the loop."""
    while callback is not None and callback.f_code.co_qualname in ("Handle._run", _LOOP_TURN):
        callback = callback.f_back
    return callback


def frames_above(frame: FrameType | None, base: FrameType | None) -> list[Raw]:
    """The frames above `base`, from `frame` outwards, as code, globals and line. It must be quick, since the stack may
    change soon. Frame objects are not kept: their local variables would be freed in another thread than their own."""
    found: list[Raw] = []
    while frame is not None and frame is not base and len(found) < _MAX_FRAMES:
        found.append((frame.f_code, frame.f_globals, frame.f_lineno or 0))
        frame = frame.f_back
    return found


def judge(stack: Sequence[CodePlace], handlers: frozenset[str] = frozenset()) -> Judgement:
    """The part and the function that a stack works for. `stack` has the frames above the loop, the innermost first.
    `handlers` are the top-level packages that handlers come from (`authors`)."""
    if _is_idle(stack):
        return Judgement(IDLE, "")
    decides: tuple[str, CodePlace] | None = None
    mark: CodePlace | None = None
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
    return Judgement(part, (mark or place).name)


def authors(functions: Iterable[object]) -> frozenset[str]:
    """The top-level packages that these handlers come from, without known ones and the standard library."""
    tops = {str(getattr(_innermost(fn), "__module__", "")).partition(".")[0] for fn in functions}
    return frozenset(tops - _KNOWN.keys() - sys.stdlib_module_names)


def _innermost(fn: object) -> object:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.unwrap(fn) if callable(fn) else fn


def _is_idle(stack: Sequence[CodePlace]) -> bool:
    waiting = sum(1 for _ in takewhile(lambda place: place.module in _WAITING, stack))
    return not stack or (0 < waiting < len(stack) and stack[waiting].function == _LOOP_TURN)


@functools.lru_cache(4096)
def _owner(module: str, file: str, handlers: frozenset[str]) -> tuple[str | None, bool]:
    """The part that a frame belongs to, None for an unknown library; and whether it is a handler's or Framehold's."""
    top = module.partition(".")[0]
    if module.startswith(_EXAMPLES):
        return HANDLERS, True
    known = _KNOWN.get(top)
    if known is not None:
        return known, top in OURS
    return (HANDLERS, True) if top in handlers or not is_library(file) else (None, False)

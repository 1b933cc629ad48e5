"""Counts the handlers of a server by what happens to their calls when a node dies. `fate` words the counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from mcp.server.mcpserver.exceptions import InvalidSignature
from mcp.server.mcpserver.resolve import find_resolved_parameters, returns_input_required

from framehold.sdk.marks import marks_of

from .fate import Fate


def fate_of(
    functions: Iterable[Callable[..., Any]], strategy: Literal["hold", "replay"], lease: float, kept: int = 0
) -> Fate:
    """The fate of calls of these handlers. `strategy` is the setting FRAMEHOLD_STRATEGY; `lease` is the TTL in
    seconds; `kept` is how many of the handlers have code that the store keeps."""
    every = list(functions)
    found = [marks_of(fn) for fn in every if not _returns(fn)]
    replayed = sum((marks.strategy or strategy) == "replay" for marks in found)
    return Fate(len(found), sum(marks.reentrant for marks in found), replayed, lease, len(every) - len(found), kept)


def _returns(fn: Callable[..., Any]) -> bool:
    """Whether the handler returns its questions as results, or the SDK asks them before it enters the handler."""
    try:
        return returns_input_required(fn) or bool(find_resolved_parameters(fn))
    except (InvalidSignature, TypeError, ValueError):
        return False

"""Rehearsals of tools, which are marked here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.server import MCPServer

import framehold
from framehold.testing import Rehearsal, Rehearse
from tests.kit.serving import server_of

YES = {"word": "yes"}
Tool = Callable[..., Awaitable[Any]]


def serving(*tools: Tool) -> MCPServer[Any]:
    return server_of("rehearsed", *map(framehold.reentrant, tools))


def played(rehearse: Rehearse, tool: Tool, *answers: Any, **options: Any) -> Rehearsal:
    """The rehearsal of one tool, with these answers in their order, or with those of the option `answers`."""
    return rehearse(serving(tool), tool.__name__, **{"answers": answers, **options})


def caught(rehearse: Rehearse, tool: Tool, *answers: Any, **options: Any) -> str:
    """What the same fails with."""
    with pytest.raises(AssertionError) as failure:
        played(rehearse, tool, *answers, **options)
    return str(failure.value)

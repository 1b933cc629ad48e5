"""`framehold up --reload`: when a Python file beside TARGET changes, the nodes are restarted one after the other.

The law: what can't be imported is not rolled out. The nodes that run keep the code that they have.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

from framehold_core.errors import ConfigError

from .supervisor import Supervisor
from .voice import Voice

Changes = AsyncIterator[Iterable[tuple[object, str]]]


def watch(folder: Path) -> Changes:
    """Changes of Python files in `folder` and below since this was called, many at once where they come together."""
    return _since(folder, _stamps(folder))


async def _since(folder: Path, before: dict[str, int]) -> Changes:
    """The watch takes a moment to stand; what changed until then, only the files themselves tell."""
    from watchfiles import Change, PythonFilter, awatch

    missed = True
    async for batch in awatch(
        folder, watch_filter=PythonFilter(), step=50, rust_timeout=_FIRST_LOOK, yield_on_timeout=True
    ):
        found: set[tuple[object, str]] = set(batch)
        if missed:
            missed = False
            found |= {(Change.modified, path) for path, _ in _stamps(folder).items() ^ before.items()}
        if found:
            yield found


_FIRST_LOOK = 1000
"""Milliseconds after which a watch that saw nothing speaks all the same."""


def _stamps(folder: Path) -> dict[str, int]:
    """When each Python file was changed last."""
    from watchfiles import PythonFilter

    found: dict[str, int] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in PythonFilter.ignore_dirs]
        for path in (os.path.join(place, name) for name in names if name.endswith(".py")):
            try:
                found[path] = os.stat(path).st_mtime_ns
            except OSError:
                continue
    return found


async def follow(
    changes: Changes, supervisor: Supervisor, nodes: list[str], check: Callable[[], Awaitable[str]], voice: Voice
) -> None:
    """Restart `nodes` for each of `changes`, for ever. `check` says what becomes of open calls then, and raises
    ConfigError where the code can't be served."""
    async for batch in changes:
        names = ", ".join(sorted({Path(path).name for _, path in batch}))
        try:
            fate = await check()
        except ConfigError as error:
            why = str(error).removesuffix("; nothing was started")
            voice.say(f"{names} changed; not reloaded: {why}; the nodes go on with the code that they have")
            continue
        who = f"{len(nodes)} nodes one after the other" if len(nodes) > 1 else "the node"
        voice.say(f"{names} changed; restarting {who}; {fate}")
        if await supervisor.restart(nodes):
            voice.say("reloaded")
        else:
            voice.say("reload stopped: a node didn't become ready; the others were left as they are")

"""`framehold up --reload`: when a Python file in TARGET's folder changes, the nodes are restarted side by side.

The law: code that can't be imported is not rolled out. Then the nodes keep running the code that they have. What was
checked is what serves: the process that has imported the new code is the next process of the node.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

from framehold_core.errors import ConfigError

from ..show.voice import Voice
from .supervisor import Supervisor

Changes = AsyncIterator[Iterable[tuple[object, str]]]


def watch(folder: Path) -> Changes:
    """Watch the Python files in `folder` and below from the moment of this call.

    Each batch holds pairs of a kind of change and a path; changes at nearly the same time share a batch."""
    return _since(folder, _stamps(folder))


async def _since(folder: Path, before: dict[str, int]) -> Changes:
    """The batches of changes. `before`: the files' times of change when the watch was requested.

    watchfiles takes a moment to start. Changes until then are found by comparing the files' times."""
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
"""Milliseconds after which a watch without a change yields an empty batch."""


def _stamps(folder: Path) -> dict[str, int]:
    """The time of the last change of each Python file, in nanoseconds, by path."""
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


_STOPPED = (
    "changes are not loaded any more: {why}. The fleet serves on with the code that it has; start it again to have "
    "changes loaded. Where watches are used up: raise fs.inotify.max_user_watches, or set WATCHFILES_FORCE_POLLING=1"
)


async def follow(
    changes: Changes, supervisor: Supervisor, nodes: list[str], check: Callable[[], Awaitable[str]], voice: Voice
) -> None:
    """Restart `nodes` for each batch of `changes`. Meanwhile a process stands by for each of them. Where files can't be
    watched or processes can't be started, this says so and returns.

    `check` returns what happens to open calls at the restart. It raises ConfigError if the new code can't be served;
    then the nodes are not restarted."""
    try:
        await supervisor.stand_by(nodes)
        async for batch in changes:
            await _reload(batch, supervisor, nodes, check, voice)
            await supervisor.stand_by(nodes)
    except OSError as error:
        voice.say(_STOPPED.format(why=error))


async def _reload(
    batch: Iterable[tuple[object, str]],
    supervisor: Supervisor,
    nodes: list[str],
    check: Callable[[], Awaitable[str]],
    voice: Voice,
) -> None:
    names = ", ".join(sorted({Path(path).name for _, path in batch}))
    voice.say(f"{names} changed, checking ...")
    who, go_on = (f"{len(nodes)} nodes", "nodes go") if len(nodes) > 1 else ("the node", "node goes")
    try:
        fate = await check()
    except ConfigError as error:
        why = str(error).replace("; nothing was started", "")
        voice.say(f"not reloaded: {why}; the {go_on} on with the code from before")
        return
    voice.say(f"restarting {who}; {fate}")
    ready = await supervisor.restart(nodes)
    voice.say("reloaded" if ready else "a node didn't become ready in time with the new code; its lines say why")

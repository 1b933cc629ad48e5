"""`framehold up --reload`: when a Python file beside TARGET changes, the nodes are restarted one after the other.

The law: what can't be imported is not rolled out. The nodes that run keep the code that they have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

from framehold_core.errors import ConfigError

from .supervisor import Supervisor
from .voice import Voice

Changes = AsyncIterator[Iterable[tuple[object, str]]]


def watch(folder: Path) -> Changes:
    """Changes of Python files in `folder` and below, many at once where they come together."""
    from watchfiles import PythonFilter, awatch

    return awatch(folder, watch_filter=PythonFilter(), step=50)


async def follow(
    changes: Changes, supervisor: Supervisor, nodes: list[str], check: Callable[[], Awaitable[object]], voice: Voice
) -> None:
    """Restart `nodes` for each of `changes`, for ever. `check` raises ConfigError where the code can't be served."""
    async for batch in changes:
        names = ", ".join(sorted({Path(path).name for _, path in batch}))
        try:
            await check()
        except ConfigError as error:
            why = str(error).removesuffix("; nothing was started")
            voice.say(f"{names} changed; not reloaded: {why}; the nodes go on with the code that they have")
            continue
        voice.say(f"{names} changed; restarting {len(nodes)} nodes one after the other; calls parked on them are lost")
        if await supervisor.restart(nodes):
            voice.say("reloaded")
        else:
            voice.say("reload stopped: a node didn't become ready; the others were left as they are")

"""Checks whether TARGET is a server that can be served.

The check runs in a child process, because importing TARGET runs its author's code, which must not run in the
supervisor.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from framehold.config import Settings
from framehold_core.errors import ConfigError

from ..serve.fate import Fate
from .children import Child, Spec

if TYPE_CHECKING:
    from framehold.http.app import Application

_MARK, _ERROR = "framehold-target ", "framehold: "
PATIENCE = 60.0
"""Seconds that importing TARGET may take. After an installation that compiled nothing (as by uvx) the first import does
that: 20 s were too few on a busy machine."""


@dataclass(frozen=True)
class Checked:
    """A TARGET that can be served: the file of its module, and what happens to its calls when their node dies."""

    file: Path
    fate: Fate


def here(target: str, settings: Settings) -> None:
    """Import TARGET in this process. Print one line for `in_child`: the module's file and the fate of its calls, as
    JSON.

    Raises:
        ConfigError: TARGET can't be served.
    """
    print(f"\n{_MARK}{report(target, settings)[1]}")


def report(target: str, settings: Settings) -> tuple[Application, str]:
    """Import TARGET in this process. Returns the app that serves it, and one line for `read`.

    Raises:
        ConfigError: TARGET can't be served.
    """
    # Of a child alone: `framehold up` would wait a second for these imports, and use none of them.
    from ..serve import target as targets
    from ..serve.handler_counts import fate_of

    app = targets.app_of(targets.found(target), settings)
    attached = app.attached
    attached.check()
    # The fleet that will serve it shares a store.
    found = attached.handlers.kept_code(settings.max_code) if settings.keeps_code else ()
    kept = sum(not item.problem for item in found)
    fate = fate_of(attached.handlers.asking(), settings.strategy, settings.lease_ttl, kept)
    place = target.partition(":")[0]
    module = sys.modules.get(place)
    file = getattr(module, "__file__", None) or place
    return app, json.dumps([str(Path(file).resolve()), asdict(fate)])


def read(line: str) -> Checked:
    """What `report` has found."""
    file, fate = json.loads(line)
    return Checked(Path(file), Fate(**fate))


async def in_child(target: str, environment: Mapping[str, str]) -> Checked:
    """Check TARGET in a child process. `environment` is added to this process's own.

    Raises:
        ConfigError: TARGET can't be served. The message is the child's error line.
    """
    lines: list[str] = []
    command = (sys.executable, "-P", "-m", "framehold", "check", "--", target)
    # Unbuffered, what TARGET prints stands before the error that ends the child.
    child = await Child.start(Spec("check", command, {**environment, "PYTHONUNBUFFERED": "1"}), lines.append)
    child.release()
    try:
        async with asyncio.timeout(PATIENCE):
            code = await child.exit_code()
    except TimeoutError:
        raise too_slow(target) from None
    finally:
        if child.alive:
            child.kill()
            await child.exit_code()
    found = [line for line in lines if line.startswith(_MARK)]
    if code or not found:
        raise refusal(target, code, lines)
    return read(found[-1].removeprefix(_MARK))


def too_slow(target: str) -> ConfigError:
    """The error for a TARGET whose import takes too long."""
    return ConfigError(
        f"TARGET {target} can't be imported within {PATIENCE:g} s; nothing was started; does it run a server "
        'when it is imported? guard that with: if __name__ == "__main__":'
    )


def refusal(target: str, code: int, lines: Sequence[str]) -> ConfigError:
    """The error for a TARGET whose check ended with this exit code, and these lines of output."""
    shown = [line.strip() for line in lines if line.strip()]
    # Behind the error of Framehold stands what TARGET printed at its exit.
    errors = [line.removeprefix(_ERROR) for line in shown if line.startswith(_ERROR)]
    last = (errors or shown or [f"exit code {code}"])[-1]
    if code and ("TARGET" in last or "nothing was" in last):
        return ConfigError(last)
    why = last if code else "it ended the process that imported it"
    return ConfigError(f"TARGET {target} can't be imported: {why}; nothing was started")

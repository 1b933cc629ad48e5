"""Checks whether TARGET is a server that can be served.

The check runs in a child process, because importing TARGET runs its author's code, which must not run in the
supervisor.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from framehold_core.errors import ConfigError

from ...config import Settings
from ..serve import target as targets
from ..serve.fate import Fate, fate_of
from .children import die_with_parent

_MARK = "framehold-target "
PATIENCE = 20.0
"""Seconds that importing TARGET may take."""


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
    attached = targets.app_of(targets.found(target), settings).attached
    attached.check()
    # The fleet that will serve it has a store and keys.
    keeps = settings.keep_code and settings.pickle
    kept = [name for name, problem in attached.handlers.kept_code(settings.max_code) if keeps and not problem]
    fate = fate_of(attached.handlers.asking(), settings.strategy, settings.lease_ttl, len(kept))
    place = target.partition(":")[0]
    module = sys.modules.get(place)
    file = getattr(module, "__file__", None) or place
    print(f"\n{_MARK}{json.dumps([str(Path(file).resolve()), asdict(fate)])}")


async def in_child(target: str, environment: Mapping[str, str]) -> Checked:
    """Check TARGET in a child process. `environment` is added to this process's own.

    Raises:
        ConfigError: TARGET can't be served. The message is the child's error line.
    """
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "framehold", "check", "--", target),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=die_with_parent(),
    )
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await child.communicate()
    except TimeoutError:
        raise ConfigError(
            f"TARGET {target} can't be imported within {PATIENCE:g} s; nothing was started; does it run a server "
            'when it is imported? guard that with: if __name__ == "__main__":'
        ) from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        lines = err.decode("utf-8", "replace").strip().splitlines() or [f"exit code {child.returncode}"]
        last = lines[-1].removeprefix("framehold: ")
        raise ConfigError(last if "TARGET" in last or "nothing was" in last else _import_error(target, last))
    found = [line for line in out.decode("utf-8", "replace").splitlines() if line.startswith(_MARK)]
    if not found:
        raise ConfigError(_import_error(target, "it ended the process that imported it"))
    file, fate = json.loads(found[-1].removeprefix(_MARK))
    return Checked(Path(file), Fate(**fate))


def _import_error(target: str, why: str) -> str:
    return f"TARGET {target} can't be imported: {why}; nothing was started"

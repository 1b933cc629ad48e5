"""`python -m tests.fuzz.guided FOLDER CORPUS SECONDS SEED`: fuzz each target for some seconds, in a process of its own.

FOLDER has the seeds of each target in a folder of its name, and gets its log and the input that it failed with. All
processes are forked from one, because it takes seconds to import code in a way that shows what is reached.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import atheris

from tests.structure.rooms import FRAMEHOLD

_unpickled: list[object] = []
"""What an input had unpickled."""


def _note(event: str, arguments: object) -> None:
    if event == "pickle.find_class":
        _unpickled.append(arguments)


def _fuzz(name: str, targets: Any, folder: str, corpus: str, seconds: str, seed: str) -> None:
    """Fuzz one target in this process, which ends with it."""
    log = os.open(f"{folder}/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    sys.addaudithook(_note)
    words = [f"-max_total_time={seconds}", f"-max_len={targets.LONGEST}", f"-seed={int(seed) % 2**31 or 1}"]
    words += [f"-artifact_prefix={folder}/{name}-", "-print_final_stats=1", f"{corpus}/{name}", f"{folder}/{name}"]

    def run(data: bytes) -> None:
        targets.checked(targets.TARGETS[name], data)
        # Whoever reads a value takes any exception for that of an author's class, so it is told here.
        assert not _unpickled, f"something was unpickled: {_unpickled}"

    atheris.Setup([name, *words], run)
    atheris.Fuzz()


def main() -> None:
    """Fuzz all targets."""
    with atheris.instrument_imports(include=[*FRAMEHOLD]):
        from framehold_store import pickles

        from . import targets
    pickles.loads = lambda data, known: _unpickled.append(data)
    running = 0

    def end(number: int, _: object) -> None:
        if running:
            os.kill(running, signal.SIGKILL)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    for name in targets.TARGETS:
        running = os.fork()
        if not running:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _fuzz(name, targets, *sys.argv[1:])
        os.waitpid(running, 0)


if __name__ == "__main__":
    main()

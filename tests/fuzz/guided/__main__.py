"""`python -m tests.fuzz.guided FOLDER CORPUS SECONDS SEED`: fuzz each target for some seconds, in a process of its own.

FOLDER has the seeds of each target in a folder of its name, and gets its log and the input that it failed with. All
processes are forked from one, because it takes seconds to import code in a way that shows what is reached.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import atheris

LONGEST = 4096
"""Bytes of an input."""
PATIENCE = 0.5
"""Seconds of CPU that an input may take, a hundred times what it should: more would be more than linear."""
TRIES = 3
"""A busy machine may slow an input down, but not again and again."""


def _refuse(event: str, arguments: object) -> None:
    if event == "pickle.find_class":
        raise AssertionError(f"something was unpickled: {arguments!r}")


def _checked(target: Callable[[bytes], bool]) -> Callable[[bytes], None]:
    """What libFuzzer calls: it must not take long either."""

    def run(data: bytes) -> None:
        for _ in range(TRIES):
            began = time.thread_time()
            target(data)
            took = time.thread_time() - began
            if took < PATIENCE:
                return
        raise AssertionError(f"{len(data)} bytes take {took:.1f} s")

    return run


def _fuzz(name: str, target: Callable[[bytes], bool], folder: str, corpus: str, seconds: str, seed: str) -> None:
    """Fuzz one target in this process, which ends with it."""
    log = os.open(f"{folder}/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    sys.addaudithook(_refuse)
    words = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-seed={int(seed) % 2**31 or 1}"]
    words += [f"-artifact_prefix={folder}/{name}-", "-print_final_stats=1", f"{corpus}/{name}", f"{folder}/{name}"]
    atheris.Setup([name, *words], _checked(target))
    atheris.Fuzz()


def main() -> None:
    """Fuzz all targets."""
    with atheris.instrument_imports(include=["framehold", "framehold_core", "framehold_store", "framehold_router"]):
        from .targets import TARGETS
    running = 0

    def end(number: int, _: object) -> None:
        if running:
            os.kill(running, signal.SIGKILL)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    for name, target in TARGETS.items():
        running = os.fork()
        if not running:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _fuzz(name, target, *sys.argv[1:])
        os.waitpid(running, 0)


if __name__ == "__main__":
    main()

"""A sample a second of each process of a fleet.

Of a fleet on this machine memory, CPU and the time without a core come from /proc; parked calls and loop lag come from
`/metrics`. A fleet elsewhere is looked at by `elsewhere`.

Law: it starts nothing and ends nothing. A process that is gone or stopped is missing in that sample.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from framehold_loadtest.local import probe
from framehold_loadtest.local.fleet import Fleet
from framehold_loadtest.local.usage import cpu_seconds, rss_bytes, waited_seconds
from framehold_loadtest.report.series import Sample


class Sampler(threading.Thread):
    """Takes a sample with `look` every so many seconds until it is stopped; `after` gets each of them."""

    def __init__(self, look: Callable[[], Sample], after: Callable[[Sample], None], every: float = 1.0) -> None:
        super().__init__(daemon=True)
        self._look, self._after, self._every = look, after, every
        self._over = threading.Event()
        self.samples: list[Sample] = []

    def run(self) -> None:
        """Wait, and look; once more at the end, for what happened since the last look."""
        over = False
        while not over:
            over = self._over.wait(self._every)
            self.samples.append(self._look())
            self._after(self.samples[-1])

    def stop(self) -> None:
        """End it, and wait for that."""
        self._over.set()
        self.join()


def look(fleet: Fleet) -> Sample:
    """One sample."""
    at = time.time()
    parked: dict[str, int] = {}
    rss: dict[str, int] = {}
    cpu: dict[str, float] = {}
    waited: dict[str, float] = {}
    lag: dict[str, dict[float, float]] = {}
    for name, pid in fleet.pids().items():
        try:
            rss[name], cpu[name], waited[name] = rss_bytes(pid), cpu_seconds(pid), waited_seconds(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name not in fleet.nodes:
            continue
        status, text = probe.get(fleet.ports.get(name, 0), "/metrics", timeout=0.5)
        if status == 200:
            parked[name], lag[name] = probe.metrics(text)
    return Sample(at, parked, rss, cpu, lag, waited)

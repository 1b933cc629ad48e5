"""One turn of a cell: the site of an option, its load, and the faults of a condition."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from framehold_loadtest import ledger
from framehold_loadtest.tradeoff import meter
from framehold_loadtest.tradeoff.callers import Opened
from framehold_loadtest.tradeoff.load import Load, Parked
from framehold_loadtest.tradeoff.options import Option
from framehold_loadtest.tradeoff.pace import PLAIN, Pace, Shape
from framehold_loadtest.tradeoff.record import Seen
from framehold_loadtest.tradeoff.site import Site

_LOOK_SECONDS = 0.1
_SETTLE_SECONDS = 0.2
_FIRST_PARKED = 50


class Stage:
    """What a condition plays on. Times are waited for here, while CPU is looked at."""

    def __init__(self, site: Site, pace: Pace, caller: Opened) -> None:
        self.site, self.pace, self._caller = site, pace, caller
        self._spans: list[tuple[float, float]] = []
        self._load: Load | None = None
        self._meter = meter.Meter(site)

    def run(self, seconds: float) -> None:
        """Let the load run."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))
            self._meter.look()

    def fault(self) -> None:
        """Something is about to be done; half of those who wait with a question answer it while it lasts."""
        assert self._load is not None
        self._meter.look()
        now = time.time()
        self._spans.append((now, now))
        self._load.answer_early()

    def lasted(self) -> None:
        """What was begun as a fault could hit calls until now."""
        start, _ = self._spans.pop()
        self._spans.append((start, time.time()))

    def back(self) -> None:
        """A node has been started again, and serves."""
        self._meter.look()
        self._meter.adopt()

    def answer(self) -> None:
        """All is well again: who has a question from before now answers it."""
        assert self._load is not None
        self._load.answer()

    def warm(self, port: int) -> None:
        """Load that nobody looks at."""
        load = Load(port, self._caller, self.pace)
        load.start()
        time.sleep(self.pace.warm)
        load.stop()

    def seen(self, play: Callable[[Stage], None], port: int, shape: Shape = PLAIN, *, loses: bool = False) -> Seen:
        """Play a condition under load, of which those who think lose a reply or not.

        Raises:
            NotAvailable: the site could not be faulted as it says, or the load failed.
        """
        skip = len(ledger.read(self.site.ledger))
        load = self._load = Load(port, self._caller, self.pace, shape, loses=loses)
        self._spans, self._meter = [], meter.Meter(self.site)
        asked, began = meter.operations(self.site.store_port), time.time()
        load.start()
        try:
            play(self)
            ended = time.time()
        finally:
            load.stop()
        self._meter.look()
        return Seen(
            began=began,
            ended=ended,
            spans=tuple(self._spans),
            quick=load.quick,
            slow=load.slow,
            lines=ledger.read(self.site.ledger)[skip:],
            cpu=self._meter.spent(),
            store_ops=meter.operations(self.site.store_port) - asked,
            loses=loses,
            cores=self._meter.cores(),
        )

    def idle(self, seconds: float) -> tuple[float, float]:
        """Operations of the store and seconds of CPU that the site takes each second while nobody calls."""
        watched, asked = meter.Meter(self.site), meter.operations(self.site.store_port)
        began = time.monotonic()
        time.sleep(seconds)
        watched.look()
        gone = time.monotonic() - began
        return (meter.operations(self.site.store_port) - asked) / gone, sum(watched.spent().values()) / gone

    def weighed(self, port: int, calls: int, shape: Shape = PLAIN) -> dict[str, float]:
        """Bytes for each call that waits, by place. The calls are left to their fate.

        A process grows for other reasons, too, when it serves what it has not served before: so some calls are parked
        first that don't count.
        """
        with Parked(port, self._caller, self.pace, shape) as parked:
            parked.park(_FIRST_PARKED)
            time.sleep(_SETTLE_SECONDS)
            before = meter.memory(self.site)
            held = parked.park(calls)
            time.sleep(_SETTLE_SECONDS)
            after = meter.memory(self.site)
        if not held:
            return {}
        return {place: max(0, after[place] - size) / held for place, size in before.items()}


@contextlib.contextmanager
def staged(option: Option, pace: Pace, folder: Path) -> Iterator[tuple[Stage, int]]:
    """The site of an option in a new folder, which was warmed, and the port of its front.

    Raises:
        NotAvailable: it can't be served.
    """
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        site = option.make(folder, pace)
        site.start(stack)
        stage = Stage(site, pace, option.caller)
        port = site.front(stack, sticky=True)
        stage.warm(port)
        yield stage, port

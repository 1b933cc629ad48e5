"""A request to a node of which each step is counted. Where nothing is, `ToNode` itself does the work.

The law: it changes nothing of what becomes of a request, and each is counted once: when its response is complete, when
it is refused, or when it ends before that. Every line here is paid for by every request: what is counted together is
written together, and a meter belongs to a class, not to each of its requests.
"""

from __future__ import annotations

from time import perf_counter
from typing import ClassVar, cast

from .envelope import Kind
from .link import Failure
from .meter import ABORTED, NAME, NONE, OTHER, OUTCOMES, Meter
from .placement import Placement
from .relay import ToNode

_KINDS: dict[str, str] = {Kind.START: "start", Kind.RETRY: "retry", Kind.SESSION: "session", Kind.ANY: OTHER}


class Counted(ToNode):
    """`route` is the reason of the last placement, `departed` its time."""

    __slots__ = ("departed", "route")

    meter: ClassVar[Meter]

    def chosen(self) -> Placement | None:
        began = perf_counter()
        placement = self.relay.placer.place(self.facts, self.tried)
        self.departed = now = perf_counter()
        self.meter.placing.observe(now - began)
        if placement is not None:
            self.route: str = placement.reason
        elif not self.tried:
            self.route = NONE
        return placement

    def served(self, node: str | None) -> None:
        meter = self.meter
        meter.upstream.observe(perf_counter() - self.departed)
        if node is None:
            return
        self.relay.placer.learned(self.placement, node)
        if self.facts.kind is Kind.RETRY:
            if node == self.placement.node:
                meter.hits += 1
            else:
                meter.misses += 1

    def done(self, piece: bytes) -> None:
        self._count(OUTCOMES[self.status])
        ToNode.done(self, piece)

    def gone(self) -> None:
        if self.link is not None:
            self._count(ABORTED)
        ToNode.gone(self)

    def failed(self, why: Failure) -> None:
        if self.status:
            self._count(ABORTED)
        ToNode.failed(self, why)

    def refuse(self, status: int, message: str) -> None:
        self._count(OUTCOMES[status])
        ToNode.refuse(self, status, message)

    def _count(self, outcome: str) -> None:
        meter, tool = self.meter, OTHER
        if meter.tools:
            # From the end: there stand those that are not every client's.
            for name, value in reversed(self.request.headers):
                if name == NAME:
                    tool = meter.tools.get(value, OTHER)
                    break
        meter.requests[tool, _KINDS[self.facts.kind], self.route, outcome] += 1


def counted(meter: Meter) -> type[Counted]:
    """The class of the requests that `meter` counts."""
    return cast(type[Counted], type("Counted", (Counted,), {"__slots__": (), "meter": meter}))

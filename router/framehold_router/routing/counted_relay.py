"""A relay that counts its requests in a `Meter`. A router without metrics uses `RequestRelay` itself.

The law: counting changes nothing of how a request is handled. Each request is counted once: when its response is
complete, when it is refused, or when it ends before that. Every request pays for every line here: values that are
counted at the same time are written at the same time, and the meter belongs to the relay, not to each request.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from framehold_fleet.http_client.node_connection import LinkFailure
from framehold_fleet.http_client.upstream import Upstream
from framehold_fleet.http_server.message import Request
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Address

from ..config import RouterSettings
from ..telemetry.counters import ABORTED, NONE, OTHER, OUTCOMES, TOOL_HEADER, Meter
from .declined import DeclinedResponse
from .placement import Placement, Placer
from .relay import RequestRelay, ToNode
from .request_facts import Facts, RequestKind

_KINDS: dict[str, str] = {
    RequestKind.START: "start",
    RequestKind.RETRY: "retry",
    RequestKind.SESSION: "session",
    RequestKind.ANY: OTHER,
}


class CountedRelay(RequestRelay):
    """A `RequestRelay` that counts each request for a node, and each request that it refuses, in `meter`."""

    def __init__(
        self,
        meter: Meter,
        placer: Placer,
        read: Callable[[Request], Facts],
        upstream: Upstream,
        trust: Trust,
        settings: RouterSettings,
        pages: Address,
    ) -> None:
        super().__init__(placer, read, upstream, trust, settings, pages)
        self.meter = meter
        self.refused = meter.refused
        self._to_node = CountedToNode


class CountedToNode(ToNode):
    """A request to a node, counted in the meter of its relay. `route` is the reason of the last placement, `departed`
    the time when that was decided, in seconds."""

    __slots__ = ("departed", "route")

    relay: CountedRelay

    def chosen(self) -> Placement | None:
        began = perf_counter()
        placement = self.relay.placer.place(self.facts, self.tried)
        self.departed = now = perf_counter()
        self.relay.meter.placing.observe(now - began)
        if placement is not None:
            self.route: str = placement.reason
        elif not self.tried:
            self.route = NONE
        return placement

    def served(self, node: str | None) -> None:
        meter = self.relay.meter
        meter.upstream.observe(perf_counter() - self.departed)
        if node is None:
            return
        self.relay.placer.learned(self.placement, node)
        if self.facts.kind is RequestKind.RETRY:
            if node == self.placement.node:
                meter.hits += 1
            else:
                meter.misses += 1

    def done(self, piece: bytes) -> None:
        if self.status:
            self._count(OUTCOMES[self.status])
        ToNode.done(self, piece)

    def give_up(self, declined: DeclinedResponse) -> None:
        if declined.is_whole:
            self._count(OUTCOMES[503])
        ToNode.give_up(self, declined)

    def gone(self) -> None:
        if self.link is not None:
            self._count(ABORTED)
        ToNode.gone(self)

    def failed(self, why: LinkFailure) -> None:
        if self.status:
            self._count(ABORTED)
        ToNode.failed(self, why)

    def refuse(self, status: int, message: str) -> None:
        self._count(OUTCOMES[status])
        ToNode.refuse(self, status, message)

    def _count(self, outcome: str) -> None:
        meter, tool = self.relay.meter, OTHER
        if meter.tools:
            tool = meter.tools.get(self.request.head.fields.get(TOOL_HEADER, b""), OTHER)
        meter.requests[tool, _KINDS[self.facts.kind], self.route, outcome] += 1

"""Section `frames`: what a parked frame weighs, and how long a resume takes beside many of them.

One fresh server process for each number of frames, all alive at once with the memory store, so that resumes at few
and at many frames are measured in turn. A frame's weight is the difference of its server's RSS; the resume time is
taken inside the server, around its ASGI app, where the frame table and the collector are not drowned in HTTP.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from typing import Any

from framehold_loadtest.bench.calls import settings
from framehold_loadtest.bench.children import Cores, NotAvailable, run_json, serving

_SECONDS_PER_FRAME = 0.005  # on a slow machine
_SPARE_SECONDS = 120.0
_HEADROOM = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """How many frames to park, the fewest first, and how many resumes to time at each number."""

    frames: tuple[int, ...]
    batches: int
    batch_size: int


def measure(plan: Plan, cores: Cores) -> dict[str, Any]:
    """Park and resume; returns one `Parked` for each number of frames, or why there is none."""
    try:
        return {"plan": asdict(plan), "rows": _run(plan, cores), "not_available": {}}
    except NotAvailable as reason:
        return {"plan": asdict(plan), "rows": [], "not_available": {"frames": str(reason)}}


def _run(plan: Plan, cores: Cores) -> Any:
    arguments = ["--batches", str(plan.batches), "--batch-size", str(plan.batch_size)]
    with contextlib.ExitStack() as stack:
        servers = []
        for frames in plan.frames:
            limit = str(frames + _HEADROOM)
            limits = {"FRAMEHOLD_MAX_PARKED": limit, "FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL": limit}
            server = stack.enter_context(serving("framehold", cores.server, settings(None) | limits, metered=True))
            servers.append(server)
            arguments += ["--site", str(frames), str(server.port), str(server.pid)]
        timeout = _SPARE_SECONDS + _SECONDS_PER_FRAME * sum(plan.frames)
        try:
            return run_json("parkgen", arguments, cores.load, timeout)
        except NotAvailable as reason:
            raise NotAvailable(f"{reason}{''.join(server.last_words() for server in servers)}") from None

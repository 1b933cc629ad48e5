"""Section `frames`: the memory of a parked frame, and the time of a resume beside many parked frames.

Each number of frames has a server process of its own with the memory store. All of them run at once and take turns, so
that resumes at few and at many frames are comparable. The memory of a frame comes from the RSS of its server before and
after parking. The resume time is measured inside the server, around its ASGI app, without the noise of HTTP.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from typing import Any

from framehold_loadtest.bench.lab.servers import run_json, serving, settings
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable

_SECONDS_PER_FRAME = 0.005  # on a slow machine
_SPARE_SECONDS = 120.0
_HEADROOM = 1000


@dataclass(frozen=True, slots=True)
class FramesPlan:
    """How many frames to park, the fewest first, and how many resumes to time at each number."""

    frames: tuple[int, ...]
    batches: int
    batch_size: int


def measure(plan: FramesPlan, cores: Cores) -> dict[str, Any]:
    """Park and resume; returns one `Parked` for each number of frames, or why there is none."""
    try:
        return {"plan": asdict(plan), "rows": _run(plan, cores), "not_available": {}}
    except NotAvailable as reason:
        return {"plan": asdict(plan), "rows": [], "not_available": {"frames": str(reason)}}


def _run(plan: FramesPlan, cores: Cores) -> Any:
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
            return run_json("parked", arguments, cores.load, timeout)
        except NotAvailable as reason:
            raise NotAvailable(f"{reason}{''.join(server.last_words() for server in servers)}") from None

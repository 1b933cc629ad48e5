"""`framehold drain NODE`: asks a node to drain, and follows it until it holds nothing; or takes its drain back.

The steps:
1. read the node's boot, since a process that restarts under the same name is another one
2. ask the node to drain. From now on it drains, whether or not this command runs
3. read the node's state until it holds nothing, it has left the fleet, or the timeout is over
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.console import Console

from framehold_core.errors import ConfigError
from framehold_fleet.members.membership import DRAINING
from framehold_fleet.models.nodes import NodesView, NodeView

from ..client.api import ApiClient
from ..show import figures, visible
from .actions import perform

_POLL_SECONDS = 0.5
"""Seconds between two reads of the node's state."""
_INTERRUPTED = 130


def drain(api: ApiClient, name: str, timeout: float, wait: bool = True) -> int:
    """Drain the node `name`. Without `wait` return as soon as it drains.

    Returns the exit code: 0 if the node holds nothing, 1 if it refuses or still holds something after `timeout`
    seconds, 130 after Ctrl-C.

    Raises:
        ConfigError: there is no such node, or the admin token is missing or wrong.
    """
    nodes = api.get("nodes", NodesView).view.nodes
    before = next((one for one in nodes if one.node_id == name), None)
    if before is None:
        known = ", ".join(one.node_id for one in nodes) or "none"
        raise ConfigError(f"there is no node {name}; there are: {known}; nothing was done")
    code = perform(api, "nodes", name, "drain")
    if code or not wait:
        return code
    try:
        if not sys.stdout.isatty():
            return _follow(api, before, timeout, lambda line: print(line, flush=True))
        console = Console(highlight=False)
        with console.status("") as shown:
            return _follow(api, before, timeout, lambda line: shown.update(line.replace("[", r"\[")), console.print)
    except KeyboardInterrupt:
        print(f"stopped looking; {name} drains on", file=sys.stderr)
        return _INTERRUPTED


def undrain(api: ApiClient, name: str) -> int:
    """Take the drain of the node `name` back.

    Returns the exit code: 0, or 1 if the node refuses: it does not drain, or its process leaves.

    Raises:
        Refused: the admin token is missing or wrong."""
    return perform(api, "nodes", name, "undrain")


PrintLine = Callable[[str], None]


def _follow(api: ApiClient, before: NodeView, timeout: float, progress: PrintLine, end: PrintLine | None = None) -> int:
    """Follow the node until it holds nothing or the timeout is over; return the exit code.

    `progress` prints each change, `end` (by default `progress`) the last line."""
    end, deadline, last = end or progress, time.monotonic() + timeout, ""
    while True:
        try:
            nodes = api.get("nodes", NodesView).view.nodes
            now = next((one for one in nodes if (one.node_id, one.boot) == (before.node_id, before.boot)), None)
            if now is None or _is_empty(now):
                end(visible.line(f"{before.node_id} {_LEFT if now is None else _EMPTY}"))
                return 0
            line = _line(now)
        except ConfigError as error:
            line = f"{error}; it is asked again"
        if line != last:
            progress(visible.line(line))
            last = line
        if time.monotonic() >= deadline:
            end(visible.line(f"after {timeout:g} s: {line}; it drains on; look again with framehold nodes"))
            return 1
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))


_LEFT, _EMPTY = "has left the fleet", "holds nothing any more: its process can be stopped"


def _is_empty(now: NodeView) -> bool:
    return now.state == DRAINING and now.parked == 0 and now.in_flight == 0


def _line(now: NodeView) -> str:
    off = f", {now.handed_off:,} handed off" if now.handed_off else ""
    return (
        f"{now.node_id} is {now.state}: {figures.cell(now.parked)} parked, {figures.cell(now.in_flight)} in flight{off}"
    )

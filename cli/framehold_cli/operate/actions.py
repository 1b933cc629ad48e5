"""An operator's actions: `framehold cancel CALL`, `evict CALL`, `pause TOOL` and `resume TOOL`.

The law: in a terminal nothing is done before the user has confirmed it. A script needs no confirmation.
"""

from __future__ import annotations

import sys
from typing import Literal

import typer

from framehold_core import ids

from ..client.api import ApiClient, ApiRefused
from ..show import visible
from .lease import named

_ASKED = {
    "cancel": "cancel call {call} for good? Its handler is cancelled, and its client is told that an operator did it",
    "evict": "evict the frame of call {call}? Its next round replays it from its journal",
}


def act(api: ApiClient, action: Literal["cancel", "evict"], text: str, sure: bool) -> int:
    """Perform `action` on the call that `text` names. `sure`: ask for no confirmation.

    Returns the exit code: 0, or 1 if the user says no or the router refuses the action.

    Raises:
        ConfigError: `text` names no call, or more than one; or the admin token is missing or wrong.
    """
    call = named(api, text)
    if not sure and sys.stdin.isatty() and not typer.confirm(_ASKED[action].format(call=ids.prefix(call)), err=True):
        print("nothing was done", file=sys.stderr)
        return 1
    code = perform(api, "leases", call, action)
    if code == 0 and call != text:
        # No list shows the call until a node holds it again.
        print(f"it is found by its whole id: framehold lease {call}", flush=True)
    return code


def pause(api: ApiClient, tool: str, why: str, sure: bool) -> int:
    """Pause a tool. `sure`: ask for no confirmation.

    Returns the exit code: 0, or 1 if the user says no or the router refuses the action.

    Raises:
        Refused: the admin token is missing or wrong."""
    asked = f"pause {visible.line(tool)}? New calls of it are refused, and parked ones wait, until it is resumed"
    if not sure and sys.stdin.isatty() and not typer.confirm(asked, err=True):
        print("nothing was done", file=sys.stderr)
        return 1
    return perform(api, "tools", "pause", tool=tool, why=why)


def resume(api: ApiClient, tool: str) -> int:
    """End the pause of a tool.

    Returns the exit code: 0, or 1 if the router refuses the action.

    Raises:
        Refused: the admin token is missing or wrong."""
    return perform(api, "tools", "resume", tool=tool)


def perform(api: ApiClient, *path: str, **body: str) -> int:
    """Perform the action at this path of the API with this body, and print the router's reply.

    Returns the exit code: 0, or 1 if the router refuses the action.

    Raises:
        Refused: the admin token is missing or wrong."""
    try:
        done = api.act(*path, **body).done
    except ApiRefused as refused:
        if refused.status in (401, 403):
            raise
        print("framehold:", visible.line(str(refused)), file=sys.stderr)
        return 1
    print(visible.line(done), flush=True)
    return 0

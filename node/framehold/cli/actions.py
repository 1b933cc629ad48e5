"""`framehold cancel CALL` and `framehold evict CALL`: what an operator does to one call.

The law: in a terminal nothing is done before someone has said yes; a script has said so by asking for it.
"""

from __future__ import annotations

import sys
from typing import Literal

import typer

from framehold_core import ids

from . import visible
from .api import Api, Refused
from .lease import named

_ASKED = {
    "cancel": "cancel call {call} for good? Its handler is cancelled, and its client is told that an operator did it",
    "evict": "evict the frame of call {call}? Its next round replays it from its journal",
}


def act(api: Api, action: Literal["cancel", "evict"], text: str, sure: bool) -> int:
    """Do it to the call that `text` names; the exit code: 0, or 1 where the router says why not.

    Raises:
        ConfigError: no call, or more than one, is called so; or nobody may do it without the admin token.
    """
    call = named(api, text)
    if not sure and sys.stdin.isatty() and not typer.confirm(_ASKED[action].format(call=ids.prefix(call)), err=True):
        print("nothing was done", file=sys.stderr)
        return 1
    code = told(api, "leases", call, action)
    if code == 0 and call != text:
        # No list has it any more until a node holds it again.
        print(f"it is found by its whole id: framehold lease {call}", flush=True)
    return code


def told(api: Api, *path: str) -> int:
    """Ask for an action, and say what came of it."""
    try:
        done = api.act(*path).done
    except Refused as refused:
        if refused.status in (401, 403):
            raise
        print("framehold:", visible.line(str(refused)), file=sys.stderr)
        return 1
    print(visible.line(done), flush=True)
    return 0

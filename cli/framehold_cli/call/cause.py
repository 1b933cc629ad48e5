"""Tells the caller of a failed call where the cause stands: the exception's class, its place in the author's code, and
the log that has its traceback.

The law: nothing is asked of a server that is no fleet of this user. The router's API is asked only with an admin token:
that of a `framehold up` on this machine, or one that the user gave. The text of the exception is not shown, for the API
does not have it. The author's line is read from the author's file, only for a `framehold up` on this machine.
"""

from __future__ import annotations

import linecache
import time
from dataclasses import dataclass
from pathlib import Path

from framehold_core import token
from framehold_core.effects import Reason
from framehold_core.errors import ConfigError
from framehold_core.ids import CallId
from framehold_fleet.models.calls import CallsView, EndedCallView

from ..client import addresses, local_fleets
from ..client.api import ApiClient
from ..client.local_fleets import LocalFleet
from .target import CallTarget

_MAX_CANDIDATES = 10
"""How many of the last failed calls are compared where the id of the call is not known."""
_PATIENCE, _PAUSE = 1.5, 0.2
"""Seconds for which a call is looked for that is not listed yet, and between two looks."""
_FOR_CALLERS = ("mcp.", "fastmcp.")
_MAX_LINE = 160
"""Characters of the author's line that are shown."""


_LOST = (
    "the tool raised nothing: the process that ran the call is gone (killed, or reloaded), or the store's record of "
    "it; without its process a call of a tool that is marked @framehold.reentrant goes on"
)
_LOGGED = {Reason.DIVERGED, Reason.UNREADABLE, Reason.STUCK}
"""The reasons of which a log says more than the client gets."""


@dataclass(frozen=True)
class Cause:
    """Why a call failed. `call` is its id. `error` is the class of the exception, `place` where the author's code
    raised it, as `module:function:line`. `where` and `line` are the file and the text of that line. `reason` is
    Framehold's own reason to end the call, such as "lost". Each is empty where it is not known. `log` names the log
    that says more, as far as one is known."""

    node: str = ""
    call: str = ""
    error: str = ""
    place: str = ""
    where: str = ""
    line: str = ""
    log: str = ""
    reason: str = ""

    @property
    def lines(self) -> list[str]:
        """The cause in words; nothing if nothing is known of it."""
        if self.reason:
            more = [f"{self.log or 'the log of the server'} says why"] if self.reason in _LOGGED else []
            return [_LOST] if self.reason == Reason.LOST else more
        if self.error:
            at = f" at {self.place}" if self.place else ""
            # A class of the SDK is raised on purpose, with a text for the caller, and no log has its traceback.
            logged = "" if self.error.startswith(_FOR_CALLERS) else f"; {self.log} has its traceback"
            lines = [f"{self.error}{at}, on {self.node}{logged}"]
            return [*lines, f"  {self.where}  {self.line}"] if self.line else lines
        return [f"if the tool raised an exception, {self.log} has its traceback"] if self.log else []


@dataclass(frozen=True)
class Failed:
    """A call of `target` at `url` that failed. `node` served its last round, empty if not known. `state` is the
    `requestState` of its last round, empty if it had one round. `began`: when it began, in seconds since 1970.
    `reason`: why Framehold itself ended the call, empty if it did not. `api`: the address of the router that tells of
    it, empty if that is `url`."""

    target: CallTarget
    url: str
    node: str
    state: str
    began: float
    reason: str = ""
    api: str = ""

    def cause(self, admin_token: str | None) -> Cause:
        """Why it failed, as far as the fleet tells this user."""
        fleet = local_fleets.at(self.url)
        log = "the output of framehold up" if fleet else f"the log of {self.node}" if self.node else ""
        if self.reason:
            return Cause(self.node, log=log, reason=self.reason)
        ended = self._ended(fleet, admin_token) if fleet or admin_token else None
        if ended is None:
            return Cause(self.node, log=log)
        where, line = _source(fleet, ended.place) if fleet else ("", "")
        return Cause(ended.node_id, ended.call_id, ended.error, ended.place, where, line, log)

    def _ended(self, fleet: LocalFleet | None, admin_token: str | None) -> EndedCallView | None:
        """What the router knows of the call's end; None if it is not known, or if another call may be meant."""
        query: dict[str, object] = {"failed": True, "tool": self.target.label, "limit": _MAX_CANDIDATES}
        if (call := call_of(self.state)) is not None:
            query = {"call": call, "limit": 1}
        elif fleet is None:
            # The clock of another machine does not tell which call is this one.
            return None
        try:
            with ApiClient(addresses.base(self.api or self.url), admin_token) as api:
                found = self._found(api, query)
        except ConfigError:
            return None
        same = {(item.error, item.place) for item in found}
        return found[0] if len(same) == 1 else None

    def _found(self, api: ApiClient, query: dict[str, object]) -> list[EndedCallView]:
        """The listed calls that may be this one: its node writes it soon after its end."""
        until = time.monotonic() + _PATIENCE
        while True:
            items = api.get("calls", CallsView, **query).view.items
            found = [item for item in items if item.ended >= self.began and item.node_id == (self.node or item.node_id)]
            if found or time.monotonic() >= until:
                return found
            time.sleep(_PAUSE)


def call_of(state: str) -> CallId | None:
    """The id of the call that a `requestState` names; None if it names none, as one of another server."""
    routed = token.parse(state)
    return routed.call if routed else None


def begun() -> float:
    """The present time, in seconds since 1970."""
    return time.time()


def _source(fleet: LocalFleet, place: str) -> tuple[str, str]:
    """The file with its line, and the text of that line, of a place in the code that a fleet on this machine serves;
    empty if the file is not found."""
    module, _, rest = place.partition(":")
    number = rest.rpartition(":")[2]
    if not number.isdecimal():
        return "", ""
    file = Path(fleet.folder, *module.split(".")).with_suffix(".py")
    beside = Path(fleet.folder, module.rpartition(".")[2]).with_suffix(".py")
    found = next((one for one in (file, beside) if one.is_file()), None)
    text = linecache.getline(str(found), int(number)).strip() if found else ""
    return (f"{found.name}:{number}", text[:_MAX_LINE]) if found and text else ("", "")

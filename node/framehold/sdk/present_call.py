"""The present call: which call the running code belongs to, found by a context variable."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from mcp.server.session import ServerSession
from mcp_types import RequestId

from framehold_core.errors import NotInCall

from ..frame.frame import Frame
from ..frame.recorded import FrameRecord
from ..frame.rehearsal import misused
from ..frame.unrecorded import Unrecorded


class Present(NamedTuple):
    """The call that the running code belongs to.

    On 2026-07-28 it has a `frame`, and `request_id` is None. On earlier revisions it has no frame: `request_id` is the
    id of its request, and `unrecorded` keeps its effects and values while it runs. `tool` is the name of its tool or
    prompt, or the method; `method` is the method."""

    session: ServerSession
    request_id: RequestId | None
    frame: Frame | None
    unrecorded: Unrecorded | None = None
    tool: str = ""
    method: str = ""

    def recorder(self) -> FrameRecord | Unrecorded:
        """The object that keeps the effects and values of this call."""
        found = self.unrecorded if self.frame is None else self.frame.recorded
        assert found is not None, "a call has a frame, or keeps its values without one"
        return found

    @property
    def ended(self) -> bool:
        """Whether its handler has ended."""
        call = self.unrecorded if self.frame is None else self.frame
        return call is None or call.ended


current: ContextVar[Present | None] = ContextVar("framehold_call", default=None)
"""The present call."""


def present(what: str) -> Present:
    """The present call. `what` names the function that needs it, in errors.

    Raises:
        NotInCall: the running code belongs to no call.
    """
    found = current.get()
    if found is None:
        raise misused(
            NotInCall(
                f"{what} was used outside a call; nothing was asked or run; call it from a tool, prompt or resource of "
                "a server that went through framehold.attach or framehold.asgi"
            )
        )
    return found

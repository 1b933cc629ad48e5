"""What a handler may call wherever it is: functions that find the present call by themselves."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TypeVar

from mcp.server.elicitation import ElicitationResult, elicit_with_validation
from mcp.server.session import ServerSession
from mcp_types import RequestId
from pydantic import BaseModel

from framehold_core.errors import NotInCall

from .session import FrameSession

ModelT = TypeVar("ModelT", bound=BaseModel)

current: ContextVar[tuple[ServerSession, RequestId | None] | None] = ContextVar("framehold_call", default=None)
"""The session of the call that the running code belongs to, and the id of its request on revisions before
2026-07-28."""


async def ask(key: str, message: str, schema: type[ModelT]) -> ElicitationResult[ModelT]:
    """Ask the user, under a key of your own: `ctx.elicit` with a name.

    Use it where two questions may read the same and be pending together, and where a journal should be readable.

    Args:
        key: names the question within its call, e.g. "seat"; unique among those pending together.
        message: what the user reads.
        schema: a pydantic model of primitive fields.

    Returns:
        What `ctx.elicit` returns: an accepted elicitation with `data`, a declined or a cancelled one.

    Raises:
        NotInCall: there is no call here: `ask` was used outside a tool, prompt or resource, or its server isn't
        attached. DuplicateAsk: a question with this key is pending already. ValueError: the user accepted with
        content that does not match `schema`.
    """
    found = current.get()
    if found is None:
        raise NotInCall(
            f"framehold.ask({key!r}) was used outside a call; nothing was asked; "
            "call it from a tool, prompt or resource of a server that went through framehold.attach or framehold.asgi"
        )
    session, request_id = found
    if isinstance(session, FrameSession):
        session = session.keyed(key)
    return await elicit_with_validation(session, message, schema, request_id)

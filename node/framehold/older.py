"""The session that a handler is given on revisions before 2026-07-28, where a question is a request over the wire.

It asks as a frame's session does, as far as that wire can: nothing from inside an effect, which would be missed where
the handler is entered again; and on the stream of the request that is being served. A bare `list_roots()` or
`create_message()` names no request, and would go out on a stream of its own that few clients open, so that nobody
would ever answer. Where the response can't carry a question that stream stays the only way.

Of the SDK's private parts these are touched: `ServerSession._request_outbound` and `_connection`, which are one
request's two ways to its client; a test names the release.
"""

from __future__ import annotations

from typing import TypeVar

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel

from .calling import outside
from .questions import KINDS
from .session import Ctx

ResultT = TypeVar("ResultT", bound=BaseModel)


class OlderSession(ServerSession):
    """The session of one request, for its handler."""

    def __init__(self, ctx: Ctx) -> None:
        super().__init__(ctx.session._request_outbound, ctx.session._connection, request_meta=ctx.meta)
        self._request = ctx.request_id

    async def send_request(
        self,
        request: types.ServerRequest,
        result_type: type[ResultT],
        request_read_timeout_seconds: float | None = None,
        metadata: ServerMessageMetadata | None = None,
        progress_callback: ProgressFnT | None = None,
    ) -> ResultT:
        """Ask the client, on the stream of the request that is being served.

        Raises:
            AskError: an effect under `once` asks. Else as the SDK's own.
        """
        if (kind := KINDS.get(request.method)) is not None:
            outside(kind)
        if self.can_send_request and (metadata is None or metadata.related_request_id is None):
            metadata = ServerMessageMetadata(related_request_id=self._request)
        return await super().send_request(
            request, result_type, request_read_timeout_seconds, metadata, progress_callback
        )

"""The session and the request context of a handler: they stay the same while rounds come and go.

A handler keeps the session and the context of round 1. So both read through to the request that carries the present
round: its id, its headers, its progress token, its log level, its response stream. Between rounds there is no such
request. A notification that a handler sends then is dropped: by the protocol a notification belongs to a request."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Collection, Coroutine
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel
from typing_extensions import deprecated

from .. import json_text
from ..frame.asks import Question
from ..frame.frame import Frame
from . import questions

logger = logging.getLogger(__name__)

META = "_meta"
"""The parameter with the metadata of one request: a client sends it anew in each round."""
_send_log_message = inspect.unwrap(ServerSession.send_log_message)
"""Without the warning that the method is deprecated: the author's call has caused one."""
ResultT = TypeVar("ResultT", bound=BaseModel)
Ctx = ServerRequestContext[Any, Any]


class _NoChannel:
    """The outbound channel of a frame's session. It sends nothing: only the session of the present round can send."""

    can_send_request = True

    async def send_raw_request(self, method: str, params: Any, opts: CallOptions | None = None) -> dict[str, Any]:
        raise MCPError(types.INVALID_REQUEST, f"{method!r} can't be sent to a client on this protocol revision")

    async def notify(self, method: str, params: Any, opts: CallOptions | None = None) -> None:
        logger.debug("dropped %s: no request is open to carry it", method)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        logger.debug("dropped progress: no request is open to carry it")


_NO_CHANNEL: Any = _NoChannel()
_NO_LEVELS: frozenset[types.LoggingLevel] = frozenset()
"""Shared by all sessions: an empty set of its own would take 216 bytes."""


class FrameSession(ServerSession):
    """A session whose requests suspend the frame, and whose notifications go out on the present round's response."""

    def __init__(self, frame: Frame, connection: Connection, key: str | None = None) -> None:
        # What the SDK's `__init__` sets. Its log levels are not used: the session of the present round decides.
        self._request_outbound, self._connection = _NO_CHANNEL, connection
        self._log_is_request_scoped, self._allowed_log_levels = True, _NO_LEVELS
        self.frame, self._key = frame, key

    def keyed(self, key: str) -> FrameSession:
        """A view of this session whose next requests are asked under `key` (str, unique among those pending
        together)."""
        return FrameSession(self.frame, self._connection, key)

    def live(self) -> Ctx | None:
        """The context of the request that carries the present round; None between rounds."""
        carrier = self.frame.carrier
        return None if carrier is None else getattr(carrier, "ctx", None)

    async def _live_for_output(self) -> Ctx | None:
        """The context on which the handler's notifications are sent; None between rounds, and while the frame is being
        rebuilt: the client got those notifications before. What the handler says may rest on results of effects, so
        these are durable first (docs/protocol.md, rule 13)."""
        await self.frame.results_stored()
        return None if self.frame.silent else self.live()

    def send_request(
        self,
        request: types.ServerRequest,
        result_type: type[ResultT],
        request_read_timeout_seconds: float | None = None,
        metadata: ServerMessageMetadata | None = None,
        progress_callback: ProgressFnT | None = None,
    ) -> Coroutine[Any, Any, ResultT]:
        """Ask the client, and suspend until it has answered. Returns the frame's own awaitable: a coroutine of this
        method would keep itself and the request in memory while the frame is parked.

        Raises:
            MCPError: `request` can't be asked on this revision, `request_read_timeout_seconds` went by, or the client
            of a saga reported an error: then with its code and message.
            DuplicateAsk: the same question is pending already and has no key.
            asyncio.CancelledError: the frame was torn down.
        """
        asked = questions.question(request, result_type)
        if asked is None:
            raise MCPError(types.INVALID_REQUEST, f"{request.method!r} can't be asked of a client on this revision")
        waiting = self.frame.ask(asked, self._key)
        if request_read_timeout_seconds is None:
            return waiting
        return _in_time(waiting, request.method, request_read_timeout_seconds)

    def elicit_form(
        self,
        message: str,
        requested_schema: types.ElicitRequestedSchema,
        related_request_id: types.RequestId | None = None,
    ) -> Coroutine[Any, Any, types.ElicitResult]:
        """Ask the user to fill in a form, as the SDK's method does. It is no coroutine, which would keep the form in
        memory while the frame is parked."""
        if type(self) is FrameSession:
            return self.ask(questions.form(message, requested_schema))
        return self.send_request(questions.form_request(message, requested_schema), types.ElicitResult)

    def ask(self, question: Question) -> Coroutine[Any, Any, Any]:
        """Suspend the frame until the client has answered `question`; see `Frame.ask`."""
        return self.frame.ask(question, self._key)

    @property
    def can_send_request(self) -> bool:
        """True: a request suspends the frame."""
        return True

    @property
    def client_params(self) -> types.InitializeRequestParams | None:
        """The client's parameters in the present round; between rounds those of the round that entered the handler."""
        live = self.live()
        return super().client_params if live is None else live.session.client_params

    @property
    def client_capabilities(self) -> types.ClientCapabilities | None:
        """The client's capabilities in the present round; between rounds those of the round that entered the
        handler."""
        live = self.live()
        return super().client_capabilities if live is None else live.session.client_capabilities

    def check_client_capability(self, capability: types.ClientCapabilities) -> bool:
        """Whether the client declared `capability` in the present round; between rounds, in the round that entered the
        handler."""
        live = self.live()
        if live is None:
            return super().check_client_capability(capability)
        return live.session.check_client_capability(capability)

    async def send_notification(
        self, notification: types.ServerNotification, related_request_id: types.RequestId | None = None
    ) -> None:
        """Send a notification through the session of the present round: on its response if `related_request_id` is
        given."""
        if (live := await self._live_for_output()) is not None:
            related = None if related_request_id is None else live.request_id
            await live.session.send_notification(notification, related)

    @deprecated("The logging capability is deprecated as of 2026-07-28 (SEP-2577).", category=MCPDeprecationWarning)
    async def send_log_message(
        self,
        level: types.LoggingLevel,
        data: Any,
        logger: str | None = None,
        related_request_id: types.RequestId | None = None,
    ) -> None:
        """Send a log message on the present round's response, if its request asked for this level."""
        if (live := await self._live_for_output()) is not None:
            await _send_log_message(live.session, level, data, logger, live.request_id)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress under the progress token of the present round."""
        if (live := await self._live_for_output()) is not None:
            await live.session.report_progress(progress, total, message)

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: str | None = None,
    ) -> None:
        """Report progress on the present round's response, under the given token."""
        if (live := await self._live_for_output()) is not None:
            await live.session.send_progress_notification(progress_token, progress, total, message, related_request_id)


async def _in_time(waiting: Awaitable[ResultT], method: str, seconds: float) -> ResultT:
    try:
        # Not in a new task: a question belongs to the task that asks it.
        async with asyncio.timeout(seconds):
            return await waiting
    except TimeoutError:
        raise MCPError(types.REQUEST_TIMEOUT, f"no answer to {method!r} came in time") from None


class PackedParams:
    """Parameters of a heavy request, as JSON: they take less memory so while its call is parked. Arguments that are not
    in `known` are left out (None: all are kept)."""

    __slots__ = ("_json",)

    def __init__(self, params: dict[str, Any], known: Collection[str] | None) -> None:
        arguments = params.get("arguments")
        if known is not None and isinstance(arguments, dict):
            params = {**params, "arguments": {name: arguments[name] for name in arguments if name in known}}
        self._json = json_text.write(params)

    def read(self) -> dict[str, Any]:
        """The parameters."""
        params: dict[str, Any] = json_text.read(self._json)
        return params


def _through(name: str) -> Any:
    """A property that reads from the present round's context. Setting it does nothing, so that `dataclasses.replace`
    works."""

    def get(self: FrameContext) -> Any:
        live = self.session.live()
        return None if live is None else getattr(live, name)

    def ignore(self: FrameContext, value: Any) -> None:
        """Do nothing: the value is always that of the present round."""

    return property(get, ignore)


def _params() -> Any:
    """A property: the parameters that the handler was entered with, and the `_meta` of the present round. They are
    `PackedParams` if they are heavy."""

    def get(self: FrameContext) -> Any:
        live = self.session.live()
        meta = None if live is None else (live.params or {}).get(META)
        entered = self.entered.read() if type(self.entered) is PackedParams else self.entered
        return entered if meta is None else {**entered, META: meta}

    def put(self: FrameContext, value: Any) -> None:
        self.entered = value

    return property(get, put)


def _lifespan() -> Any:
    """A property: what the lifespan of the present round's connection yielded; between rounds, what was read last.
    Without an app each connection has a lifespan of its own."""

    def get(self: FrameContext) -> Any:
        if (live := self.session.live()) is not None:
            self.lifespan = live.lifespan_context
        return self.lifespan

    def put(self: FrameContext, value: Any) -> None:
        self.lifespan = value

    return property(get, put)


class FrameContext(ServerRequestContext[Any, Any]):
    """A request context that outlives its request."""

    session: FrameSession
    entered: Any
    lifespan: Any
    params = _params()
    lifespan_context = _lifespan()
    request_id = _through("request_id")
    meta = _through("meta")
    request = _through("request")
    close_sse_stream = _through("close_sse_stream")
    close_standalone_sse_stream = _through("close_standalone_sse_stream")

    def __init__(
        self,
        *,
        session: FrameSession,
        lifespan_context: Any,
        protocol_version: str,
        method: str,
        params: Any = None,
        **_of_the_present_round: Any,
    ) -> None:
        # In place of the dataclass's own, which would set each property of the present round, too.
        self.session, self.lifespan, self.entered = session, lifespan_context, params
        self.protocol_version, self.method = protocol_version, method

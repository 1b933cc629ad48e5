"""The admin API of a node: the paths below `/admin/` by which operators read its calls and events, and act on them.

The law: a request without access learns nothing, not even which calls there are. Each response is the JSON of a model
in `framehold_fleet.models`. A response that is no success is an `ErrorView`, which says what was not done.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from framehold_core.ids import CallId, is_call_id
from framehold_fleet.guard.guesses import Guesses
from framehold_fleet.headers import CREDENTIAL
from framehold_fleet.models.calls import LeaseQuery, LeasesView
from framehold_fleet.models.events import EventKind
from framehold_fleet.models.fields import MAX_TEXT_CHARACTERS, printable
from framehold_fleet.models.nodes import DoneView, ErrorView

from ..hosts.attached import Attached
from ..sdk import hop as hops
from ..sdk.hop import Hop
from ..telemetry import await_stack
from ..telemetry.stacks import authors
from . import access, lease_list, tool_list
from .actions import ActionResult, Actions
from .probes import node_state
from .profile import ProfileReader
from .tool_actions import ToolActions

logger = logging.getLogger(__name__)
_KILLED = "this node's process is killed now, as by kill -9: it hands off nothing, and says nothing to anybody"
_NOT_KILLED = "this node is not killed: its FRAMEHOLD_PLAYGROUND is not `kill`; nothing was done"
_CREDENTIAL = re.compile(r"[0-9a-f]{8}")
RequestT = TypeVar("RequestT", bound=BaseModel)
_TOOL = '{"tool": "..."}'
MAX_BODY_BYTES = 4096
"""The largest body of a request: it names one call or one tool."""


class _CallRequest(BaseModel):
    """The body of a request that acts on one call."""

    model_config = ConfigDict(extra="forbid")

    call_id: str = Field(max_length=64)


class _ToolRequest(BaseModel):
    """The body of a request that acts on one tool."""

    model_config = ConfigDict(extra="forbid")

    tool: str = Field(min_length=1, max_length=MAX_TEXT_CHARACTERS)
    why: str = Field("", max_length=MAX_TEXT_CHARACTERS)


class _BadRequest(Exception):
    """A request is wrong; nothing was done. The text says what is wrong."""


class Admin:
    """Serves the admin API of one node."""

    def __init__(self, attached: Attached) -> None:
        self._attached = attached
        self._runtime = runtime = attached.runtime
        self._actions = Actions(runtime)
        self._tools = ToolActions(attached.runtime.door.pauses, attached.handlers.names)
        self.profile = ProfileReader(attached)
        self._guesses = Guesses(logger, runtime.counts)
        # One list or profile at a time: each takes about a millisecond of every turn of the loop.
        self._lists = asyncio.Lock()
        self.endpoints: dict[str, tuple[str, Callable[[Request], Awaitable[Response]]]] = {
            "/admin/node": ("GET", self._node),
            "/admin/leases": ("GET", self._leases),
            "/admin/tools": ("GET", self._tool_list),
            "/admin/profile": ("GET", self._profile),
            "/admin/drain": ("POST", self._drain),
            "/admin/undrain": ("POST", self._undrain),
            "/admin/kill": ("POST", self._kill),
            "/admin/cancel": ("POST", self._cancel),
            "/admin/evict": ("POST", self._evict),
            "/admin/pause": ("POST", self._pause),
            "/admin/resume": ("POST", self._resume),
        }
        """By path: the HTTP method of the endpoint, and the function that serves it."""

    async def __call__(self, hop: Hop, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request for one of the `endpoints`."""
        method, endpoint = self.endpoints[path]
        settings = self._runtime.settings
        if not access.allowed(hop, scope, settings):
            if access.is_guess(scope, settings):
                await self._guesses.wrong((scope.get("client") or ("",))[0])
            response = _json(ErrorView(error=access.refusal(settings)), 403)
        elif scope["method"] != method:
            response = _json(ErrorView(error=f"{path} takes {method} only; nothing was done"), 405)
            response.headers["allow"] = method
        else:
            try:
                response = await endpoint(Request(scope, receive))
            except _BadRequest as error:
                response = _json(ErrorView(error=str(error)), 400)
            except ClientDisconnect:
                return
        await response(scope, receive, send)

    async def _node(self, request: Request) -> Response:
        return _json(node_state(self._attached))

    async def _leases(self, request: Request) -> Response:
        try:
            query = LeaseQuery.model_validate(dict(request.query_params))
            async with self._lists:
                return _json(self._with_place(await lease_list.leases(self._runtime, query), query))
        except ValidationError as error:
            raise _BadRequest(_validation_text(error, "parameter")) from None
        except ValueError as error:
            raise _BadRequest(str(error)) from None

    def _with_place(self, page: LeasesView, query: LeaseQuery) -> LeasesView:
        """The page; if one call was asked for by its whole id, with the place where its handler stands."""
        slot = self._runtime.table.get(CallId(query.call or ""))
        if slot is None or slot.frame is None or slot.frame.task is None:
            return page
        place = await_stack.stands_at(slot.frame.task, authors(self._attached.handlers.asking()))
        items = [item.model_copy(update={"stands_at": place}) for item in page.items if item.call_id == slot.call.id]
        return page.model_copy(update={"items": items}) if items else page

    async def _tool_list(self, request: Request) -> Response:
        async with self._lists:
            return _json(await tool_list.tools(self._runtime, self._attached.names, self._attached.metrics))

    async def _profile(self, request: Request) -> Response:
        async with self._lists:
            return _json(await self.profile.view())

    async def _drain(self, request: Request) -> Response:
        runtime = self._runtime
        if runtime.draining.begun:
            return _json(DoneView(done="this node drains already; nothing more was done"), 202)
        patience = runtime.settings.drain_timeout
        text = f"{self._operator(request)} ordered this node to drain: it takes no new call, and hands off what it may"
        runtime.observers.happened(EventKind.DRAIN, text, None)
        runtime.tasks.spawn(runtime.drain(patience, leaves=False))
        text = (
            "this node drains: it takes no new call, hands off what others may carry on, and keeps the rest for "
            f"{patience:g} s; its process goes on until whoever runs it ends it, and until then the drain can be taken "
            "back"
        )
        return _json(DoneView(done=text), 202)

    async def _undrain(self, request: Request) -> Response:
        draining = self._runtime.draining
        if draining.undo():
            text = f"{self._operator(request)} ordered this node to take calls again"
            self._runtime.observers.happened(EventKind.UNDRAINED, text, None)
            return _action_reply(
                ActionResult(200, "this node takes calls again; what it has handed off stays where it is")
            )
        why = "its process leaves the fleet" if draining.leaving or draining.closed else "it does not drain"
        return _action_reply(ActionResult(409, f"{why}; nothing was done"))

    async def _kill(self, request: Request) -> Response:
        if self._runtime.settings.playground != "kill":
            return _action_reply(ActionResult(409, _NOT_KILLED))
        logger.warning("%s killed this process, from the playground", self._operator(request))
        response = _action_reply(ActionResult(202, _KILLED))
        # The reply leaves first: a process that was killed sends nothing.
        response.background = BackgroundTask(os.kill, os.getpid(), signal.SIGKILL)
        return response

    async def _cancel(self, request: Request) -> Response:
        return _action_reply(await self._actions.cancel(await _call(request), self._operator(request)))

    async def _evict(self, request: Request) -> Response:
        return _action_reply(self._actions.evict(await _call(request), self._operator(request)))

    def _operator(self, request: Request) -> str:
        """Who orders an action, as events have it: an operator by the name of the admin token. A router of the fleet
        names the token that it was shown; whoever asks this node itself has shown its own."""
        hop, runtime = hops.of(request), self._runtime
        if hop is not None and hop.inside:
            name = str(printable(request.headers.get(CREDENTIAL, "")))
            name = name if _CREDENTIAL.fullmatch(name) else ""
        else:
            name = runtime.peers.trust.credential(runtime.settings.admin_token)
        return f"an operator (admin token {name})" if name else "an operator"

    async def _pause(self, request: Request) -> Response:
        named = await _body(request, _ToolRequest, _TOOL)
        return _action_reply(await self._tools.pause(named.tool, named.why, self._operator(request)))

    async def _resume(self, request: Request) -> Response:
        named = await _body(request, _ToolRequest, _TOOL)
        return _action_reply(await self._tools.resume(named.tool, self._operator(request)))


async def _call(request: Request) -> CallId:
    """The call that the body of a request names. Raises `_BadRequest`."""
    named = await _body(request, _CallRequest, '{"call_id": "..."}')
    if not is_call_id(named.call_id):
        raise _BadRequest("call_id is wrong: a call's id has 22 to 36 letters, digits or hyphens; nothing was done")
    return CallId(named.call_id)


async def _body(request: Request, kind: type[RequestT], form: str) -> RequestT:
    """The body of a request, which has the form `form`. Raises `_BadRequest`."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise _BadRequest(f"the body is longer than {MAX_BODY_BYTES} bytes; nothing was done")
    try:
        return kind.model_validate(_parsed(body, form))
    except ValidationError as error:
        raise _BadRequest(_validation_text(error, "field")) from None


def _parsed(body: bytes, form: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _BadRequest(f"the body is not JSON; nothing was done; send {form}") from None


def _validation_text(error: ValidationError, what: str) -> str:
    """A text that names the first wrong parameter or field (`what`) and its fault, without its value."""
    first = error.errors(include_input=False, include_url=False)[0]
    name = printable(".".join(map(str, first["loc"]))) or "the body"
    return f"{what} {name} is wrong: {first['msg']}; nothing was returned or done"


def _action_reply(done: ActionResult) -> Response:
    view = DoneView(done=done.text) if done.status < 400 else ErrorView(error=done.text)
    return _json(view, done.status)


def _json(view: BaseModel, status: int = 200) -> Response:
    return Response(view.model_dump_json(), status, media_type="application/json")

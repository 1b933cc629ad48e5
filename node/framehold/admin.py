"""What a node tells operators over HTTP, and what it does for them: `/admin/` leases, events, profile, drain, cancel,
evict.

The law: whoever may not is told nothing, not even what is there. Each answer is JSON of `framehold_router.api`, and one
that is no success is an `ErrorView` that says what was not done.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from framehold_core.ids import CallId, is_call_id
from framehold_router.api.about_calls import LeaseQuery
from framehold_router.api.about_events import EventsQuery
from framehold_router.api.about_nodes import DoneView, ErrorView
from framehold_router.api.fields import printable

from . import access, listing
from .actions import Actions, Done
from .attached import Attached
from .chronicle import Chronicle
from .hop import Hop
from .profile import Profile

_LONGEST = 4096
"""Bytes of a body: it holds one id."""


class _Named(BaseModel):
    """The body of what is done to one call."""

    model_config = ConfigDict(extra="forbid")

    call_id: str = Field(max_length=64)


class _Wrong(Exception):
    """What is wrong with a request; nothing was done."""


class Admin:
    """These endpoints of one node."""

    def __init__(self, attached: Attached) -> None:
        self._runtime = runtime = attached.runtime
        self._chronicle, self._actions = Chronicle(runtime.heartbeat), Actions(runtime)
        self.profile = Profile(attached)
        runtime.watches.add(self._chronicle)
        # One pass at a time: each takes its millisecond of every turn of the loop.
        self._lists = asyncio.Lock()
        self.endpoints: dict[str, tuple[str, Callable[[Request], Awaitable[Response]]]] = {
            "/admin/leases": ("GET", self._leases),
            "/admin/events": ("GET", self._events),
            "/admin/profile": ("GET", self._profile),
            "/admin/drain": ("POST", self._drain),
            "/admin/cancel": ("POST", self._cancel),
            "/admin/evict": ("POST", self._evict),
        }
        """By path: the one method that it takes, and who answers."""

    async def __call__(self, hop: Hop, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for one of the `endpoints`."""
        method, endpoint = self.endpoints[path]
        settings = self._runtime.settings
        if not access.allowed(hop, scope, settings):
            response = _json(ErrorView(error=access.refusal(settings)), 403)
        elif scope["method"] != method:
            response = _json(ErrorView(error=f"{path} takes {method} only; nothing was done"), 405)
            response.headers["allow"] = method
        else:
            try:
                response = await endpoint(Request(scope, receive))
            except _Wrong as wrong:
                response = _json(ErrorView(error=str(wrong)), 400)
            except ClientDisconnect:
                return
        await response(scope, receive, send)

    async def _leases(self, request: Request) -> Response:
        try:
            query = LeaseQuery.model_validate(dict(request.query_params))
            async with self._lists:
                return _json(await listing.leases(self._runtime, query))
        except ValidationError as error:
            raise _Wrong(_said(error, "parameter")) from None
        except ValueError as error:
            raise _Wrong(str(error)) from None

    async def _events(self, request: Request) -> Response:
        try:
            query = EventsQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            raise _Wrong(_said(error, "parameter")) from None
        return _json(self._chronicle.told(query.after))

    async def _profile(self, request: Request) -> Response:
        async with self._lists:
            return _json(await self.profile.view())

    async def _drain(self, request: Request) -> Response:
        runtime = self._runtime
        if runtime.leaving.begun:
            return _json(DoneView(done="this node drains already; nothing more was done"), 202)
        patience = runtime.settings.drain_timeout
        runtime.tasks.spawn(runtime.drain(patience))
        told = (
            "this node drains: it takes no new call, hands off what others may carry on, and keeps the rest for "
            f"{patience:g} s; its process goes on until whoever runs it ends it"
        )
        return _json(DoneView(done=told), 202)

    async def _cancel(self, request: Request) -> Response:
        return _told(await self._actions.cancel(await _call(request)))

    async def _evict(self, request: Request) -> Response:
        return _told(self._actions.evict(await _call(request)))


async def _call(request: Request) -> CallId:
    """The call that a body names."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST:
            raise _Wrong(f"the body is longer than {_LONGEST} bytes; nothing was done")
    try:
        named = _Named.model_validate(_parsed(body))
    except ValidationError as error:
        raise _Wrong(_said(error, "field")) from None
    if not is_call_id(named.call_id):
        raise _Wrong("call_id is wrong: a call's id has 22 to 36 letters, digits or hyphens; nothing was done")
    return CallId(named.call_id)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _Wrong('the body is not JSON; nothing was done; send {"call_id": "..."}') from None


def _said(error: ValidationError, what: str) -> str:
    """What is wrong with which parameter or field, without its value."""
    first = error.errors(include_input=False, include_url=False)[0]
    name = printable(".".join(map(str, first["loc"]))) or "the body"
    return f"{what} {name} is wrong: {first['msg']}; nothing was told or done"


def _told(done: Done) -> Response:
    view = DoneView(done=done.text) if done.status < 400 else ErrorView(error=done.text)
    return _json(view, done.status)


def _json(view: BaseModel, status: int = 200) -> Response:
    return Response(view.model_dump_json(), status, media_type="application/json")

"""The admin port of a node (FRAMEHOLD_ADMIN_PORT): an ASGI app that serves its probes, its metrics and its admin API.

The law: it serves nothing of the author's server, and no MCP request. So a network policy may let a Prometheus reach
this port, and not the calls.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ..hosts.attached import Attached
from ..sdk.hop import introduce, received
from . import access
from .api import Admin
from .probes import PROBES

_NOT_HERE = "not served here: the admin port serves /healthz, /readyz, /metrics and /admin\n"


class AdminPort:
    """Serves the admin port of one node; `admin` is its admin API, and `stranger` answers to a `Host` that is not
    allowed."""

    def __init__(self, attached: Attached, admin: Admin, stranger: ASGIApp) -> None:
        self._attached, self._admin, self._stranger = attached, admin, stranger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        runtime = self._attached.runtime
        hop, path = received(scope, receive, runtime), str(scope["path"])
        if hop.introduction is not None:
            await introduce(hop.introduction, send)
        elif not access.answers(hop, scope, runtime.settings):
            await self._stranger(scope, receive, send)
        elif (probe := PROBES.get(path)) is not None:
            await probe(self._attached, Request(scope, receive))(scope, receive, send)
        elif path in self._admin.endpoints:
            await self._admin(hop, path, scope, receive, send)
        else:
            await PlainTextResponse(_NOT_HERE, 404)(scope, receive, send)

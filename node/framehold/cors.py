"""What a browser is told before it lets a page talk to this server: by Starlette's CORSMiddleware, for the origins that
the SDK's own check of `Origin` lets pass, and for no others.

A page of an origin that is not allowed gets what it always got: the refusal, without a header of this kind. A preflight
carries no credentials, so it is answered before anybody is authenticated. A request without `Origin` is no browser's,
or of a page of this very server that only reads: it goes past all this.

Headers that a page may send are named back to it one by one as it asks for them: those that mirror a tool's parameters
(`Mcp-Param-*`) are known by no list, and to a browser `*` doesn't mean `Authorization`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from framehold_router.internal import NODE, ROUTE

METHODS = ("GET", "POST", "DELETE")
EXPOSED = ("mcp-session-id", "www-authenticate", "retry-after", NODE.decode(), ROUTE.decode())
"""Response headers that a page may read, beside those that it always may."""


class Browsers:
    """`app`, for browsers too. `origins` are as the SDK takes them: exact, or any port where they end in `:*`."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        allowed = "|".join(f"{re.escape(one[:-1])}.*" if one.endswith(":*") else re.escape(one) for one in origins)
        self._cors = CORSMiddleware(
            app,
            # An empty pattern would be a full match of an empty origin.
            allow_origin_regex=allowed or None,
            allow_methods=METHODS,
            allow_headers=("*",),
            expose_headers=EXPOSED,
        )

    def allows(self, origin: bytes) -> bool:
        """Whether pages of this origin may call."""
        return self._cors.is_allowed_origin(origin.decode("latin-1"))

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve a request, by way of the middleware where it is a browser's."""
        for name, value in scope["headers"]:
            # The first, as the SDK and Starlette have it.
            if name == b"origin":
                app = self._cors if self.allows(value) else self._app
                break
        else:
            app = self._app
        return app(scope, receive, send)

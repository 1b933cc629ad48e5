"""CORS headers, by which a browser lets a page call this server. Starlette's CORSMiddleware sends them, for exactly the
origins that the SDK's own check of `Origin` accepts.

A page of another origin gets the refusal of that check, without CORS headers. A preflight request carries no
credentials, so the reply to it comes before authentication. A request without `Origin` does not come from a browser, or
comes from a page of this same server that only reads: it skips this middleware.

The reply to a preflight names each header that the page asks to send. A fixed list would not do: the headers that
mirror a tool's parameters (`Mcp-Param-*`) are not known in advance, and to a browser `*` doesn't include
`Authorization`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from framehold_fleet.headers import NODE, ROUTE

METHODS = ("GET", "POST", "DELETE")
EXPOSED = ("mcp-session-id", "www-authenticate", "retry-after", NODE.decode(), ROUTE.decode())
"""Response headers that a page may read, besides those that it may always read."""


class Cors:
    """Serves `app` to browsers too. Each of `origins` is written as the SDK takes it: an exact origin, or one that ends
    in `:*` and stands for any port."""

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
        """Serve a request. It goes through CORSMiddleware if its origin is allowed."""
        for name, value in scope["headers"]:
            # The SDK and Starlette read the first one, too.
            if name == b"origin":
                app = self._cors if self.allows(value) else self._app
                break
        else:
            app = self._app
        return app(scope, receive, send)

"""Logs which setting allows a host or an origin that was refused. The refusal comes from the SDK or from FastMCP, and
names no setting.

The law: bounded. Strangers choose the names that are refused. So each name is logged once and cut short, and only the
first few names are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framehold_fleet.headers import NOT_HELD

logger = logging.getLogger(__name__)

MAX_LOGGED_NAMES = 32
"""How many names are logged in the life of a process."""
MAX_NAME_LENGTH = 100
"""Characters of a name that are kept and logged."""
_OTHER_CAUSES = {b"www-authenticate", NOT_HELD}
"""Headers of a response that has status 403 or 421 for another cause: a scope is missing, or the call is elsewhere."""
_HOST, _ORIGIN = 421, 403
_SETTINGS = {
    _HOST: "FRAMEHOLD_ALLOWED_HOSTS, which replaces the local names that are allowed by default",
    _ORIGIN: "FRAMEHOLD_ALLOWED_ORIGINS; local ones are allowed while neither it nor FRAMEHOLD_ALLOWED_HOSTS is set",
}
"""The setting that allows what was refused, by the status of the refusal."""


class RefusalLog:
    """Logs each host and origin that an app refuses. `allows` says whether pages of an origin may call: then the
    response has another cause."""

    def __init__(self) -> None:
        self.allows: Callable[[bytes], bool] = lambda origin: False
        self._logged: set[tuple[int, bytes]] = set()

    def around(self, app: ASGIApp) -> ASGIApp:
        """An app that serves as `app` does, and looks at the status of each response."""

        def serve(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            def observed(message: Message) -> Awaitable[None]:
                if message["type"] == "http.response.start" and message["status"] in (_HOST, _ORIGIN):
                    message = {**message, "headers": list(message.get("headers", ()))}
                    self._log_refusal(scope, message)
                return send(message)

            return app(scope, receive, observed)

        return serve

    def _log_refusal(self, scope: Scope, head: Message) -> None:
        status, headers = head["status"], {name.lower() for name, _ in head["headers"]}
        header = b"host" if status == _HOST else b"origin"
        value = next((value[:MAX_NAME_LENGTH] for name, value in scope["headers"] if name == header), b"")
        if not headers.isdisjoint(_OTHER_CAUSES) or (status == _ORIGIN and (not value or self.allows(value))):
            return
        if (status, value) in self._logged or len(self._logged) >= MAX_LOGGED_NAMES:
            return
        self._logged.add((status, value))
        logger.warning(
            "%s %.*r is not allowed, and was refused with %d; if it is one of yours, name it in %s",
            header.decode().capitalize(),
            MAX_NAME_LENGTH,
            value.decode("latin-1"),
            status,
            _SETTINGS[status],
        )

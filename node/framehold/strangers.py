"""Says by which setting a host or an origin was refused: the refusal itself, the SDK's or FastMCP's, names none.

The law: bounded. What is refused is whatever strangers send, so each name is told once, cut short, and only the first
few of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from starlette.types import Message, Receive, Scope, Send

from framehold_router.internal import NOT_HELD

from .cors import Browsers

logger = logging.getLogger(__name__)

_TOLD = 32
"""Names in a process's life that are told."""
_HOST, _ORIGIN = 421, 403


class Strangers:
    """`app`, with a line in the log for each host and origin that it refuses."""

    def __init__(self, app: Browsers) -> None:
        self._app = app
        self._told: set[tuple[int, bytes]] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve a request, with an ear on its response."""

        def heard(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start" and message["status"] in (_HOST, _ORIGIN):
                self._refused(scope, message)
            return send(message)

        return self._app(scope, receive, heard)

    def _refused(self, scope: Scope, head: Message) -> None:
        status, because = head["status"], {name.lower() for name, _ in head.get("headers", ())}
        wanted = b"host" if status == _HOST else b"origin"
        said = next((value[:_LONGEST] for name, value in scope["headers"] if name == wanted), b"")
        if not because.isdisjoint(_OTHERWISE) or (status == _ORIGIN and (not said or self._app.allows(said))):
            return
        if (status, said) in self._told or len(self._told) >= _TOLD:
            return
        self._told.add((status, said))
        logger.warning(
            "%s %.*r is not allowed, and was refused with %d; if it is one of yours, name it in %s, which replaces the "
            "local names that are allowed by default",
            wanted.decode().capitalize(),
            _LONGEST,
            said.decode("latin-1"),
            status,
            "FRAMEHOLD_ALLOWED_HOSTS" if status == _HOST else "FRAMEHOLD_ALLOWED_ORIGINS",
        )


_LONGEST = 100
"""Characters of a name that are kept and told."""
_OTHERWISE = {b"www-authenticate", NOT_HELD}
"""Headers of a response that was refused for another reason: a scope that is missing, a call that is elsewhere."""

"""A low-level `Server` of the SDK: one function for all tools, one for all prompts, one for all resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.lowlevel.server import lifespan as no_lifespan
from mcp.server.request_state import RequestStateBoundary
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.methods import INPUT_REQUIRED_METHODS
from starlette.applications import Starlette

from ..code.codes import Registered
from ..config import Settings
from ..sdk.marks import marks_of
from ..sdk.plan import PlanOf, Plans
from ..sdk.seam import Seam
from ..sdk.wrapped_handler import Handler
from .host import Registration
from .sdk_app import sdk_app
from .seam_builder import SeamBuilder


class LowLevelHost:
    """A low-level server as a `Host`."""

    knows_each_function = False

    def __init__(self, server: Server[Any]) -> None:
        self.lowlevel = server

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        """The function that serves all requests of a method that may ask; None if none is registered."""
        entry = self.lowlevel.get_request_handler(method) if method in INPUT_REQUIRED_METHODS else None
        if entry is None:
            return None
        return entry.handler.handler if isinstance(entry.handler, Seam) else entry.handler

    def registered(self, method: str, params: Mapping[str, Any]) -> Registered | None:
        """See `Host.registered`."""
        fn = self.function(method, params)
        return None if fn is None else _code(method, fn)

    def kept(self, method: str, params: Mapping[str, Any], registered: Registered) -> Handler | None:
        """See `Host.kept`."""
        handler: Handler = registered.function
        return handler

    def may_ask(self, fn: Any) -> bool:
        """True: the SDK takes async handlers only."""
        return True

    def takes_context(self, fn: Any) -> bool:
        """True: each handler gets the context of its request."""
        return True

    def asking(self) -> Iterator[tuple[str, Any]]:
        """The registered functions, by method."""
        return ((_named(method), fn) for method, fn in self._functions())

    def _functions(self) -> Iterator[tuple[str, Any]]:
        found = ((method, self.function(method, {})) for method in sorted(INPUT_REQUIRED_METHODS))
        return ((method, fn) for method, fn in found if fn is not None)

    def registrations(self) -> Iterator[Registration]:
        """See `Host.registrations`."""
        return (Registration(_named(method), _code(method, fn)) for method, fn in self._functions())

    def names(self) -> None:
        """None: one function serves all tools or all prompts, and only it knows their names."""

    async def listed(self, kind: str) -> None:
        """None: only the author's function can list."""

    def opens_resources(self, lifespan: Any) -> bool:
        """Whether it is another lifespan than the SDK's own, which does nothing."""
        return lifespan is not no_lifespan

    def http_app(self, settings: Settings, path: str) -> tuple[Starlette, TransportSecuritySettings]:
        """See `Host.http_app`."""
        return sdk_app(self.lowlevel, settings, path)

    def plan_of(self, boundary: RequestStateBoundary, strategy: str) -> PlanOf:
        """See `Host.plan_of`."""
        return Plans(None, self.lowlevel, boundary, strategy).current

    def wrap(self, seams: SeamBuilder) -> None:
        """See `Host.wrap`."""
        seams.wrap_handlers(self.lowlevel)


def _named(method: str) -> str:
    return f'handler of "{method}"'


def _code(method: str, fn: Any) -> Registered:
    return Registered(fn, {}, method, "", marks_of(fn).reentrant)

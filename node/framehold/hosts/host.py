"""The interface to an author's server, whatever kind of server it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from ..code.codes import Registered
from ..config import Settings
from ..sdk.plan import PlanOf
from ..sdk.wrapped_handler import Handler
from .seam_builder import SeamBuilder


class Registration(NamedTuple):
    """A handler of a server. `name` is that for messages, as in `tool "book"`. `obstacle` says why its code is not
    kept, whatever it consists of; empty if it may be."""

    name: str
    code: Registered
    obstacle: str = ""


class Host(Protocol):
    """A server of one of three kinds: `MCPServerHost`, `LowLevelHost` or `FastMCPHost`. `host_choice.host_of` decides
    which.

    A look-up never enters, creates or refuses anything, and caches nothing: handlers may be registered and removed at
    any time. It returns None for an unknown handler; the SDK refuses the request later.
    """

    @property
    def lowlevel(self) -> Server[Any]:
        """The SDK's low-level server, which receives the requests."""
        ...

    @property
    def knows_each_function(self) -> bool:
        """Whether this host knows a function for each tool, prompt and resource. False: it knows one function for each
        method."""
        ...

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        """The author's function that serves a request; None if there is none. `params` are the raw parameters."""
        ...

    def registered(self, method: str, params: Mapping[str, Any]) -> Registered | None:
        """The author's function that serves a request, with what the server needs to serve it; None if there is
        none."""
        ...

    def kept(self, method: str, params: Mapping[str, Any], registered: Registered) -> Handler | None:
        """A handler that serves a request by a function that was registered in an earlier process. None if something
        else than this host stands before the functions of the server."""
        ...

    def may_ask(self, fn: Any) -> bool:
        """Whether `fn`, a function of this server, may ask its client."""
        ...

    def takes_context(self, fn: Any) -> bool:
        """Whether `fn` gets the object by which functions usually ask; true where this is not known."""
        ...

    def asking(self) -> Iterator[tuple[str, Any]]:
        """The functions that may ask, each with its name in messages, as in `tool "book"`."""
        ...

    def registrations(self) -> Iterator[Registration]:
        """The functions that `asking` names, as they are registered."""
        ...

    def names(self) -> Iterator[str] | None:
        """The names of all tools and prompts; None if only the author's function knows them."""
        ...

    async def listed(self, kind: str) -> list[str] | None:
        """The names that the server lists of a kind: "tool", "prompt" or "resource". For resources they are addresses
        and templates of addresses. None if the host can't know them."""
        ...

    def opens_resources(self, lifespan: Any) -> bool:
        """Whether the author's lifespan of this server may open something that handlers use. `lifespan` is that of the
        low-level server, before it was attached."""
        ...

    def http_app(self, settings: Settings, path: str) -> tuple[Starlette, TransportSecuritySettings]:
        """The server's own ASGI app, with its endpoint at `path`, and the hosts and origins that Framehold's entry has
        to check."""
        ...

    def plan_of(self, boundary: RequestStateBoundary, strategy: str) -> PlanOf:
        """What gives the plans of this server's handlers. `boundary` seals its states, `strategy` is the setting
        STRATEGY. The server was wrapped before."""
        ...

    def wrap(self, seams: SeamBuilder) -> None:
        """Put a seam before each handler that may ask, unless one stands there.

        Raises:
            ConfigError: the server can't be served with these settings, or its library has an unsupported release.
        """
        ...

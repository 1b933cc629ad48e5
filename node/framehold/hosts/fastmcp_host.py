"""A FastMCP server: a function for each tool, prompt and resource, as far as the walk of its providers finds them.

This file is imported only for an author who has such a server: fastmcp is optional.

Private parts of FastMCP that are touched here (a missing part gives a clear error; a test names the release):

- `FastMCP._mcp_server`: the SDK's server, which holds the boundary and the lifespan
- `FastMCP._lifespan`, `_extensions`: whether something may be opened for handlers
- `FastMCP._dispatch_component_middleware`: runs the middleware chain; it is replaced on the served server only
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator, Mapping
from types import MethodType
from typing import Any

import fastmcp
from fastmcp import FastMCP
from fastmcp.prompts.base import Prompt
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.server.server import default_lifespan
from fastmcp.tools.base import Tool
from fastmcp.utilities.async_utils import is_coroutine_function
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import version_sort_key
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from framehold_core.errors import ConfigError

from ..code.codes import Codes, Registered
from ..config import Settings
from ..sdk.plan import PlanOf
from ..sdk.wrapped_handler import Handler
from .fastmcp import FastMCPRounds, VersionBinding, let_contexts_ask
from .fastmcp_code import MOUNTED, component_handler, find_kept_first, obstacle
from .fastmcp_code import registered as code_of
from .fastmcp_components import author_of, called, moved, named, registered, schema_of, served, serving, understood
from .fastmcp_plans import FastMCPPlans
from .host import Registration
from .sdk_app import accepted
from .seam_builder import SeamBuilder

_PROTECTION = "http_host_origin_protection"
_GUARD = {_PROTECTION, "http_allowed_hosts", "http_allowed_origins"}
"""The settings of FastMCP's guard."""


class FastMCPHost:
    """A FastMCP server as a `Host`. When a host is made, FastMCP's contexts become able to ask.

    Raises:
        ConfigError: this release of fastmcp is not supported.
    """

    knows_each_function = True

    def __init__(self, server: FastMCP[Any]) -> None:
        inner = getattr(server, "_mcp_server", None)
        if not isinstance(inner, Server):
            raise moved("the SDK's server")
        let_contexts_ask()
        self._server = server
        self.lowlevel: Server[Any] = inner

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        """The function behind a request, as far as the walk finds it. It is used for rehearsals; a node uses
        `fastmcp_components.found`."""
        return author_of(self._component(method, params))

    def _component(self, method: str, params: Mapping[str, Any]) -> FastMCPComponent | None:
        found = serving(self._server, method, _name(method, params))
        return max(found, key=version_sort_key) if found else None

    def registered(self, method: str, params: Mapping[str, Any]) -> Registered | None:
        """See `Host.registered`. It is used for rehearsals; a node uses `fastmcp_code.component_handler`."""
        component = self._component(method, params)
        fn = author_of(component)
        return None if fn is None else code_of(component, fn)

    def kept(self, method: str, params: Mapping[str, Any], registered: Registered) -> Handler | None:
        """See `Host.kept`. The handler is FastMCP's own, of a server like this one whose look-ups find the kept
        component first. It is used for rehearsals; a node uses `fastmcp_code.component_handler`."""
        entry = self.lowlevel.get_request_handler(method)
        handler = None if entry is None else entry.handler
        if not isinstance(handler, MethodType) or handler.__self__ is not self._server:
            return None
        server = copy.copy(self._server)
        find_kept_first(server)
        enter: Handler = MethodType(handler.__func__, server)
        return component_handler(server, _name(method, params), None, None, enter, Codes()).kept(registered)

    def may_ask(self, fn: Any) -> bool:
        """Whether `fn` is async by FastMCP's rule: a function that is not async has no await that could suspend."""
        return is_coroutine_function(fn)

    def takes_context(self, fn: Any) -> bool:
        """True: a function may call `get_context()`, and so may each of its dependencies."""
        return True

    def asking(self) -> Iterator[tuple[str, Any]]:
        """The async functions, each with the name of its tool, prompt or resource."""
        for component in served(self._server):
            fn = author_of(component)
            if fn is not None and is_coroutine_function(fn):
                yield called(component), fn

    def registrations(self) -> Iterator[Registration]:
        """See `Host.registrations`. The code is not kept of components that FastMCP can't make again, or that a mounted
        server has."""
        own = {called(item) for item in served(self._server, with_mounted=False)}
        for component in served(self._server):
            fn, name = author_of(component), called(component)
            if fn is not None and is_coroutine_function(fn):
                why = obstacle(component) if name in own else MOUNTED
                yield Registration(name, code_of(component, fn), why)

    def names(self) -> Iterator[str]:
        """The names of all tools and prompts that the walk finds."""
        found = registered(self._server)
        return (named(item, spaces) for item, spaces in found if isinstance(item, Tool | Prompt))

    async def listed(self, kind: str) -> None:
        """None: the list depends on the user who requests it."""

    def opens_resources(self, lifespan: Any) -> bool:
        """Whether the server has a lifespan of its author, or a part with one: an extension or a provider."""
        server = self._server
        own = all(item is server.local_provider or type(item) is LocalProvider for item in server.providers)
        return server._lifespan is not default_lifespan or not own or bool(server._extensions)

    def http_app(self, settings: Settings, path: str) -> tuple[Starlette, TransportSecuritySettings]:
        """FastMCP's own app, and the hosts and origins that `/mcp` accepts.

        FastMCP's guard stands before all routes of its app, and lets more pass: local names always, and any name where
        the server listens beyond its machine. So Framehold checks after it what it checks for an MCPServer, unless the
        author has set FastMCP's guard and no setting of Framehold names hosts or origins.
        """
        security = accepted(settings)
        guard: dict[str, Any] = {"host_origin_protection": "auto"}
        if settings.allowed_hosts or settings.allowed_origins:
            hosts, origins = list(settings.allowed_hosts), list(settings.allowed_origins)
            guard = {"host_origin_protection": True, "allowed_hosts": hosts, "allowed_origins": origins}
        elif own := _GUARD & fastmcp.settings.model_fields_set:
            security.enable_dns_rebinding_protection = False
            # A browser lets a page read what it gets only by CORS headers, which go by this list.
            security.allowed_origins += fastmcp.settings.http_allowed_origins or []
            guard = {} if _PROTECTION in own else guard
        return self._server.http_app(path=path, **guard), security

    def plan_of(self, boundary: RequestStateBoundary, strategy: str) -> PlanOf:
        """See `Host.plan_of`."""
        rounds = self._server._dispatch_component_middleware
        assert isinstance(rounds, FastMCPRounds), "it was wrapped"
        return FastMCPPlans(self._server, rounds.seams).current

    def wrap(self, seams: SeamBuilder) -> None:
        """Put the seam into the server's middleware chain, once.

        Raises:
            ConfigError: this release of fastmcp is not supported, or other processes could not open the server's
                tokens.
        """
        server = self._server
        chain = getattr(server, "_dispatch_component_middleware", None)
        if isinstance(chain, FastMCPRounds):
            return
        if not callable(chain):
            raise moved("its middleware chain")
        if seams.settings.keys and re.fullmatch(rf"{type(server).__name__}-[0-9a-f]{{4}}", server.name):
            raise ConfigError(
                f"this FastMCP server has no name, so each process makes one up ({server.name}), and no other could "
                'open its tokens, in spite of FRAMEHOLD_KEYS; nothing was started; write FastMCP("name")'
            )
        find_kept_first(server)
        server._dispatch_component_middleware = FastMCPRounds(server, chain, seams)  # type: ignore[method-assign]
        if not isinstance(seams.security.bind_principal, VersionBinding):
            seams.security.bind_principal = VersionBinding(seams.security.bind_principal)
        if self.lowlevel.get_tool_input_schema is None and understood(server):
            # Without this function the SDK lists all tools before each call with arguments, to check headers against
            # the tool's schema. FastMCP 4.2 has one of its own.
            self.lowlevel.get_tool_input_schema = functools.partial(_schema, server, self.lowlevel)


def _name(method: str, params: Mapping[str, Any]) -> str:
    return str(params.get("uri" if method == "resources/read" else "name"))


def _schema(server: FastMCP[Any], inner: Server[Any], name: str) -> dict[str, Any] | None:
    """The input schema of a tool. If the server has a provider that the walk can't read, this look-up removes itself,
    and the SDK lists all tools again."""
    if understood(server):
        return schema_of(server, name)
    inner.get_tool_input_schema = None
    return None

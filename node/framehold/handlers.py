"""Which function of its author's stands behind a request, and what is promised of it.

The law: a look-up never enters, creates or refuses anything. What isn't known has no marks, and the SDK says so when
its turn comes. Nothing is remembered here, so that handlers may be registered and removed at any time.

Of the SDK's private parts these are touched, each with a clear error where it isn't found; a test names them:

- `MCPServer._tool_manager`, `_prompt_manager`, `_resource_manager`: who knows the functions
- `ResourceManager._resources`: the resources by address; what is public makes a list of all of them
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import PromptManager
from mcp.server.mcpserver.resources import Resource, ResourceManager
from mcp.server.mcpserver.tools import ToolManager
from mcp_types.methods import INPUT_REQUIRED_METHODS
from pydantic import BaseModel

from framehold_core.errors import ConfigError

from .marks import Marks, marks_of
from .seam import Seam

_UNMARKED = Marks()


class Handlers:
    """The functions behind a server's tools, prompts and resources."""

    def __init__(self, server: Any) -> None:
        self._source: _Source = _source(server)

    def learn(self, server: Any) -> None:
        """Be told of the same server again. An MCPServer knows each function, its low-level server only one a
        method."""
        if isinstance(server, MCPServer):
            self._source = _Managed(server)

    def marks(self, method: str, params: Mapping[str, Any]) -> Marks:
        """What is promised of the handler of a request; nothing where there is none. `params` are the raw ones."""
        fn = self._source.function(method, params)
        return _UNMARKED if fn is None else marks_of(fn)

    def asks(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether the handler of a request may ask. What isn't there, or isn't async, can't."""
        fn = self._source.function(method, params)
        return fn is not None and self._source.may_ask(fn)

    def asking(self) -> Iterator[Any]:
        """The functions that may ask."""
        return (fn for _, fn in self._source.asking())

    def unmarked(self) -> tuple[str, ...]:
        """The handlers that may ask and may not be entered twice, by name, as in `tool "book"`, except those that
        are held whatever the setting."""
        return self.replayed_unmarked("replay")

    def replayed_unmarked(self, strategy: Literal["hold", "replay"]) -> tuple[str, ...]:
        """The same of the handlers whose calls are replayed where the setting STRATEGY is `strategy`."""
        found = ((name, marks_of(fn)) for name, fn in self._source.asking())
        return tuple(name for name, marks in found if not marks.reentrant and (marks.strategy or strategy) == "replay")

    def names(self) -> Iterator[str] | None:
        """Those of all tools and prompts; None where nobody can tell them."""
        return self._source.names()

    def count(self, strategy: Literal["hold", "replay"]) -> tuple[int, int, int]:
        """How many handlers may ask, how many of these are re-entrant, and how many are replayed where the setting
        STRATEGY is `strategy`."""
        found = [marks_of(fn) for _, fn in self._source.asking()]
        replayed = sum((marks.strategy or strategy) == "replay" for marks in found)
        return len(found), sum(marks.reentrant for marks in found), replayed


class Behind(NamedTuple):
    """What a seam knows of the handlers behind it."""

    handlers: Handlers
    params_type: type[BaseModel]

    def marks(self, method: str, params: Mapping[str, Any]) -> Marks:
        """See `Handlers.marks`."""
        return self.handlers.marks(method, params)

    def asks(self, method: str, params: Mapping[str, Any]) -> bool:
        """See `Handlers.asks`."""
        return self.handlers.asks(method, params)


class _Source(Protocol):
    def function(self, method: str, params: Mapping[str, Any]) -> Any: ...

    def may_ask(self, fn: Any) -> bool: ...

    def asking(self) -> Iterator[tuple[str, Any]]: ...

    def names(self) -> Iterator[str] | None: ...


def fastmcp_of(server: Any) -> Any:
    """The FastMCP server that this is, or whose low-level server it is; None where it is neither. fastmcp is not
    imported: whoever holds such a server has done that."""
    made = getattr(sys.modules.get("fastmcp.server.server"), "FastMCP", ())
    if isinstance(server, made):
        return server
    outer = getattr(server, "fastmcp", None) if isinstance(server, Server) else None
    return outer if isinstance(outer, made) else None


def _source(server: Any) -> _Source:
    if isinstance(server, MCPServer):
        return _Managed(server)
    if (outer := fastmcp_of(server)) is not None:
        from .fastmcp_components import Components

        return Components(outer)
    return _Registered(server)


class _Managed:
    """An MCPServer: a function for each tool, prompt and resource."""

    def __init__(self, server: MCPServer[Any]) -> None:
        tools, prompts = getattr(server, "_tool_manager", None), getattr(server, "_prompt_manager", None)
        resources = getattr(server, "_resource_manager", None)
        if not isinstance(tools, ToolManager) or not isinstance(prompts, PromptManager):
            raise _moved("tools and prompts")
        addresses = getattr(resources, "_resources", None)
        if not isinstance(resources, ResourceManager) or not isinstance(addresses, dict):
            raise _moved("resources")
        self._tools, self._prompts, self._templates = tools.get_tool, prompts.get_prompt, resources.list_templates
        self._addresses: dict[str, Resource] = addresses
        self._lists = tools.list_tools, prompts.list_prompts

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "resources/read":
            return self._reads(params.get("uri"))
        name = params.get("name")
        if not isinstance(name, str):
            return None
        found = self._tools(name) if method == "tools/call" else self._prompts(name)
        return None if found is None else found.fn

    def _reads(self, uri: Any) -> Any:
        if not isinstance(uri, str):
            return None
        concrete = self._addresses.get(uri)
        if concrete is not None:
            return _reader(concrete)
        for template in self._templates():
            try:
                matches = template.matches(uri) is not None
            except Exception:
                # An address that its template refuses: the SDK looks no further either.
                return None
            if matches:
                return template.fn
        return None

    def may_ask(self, fn: Any) -> bool:
        """Others than async ones have no await that could suspend."""
        return _is_async(fn)

    def asking(self) -> Iterator[tuple[str, Any]]:
        return ((name, fn) for name, fn in self._all() if _is_async(fn))

    def names(self) -> Iterator[str]:
        tools, prompts = self._lists
        yield from (tool.name for tool in tools())
        yield from (prompt.name for prompt in prompts())

    def _all(self) -> Iterator[tuple[str, Any]]:
        tools, prompts = self._lists
        yield from ((f'tool "{tool.name}"', tool.fn) for tool in tools())
        yield from ((f'prompt "{prompt.name}"', prompt.fn) for prompt in prompts())
        yield from ((f'resource "{uri}"', _reader(resource)) for uri, resource in self._addresses.items())
        yield from ((f'resource "{template.uri_template}"', template.fn) for template in self._templates())


class _Registered:
    """A low-level server: one function for all tools, one for all prompts, one for all resources."""

    def __init__(self, server: Server[Any]) -> None:
        self._entry = server.get_request_handler

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        entry = self._entry(method) if method in INPUT_REQUIRED_METHODS else None
        if entry is None:
            return None
        return entry.handler.handler if isinstance(entry.handler, Seam) else entry.handler

    def may_ask(self, fn: Any) -> bool:
        return True

    def asking(self) -> Iterator[tuple[str, Any]]:
        found = ((method, self.function(method, {})) for method in sorted(INPUT_REQUIRED_METHODS))
        yield from ((f'handler of "{method}"', fn) for method, fn in found if fn is not None)

    def names(self) -> None:
        """One function serves them all, and only it knows."""


def _reader(resource: Resource) -> Any:
    """The function that makes a resource's content: the author's, or the method of a class of the author's. The SDK's
    own classes ask nobody."""
    fn = getattr(resource, "fn", None)
    if fn is not None:
        return fn
    return None if type(resource).__module__.startswith("mcp.") else resource.read


def _is_async(fn: Any) -> bool:
    """As the SDK sees it."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or (callable(fn) and inspect.iscoroutinefunction(type(fn).__call__))


def _moved(what: str) -> ConfigError:
    return ConfigError(
        f"this release of mcp keeps its {what} elsewhere; nothing was attached; framehold doctor names one that fits"
    )

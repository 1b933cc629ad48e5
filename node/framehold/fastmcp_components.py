"""What a FastMCP server serves: which function of its author's stands behind a name.

The law: a component is looked up as FastMCP looks it up, with the present round's user, versions and visibility, down
through mounted servers; what it doesn't find has no marks. What has no function of its author's here (a proxy, an
OpenAPI operation) has none either.

Where nothing may be awaited - what is served, for messages and rehearsals; a tool's schema, for the check of headers -
the providers themselves are walked: local and mounted ones, and their namespaces.

Private parts of FastMCP that are touched, beside those that `fastmcp` names:

- `LocalProvider._components`, `_WrappedProvider._inner`, `Namespace._transform_name` and `_transform_uri`: the walk
- `FastMCPProviderTool._server`, `_original_name`, `_original_uri`: what a mounted component stands for
- the wrapper that `without_injected_parameters` makes: the author's function is in its closure, and nowhere else
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any, NamedTuple

from fastmcp import FastMCP
from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.context import Context
from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.server.middleware import AuthMiddleware, MiddlewareContext
from fastmcp.server.providers import fastmcp_provider as mounted
from fastmcp.server.providers.aggregate import AggregateProvider
from fastmcp.server.providers.base import Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.server.providers.wrapped_provider import _WrappedProvider
from fastmcp.server.transforms.namespace import Namespace
from fastmcp.server.transforms.visibility import Visibility
from fastmcp.tools.base import Tool
from fastmcp.tools.tool_transform import TransformedTool
from fastmcp.utilities.async_utils import is_coroutine_function
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec, version_sort_key

from framehold_core.errors import ConfigError

from .marks import marks_of

Spaces = tuple[Namespace, ...]
"""The namespaces that a component is mounted under, innermost first."""


class Components:
    """The functions behind a FastMCP server's tools, prompts and resources (`handlers._Source`)."""

    def __init__(self, server: FastMCP[Any]) -> None:
        self._server = server

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        """The function behind a request, as far as the walk finds it: for rehearsals. A node asks `found`."""
        if method == "resources/read":
            served = [item for item in self._served() if _serves(item, str(params.get("uri")))]
        else:
            kind = Tool if method == "tools/call" else Prompt
            served = [item for item in self._served() if isinstance(item, kind) and item.name == params.get("name")]
        return author_of(max(served, key=version_sort_key)) if served else None

    def _served(self) -> Iterator[FastMCPComponent]:
        """All components, with the names that they are served by."""
        for component, spaces in _registered(self._server):
            field = next((one for one in ("uri_template", "uri") if hasattr(component, one)), "name")
            yield component.model_copy(update={field: _named(component, spaces)})

    def may_ask(self, fn: Any) -> bool:
        """Others than async ones have no await that could suspend."""
        return is_coroutine_function(fn)

    def asking(self) -> Iterator[tuple[str, Any]]:
        """The functions that may ask, by the names of what they make."""
        for component in self._served():
            fn = author_of(component)
            if fn is not None and is_coroutine_function(fn):
                yield _called(component), fn

    def names(self) -> Iterator[str]:
        """Those of all tools and prompts that the walk finds."""
        found = _registered(self._server)
        return (_named(item, spaces) for item, spaces in found if isinstance(item, Tool | Prompt))


class Passed(NamedTuple):
    """A mounted server on the way to a component, and what it is asked for."""

    server: FastMCP[Any]
    name: str
    version: VersionSpec | None


async def found(
    server: Any, method: str, name: str, version: VersionSpec | None, passed: list[Passed]
) -> FastMCPComponent | None:
    """The component that FastMCP would run for `name`, on the server that it is registered on. `passed` gets the
    mounted servers on the way."""
    if method == "resources/read":
        return await _resource(server, name, version, passed)
    component = _behind(await (server.get_tool if method == "tools/call" else server.get_prompt)(name, version))
    known: FastMCPComponent | None = component
    while isinstance(component, TransformedTool):
        component = component.parent_tool
    if isinstance(component, mounted.FastMCPProviderTool | mounted.FastMCPProviderPrompt):
        passed.append(Passed(component._server, str(component._original_name), _exactly(component)))
        inner = await found(component._server, method, str(component._original_name), _exactly(component), passed)
        return inner if known is component or inner is None else known
    return known


async def _resource(
    server: Any, uri: str, version: VersionSpec | None, passed: list[Passed]
) -> FastMCPComponent | None:
    component = await server.get_resource(uri, version) or await server.get_resource_template(uri, version)
    inner: Any = component
    if isinstance(component, mounted.FastMCPProviderResourceTemplate):
        inner = await component.create_resource(uri, component.matches(uri) or {})
    if isinstance(inner, mounted.FastMCPProviderResource):
        passed.append(Passed(inner._server, str(inner._original_uri), _exactly(component)))
        return await _resource(*passed[-1], passed)
    known: FastMCPComponent | None = component
    return known


async def authorized(context: MiddlewareContext[Any], field: str, passed: list[Passed]) -> None:
    """Ask those who guard mounted servers again: in a frame they are asked when it is entered, and a user's rights may
    be others since. `field` of the parameters names the component.

    Raises:
        AuthorizationError: one of them says no.
    """
    for server, name, version in passed:
        guards = [item for item in server.middleware if isinstance(item, AuthMiddleware)]
        if not guards:
            continue
        meta = None if version is None else {"fastmcp": {"version": version.eq}}
        message = context.message.model_copy(update={field: name, "meta": meta})
        async with Context(fastmcp=server) as own:
            for guard in guards:
                await guard(context.copy(message=message, fastmcp_context=own), _nothing)


async def _nothing(context: MiddlewareContext[Any]) -> None:
    """What stands behind a guard that is only asked."""


def _exactly(component: FastMCPComponent) -> VersionSpec | None:
    return VersionSpec(eq=component.version) if component.version else None


def _behind(component: FastMCPComponent | None) -> FastMCPComponent | None:
    """What a tool stands for that only shows another one otherwise."""
    while isinstance(component, TransformedTool) and component.fn is component.forwarding_fn:
        component = component.parent_tool
    return component


def author_of(component: FastMCPComponent | None) -> Any:
    """The function that its author wrote for it, None where there is none.

    A function that stands before another tool is entered again with that one: of the two it is one that isn't
    re-entrant, if any.
    """
    component = _behind(component)
    fn = _written(getattr(component, "fn", None))
    if isinstance(component, TransformedTool) and marks_of(fn).reentrant:
        inner = author_of(component.parent_tool)
        return fn if inner is not None and marks_of(inner).reentrant else inner
    return fn


def _written(fn: Any) -> Any:
    # What pydantic's validation wraps, and what FastMCP's injection of dependencies does.
    while (inner := getattr(fn, "raw_function", None) or _injected(fn)) is not None:
        fn = inner
    return fn


def _wrapper() -> CodeType:
    """The code of the function that injects dependencies into another one."""
    maker: Any = getattr(without_injected_parameters, "__wrapped__", without_injected_parameters)
    for constant in maker.__code__.co_consts:
        if isinstance(constant, CodeType) and constant.co_name == "wrapper" and "fn" in constant.co_freevars:
            return constant
    raise ConfigError(
        "this release of fastmcp injects dependencies otherwise, so marks would not be found; nothing was attached; "
        "use fastmcp 4.1"
    )


_WRAPPER = _wrapper()


def _injected(fn: Any) -> Any:
    if getattr(fn, "__code__", None) is not _WRAPPER:
        return None
    return fn.__closure__[_WRAPPER.co_freevars.index("fn")].cell_contents


# ---- the walk


def _registered(provider: Provider, outer: Spaces = ()) -> Iterator[tuple[FastMCPComponent, Spaces]]:
    """Each component that is registered here or on a mounted server."""
    spaces = (*(item for item in provider.transforms if isinstance(item, Namespace)), *outer)
    if isinstance(provider, LocalProvider):
        yield from ((component, spaces) for component in provider._components.values())
    for inner in _inside(provider):
        yield from _registered(inner, spaces)


def _inside(provider: Provider) -> list[Provider]:
    if isinstance(provider, _WrappedProvider):
        return [provider._inner]
    if isinstance(provider, FastMCPProvider):
        return [provider.server]
    return provider.providers if isinstance(provider, AggregateProvider) else []


def understood(provider: Provider) -> bool:
    """Whether the walk finds all that is served, under the names that it is served by."""
    plain = all(isinstance(item, Namespace | Visibility) for item in provider.transforms)
    inner = _inside(provider)
    return plain and (bool(inner) or isinstance(provider, LocalProvider)) and all(map(understood, inner))


def schema_of(server: FastMCP[Any], name: str) -> dict[str, Any] | None:
    """The input schema of the tool that is called `name`, of its highest version; None where there is none."""
    tools = [item for item, spaces in _registered(server) if isinstance(item, Tool) and _named(item, spaces) == name]
    return max(tools, key=version_sort_key).parameters if tools else None


def _serves(component: FastMCPComponent, uri: str) -> bool:
    if isinstance(component, ResourceTemplate):
        return component.matches(uri) is not None
    return isinstance(component, Resource) and str(component.uri) == uri


def _named(component: FastMCPComponent, spaces: Spaces) -> str:
    """What a component is called by clients: its name, or its address."""
    uri = getattr(component, "uri_template", None) or getattr(component, "uri", None)
    if uri is None:
        return functools.reduce(lambda name, space: space._transform_name(name), spaces, component.name)
    return functools.reduce(lambda known, space: space._transform_uri(known), spaces, str(uri))


def _called(component: FastMCPComponent) -> str:
    if isinstance(component, Tool | Prompt):
        return f'{"tool" if isinstance(component, Tool) else "prompt"} "{component.name}"'
    return f'resource "{_named(component, ())}"'

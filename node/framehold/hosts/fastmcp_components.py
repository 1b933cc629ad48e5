"""The components of a FastMCP server, and the author's function behind each.

The law: a component is looked up as FastMCP looks it up, with the present round's user, versions and visibility, and
through mounted servers. A component that is not found has no marks. A component without a function of an author (a
proxy, an OpenAPI operation) has no marks either.

Some look-ups may not await: the names of components for messages and rehearsals, and the schema of a tool for the check
of headers. They walk the providers instead: local and mounted ones, and their namespaces.

Private parts of FastMCP that are touched, besides those that `fastmcp` names:

- `LocalProvider._components`, `_WrappedProvider._inner`, `Namespace._transform_name` and `_transform_uri`: the walk
- `FastMCPProviderTool._server`, `_original_name`, `_original_uri`: the component behind a mounted one
- the wrapper that `without_injected_parameters` makes: only its closure has the author's function
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
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
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec, version_sort_key

from framehold_core.errors import ConfigError

from ..sdk.marks import marks_of

Spaces = tuple[Namespace, ...]
"""The namespaces that a component is mounted under, innermost first."""


class MountedServer(NamedTuple):
    """A mounted server on the way to a component, and the component's name and version there."""

    server: FastMCP[Any]
    name: str
    version: VersionSpec | None


class FoundComponent(NamedTuple):
    """A component that clients can use. `served` is what FastMCP runs, `component` what its author registered, maybe on
    a mounted server."""

    served: FastMCPComponent
    component: FastMCPComponent


async def found(
    server: Any, method: str, name: str, version: VersionSpec | None, on_the_way: list[MountedServer]
) -> FoundComponent | None:
    """The component that FastMCP would run for `name`; None if there is none. The mounted servers on the way are added
    to `on_the_way`."""
    if method == "resources/read":
        return await _resource(server, name, version, on_the_way)
    served = await (server.get_tool if method == "tools/call" else server.get_prompt)(name, version)
    known = component = _behind(served)
    while isinstance(component, TransformedTool):
        component = component.parent_tool
    if isinstance(component, mounted.FastMCPProviderTool | mounted.FastMCPProviderPrompt):
        on_the_way.append(MountedServer(component._server, str(component._original_name), _exactly(component)))
        inner = await found(component._server, method, str(component._original_name), _exactly(component), on_the_way)
        if inner is None or known is component:
            known = None if inner is None else inner.component
    return None if served is None or known is None else FoundComponent(served, known)


async def _resource(
    server: Any, uri: str, version: VersionSpec | None, on_the_way: list[MountedServer]
) -> FoundComponent | None:
    component = await server.get_resource(uri, version) or await server.get_resource_template(uri, version)
    inner: Any = component
    if isinstance(component, mounted.FastMCPProviderResourceTemplate):
        inner = await component.create_resource(uri, component.matches(uri) or {})
    if isinstance(inner, mounted.FastMCPProviderResource):
        on_the_way.append(MountedServer(inner._server, str(inner._original_uri), _exactly(component)))
        behind = await _resource(*on_the_way[-1], on_the_way)
        return None if behind is None else FoundComponent(component, behind.component)
    return None if component is None else FoundComponent(component, component)


async def authorized(context: MiddlewareContext[Any], field: str, on_the_way: list[MountedServer]) -> None:
    """Call the guards of mounted servers again. In a frame they were called when it was entered, and the user's rights
    may have changed since. `field` of the parameters names the component.

    Raises:
        AuthorizationError: a guard refused.
    """
    for server, name, version in on_the_way:
        guards = [item for item in server.middleware if isinstance(item, AuthMiddleware)]
        if not guards:
            continue
        meta = None if version is None else {"fastmcp": {"version": version.eq}}
        message = context.message.model_copy(update={field: name, "meta": meta})
        async with Context(fastmcp=server) as own:
            for guard in guards:
                await guard(context.copy(message=message, fastmcp_context=own), _nothing)


async def _nothing(context: MiddlewareContext[Any]) -> None:
    """The next step behind a guard that is called for its decision only."""


def _exactly(component: FastMCPComponent) -> VersionSpec | None:
    """The version of a component as a specification; None if it has none."""
    return VersionSpec(eq=component.version) if component.version else None


def _behind(component: FastMCPComponent | None) -> FastMCPComponent | None:
    """The tool behind tools that only present it otherwise, without a function of their own."""
    while isinstance(component, TransformedTool) and component.fn is component.forwarding_fn:
        component = component.parent_tool
    return component


def author_of(component: FastMCPComponent | None) -> Any:
    """The author's function for a component; None if there is none.

    A function that transforms another tool is entered again together with that tool. If one of the two functions is not
    re-entrant, the result is that one.
    """
    component = _behind(component)
    fn = _written(getattr(component, "fn", None))
    if isinstance(component, TransformedTool) and marks_of(fn).reentrant:
        inner = author_of(component.parent_tool)
        return fn if inner is not None and marks_of(inner).reentrant else inner
    return fn


def _written(fn: Any) -> Any:
    # Below the wrappers of pydantic's validation and of FastMCP's injection of dependencies.
    while (inner := getattr(fn, "raw_function", None) or _injected(fn)) is not None:
        fn = inner
    return fn


_SUPPORTED = "fastmcp 4.1 or 4.2"


def moved(what: str) -> ConfigError:
    """The error for a private part of fastmcp that is not where it was. `what` names the part."""
    return ConfigError(f"this release of fastmcp keeps {what} elsewhere; nothing was attached; use {_SUPPORTED}")


def _wrapper() -> CodeType:
    """The code of the wrapper that injects dependencies into a function. Raises ConfigError."""
    maker: Any = getattr(without_injected_parameters, "__wrapped__", without_injected_parameters)
    for constant in maker.__code__.co_consts:
        if isinstance(constant, CodeType) and constant.co_name == "wrapper" and "fn" in constant.co_freevars:
            return constant
    raise ConfigError(
        "this release of fastmcp injects dependencies otherwise, so marks would not be found; nothing was attached; "
        f"use {_SUPPORTED}"
    )


_WRAPPER = _wrapper()


def _injected(fn: Any) -> Any:
    if getattr(fn, "__code__", None) is not _WRAPPER:
        return None
    return fn.__closure__[_WRAPPER.co_freevars.index("fn")].cell_contents


# ---- the walk


def registered(
    provider: Provider, outer: Spaces = (), *, with_mounted: bool = True
) -> Iterator[tuple[FastMCPComponent, Spaces]]:
    """Each component that is registered on this provider, with its namespaces; also those of mounted servers if
    `with_mounted`."""
    spaces = (*(item for item in provider.transforms if isinstance(item, Namespace)), *outer)
    if isinstance(provider, LocalProvider):
        yield from ((component, spaces) for component in provider._components.values())
    if isinstance(provider, FastMCPProvider) and not with_mounted:
        return
    for inner in _inside(provider):
        yield from registered(inner, spaces, with_mounted=with_mounted)


def _inside(provider: Provider) -> list[Provider]:
    if isinstance(provider, _WrappedProvider):
        return [provider._inner]
    if isinstance(provider, FastMCPProvider):
        return [provider.server]
    return provider.providers if isinstance(provider, AggregateProvider) else []


def understood(provider: Provider) -> bool:
    """Whether the walk finds all components of a provider, under the names that clients use."""
    plain = all(isinstance(item, Namespace | Visibility) for item in provider.transforms)
    inner = _inside(provider)
    return plain and (bool(inner) or isinstance(provider, LocalProvider)) and all(map(understood, inner))


def schema_of(server: FastMCP[Any], name: str) -> dict[str, Any] | None:
    """The input schema of the highest version of the tool `name`; None if there is no such tool."""
    tools = [item for item, spaces in registered(server) if isinstance(item, Tool) and named(item, spaces) == name]
    return max(tools, key=version_sort_key).parameters if tools else None


def served(server: FastMCP[Any], *, with_mounted: bool = True) -> Iterator[FastMCPComponent]:
    """Each component that the walk finds, with the name that clients use, whoever may use it; without those of mounted
    servers unless `with_mounted`."""
    for component, spaces in registered(server, with_mounted=with_mounted):
        field = next((one for one in ("uri_template", "uri") if hasattr(component, one)), "name")
        yield component.model_copy(update={field: named(component, spaces)})


def serving(server: FastMCP[Any], method: str, name: str) -> list[FastMCPComponent]:
    """The components that serve a name or an address, in all versions, as far as the walk finds them."""
    if method == "resources/read":
        return [item for item in served(server) if serves(item, name)]
    kind = Tool if method == "tools/call" else Prompt
    return [item for item in served(server) if isinstance(item, kind) and item.name == name]


def serves(component: FastMCPComponent, uri: str) -> bool:
    """Whether a component is a resource or a template that serves `uri`."""
    if isinstance(component, ResourceTemplate):
        return component.matches(uri) is not None
    return isinstance(component, Resource) and str(component.uri) == uri


def named(component: FastMCPComponent, spaces: Spaces) -> str:
    """The name of a component for clients: its name, or the address of a resource."""
    uri = getattr(component, "uri_template", None) or getattr(component, "uri", None)
    if uri is None:
        return functools.reduce(lambda name, space: space._transform_name(name), spaces, component.name)
    return functools.reduce(lambda known, space: space._transform_uri(known), spaces, str(uri))


def method_of(component: FastMCPComponent) -> str:
    """The method by which clients use a component."""
    if isinstance(component, Tool):
        return "tools/call"
    return "prompts/get" if isinstance(component, Prompt) else "resources/read"


def called(component: FastMCPComponent) -> str:
    """The name of a component in messages, as in `tool "book"`."""
    if isinstance(component, Tool | Prompt):
        return f'{"tool" if isinstance(component, Tool) else "prompt"} "{component.name}"'
    return f'resource "{named(component, ())}"'

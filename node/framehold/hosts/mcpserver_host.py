"""An `MCPServer` of the SDK: a function for each tool, prompt and resource.

Private parts of the SDK that are touched here (a missing part gives a clear error; a test names them):

- `MCPServer._lowlevel_server`: the server whose handlers are wrapped
- `MCPServer._tool_manager`, `_prompt_manager`, `_resource_manager`: they keep the functions
- `ResourceManager._resources`: the resources by address; the public method makes a list of all of them
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import MethodType
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.lowlevel.server import lifespan as no_lifespan
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt, PromptManager
from mcp.server.mcpserver.resources import FunctionResource, Resource, ResourceManager, ResourceTemplate
from mcp.server.mcpserver.tools import Tool, ToolManager
from mcp.server.mcpserver.utilities.context_injection import find_context_parameter
from mcp.server.request_state import RequestStateBoundary
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from framehold_core.errors import ConfigError

from ..code.codes import Registered
from ..config import Settings
from ..frame.async_functions import is_async
from ..sdk.marks import marks_of
from ..sdk.plan import PlanOf, Plans
from ..sdk.seam import Seam
from ..sdk.wrapped_handler import Handler
from .host import Registration
from .sdk_app import sdk_app
from .seam_builder import SeamBuilder


class MCPServerHost:
    """An MCPServer as a `Host`. Its low-level server serves the requests.

    Raises:
        ConfigError: this release of mcp keeps its functions elsewhere.
    """

    knows_each_function = True

    def __init__(self, server: MCPServer[Any]) -> None:
        self._server = server
        self.lowlevel: Server[Any] = server._lowlevel_server
        tools, prompts = getattr(server, "_tool_manager", None), getattr(server, "_prompt_manager", None)
        resources = getattr(server, "_resource_manager", None)
        if not isinstance(tools, ToolManager) or not isinstance(prompts, PromptManager):
            raise _moved("tools and prompts")
        addresses = getattr(resources, "_resources", None)
        if not isinstance(resources, ResourceManager) or not isinstance(addresses, dict):
            raise _moved("resources")
        self._tools, self._prompts, self._resources = tools, prompts, resources
        self._addresses: dict[str, Resource] = addresses

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        """The function that the SDK would enter for a request: by name, or by the address of a resource."""
        if method == "resources/read":
            return self._resource_function(params.get("uri"))
        name = params.get("name")
        if not isinstance(name, str):
            return None
        found = self._tools.get_tool(name) if method == "tools/call" else self._prompts.get_prompt(name)
        return None if found is None else found.fn

    def _resource_function(self, uri: Any) -> Any:
        if not isinstance(uri, str):
            return None
        concrete = self._addresses.get(uri)
        if concrete is not None:
            return _read_function(concrete)
        template = self._template(uri)
        return None if template is None else template.fn

    def _template(self, uri: Any) -> ResourceTemplate | None:
        for template in self._resources.list_templates() if isinstance(uri, str) else ():
            try:
                matches = template.matches(uri) is not None
            except Exception:
                # A template refuses the address: the SDK does not try the next template either.
                return None
            if matches:
                return template
        return None

    def registered(self, method: str, params: Mapping[str, Any]) -> Registered | None:
        """See `Host.registered`."""
        if method == "resources/read":
            return self._registered_resource(params.get("uri"))
        name = str(params.get("name"))
        if method == "prompts/get":
            prompt = self._prompts.get_prompt(name)
            return None if prompt is None else _prompt_code(prompt)
        tool = self._tools.get_tool(name)
        return None if tool is None else _tool_code(tool)

    def _registered_resource(self, uri: Any) -> Registered | None:
        concrete = self._addresses.get(uri) if isinstance(uri, str) else None
        if concrete is not None:
            return _resource_code(concrete)
        template = self._template(uri)
        return None if template is None else _template_code(template)

    def kept(self, method: str, params: Mapping[str, Any], registered: Registered) -> Handler | None:
        """See `Host.kept`. The handler is the SDK's own, of a server like this one that has this function only."""
        entry = self.lowlevel.get_request_handler(method)
        found = None if entry is None else entry.handler
        # A server that is only rehearsed has no seams.
        handler = found.handler if isinstance(found, Seam) else found
        if not isinstance(handler, MethodType) or handler.__self__ is not self._server:
            return None
        server, fn, about = copy.copy(self._server), registered.function, registered.about
        if method == "tools/call":
            server._tool_manager = ToolManager(tools=[Tool.from_function(fn, name=params["name"], **about)])
        elif method == "prompts/get":
            server._prompt_manager = PromptManager()
            server._prompt_manager.add_prompt(Prompt.from_function(fn, name=params["name"], **about))
        else:
            server._resource_manager = ResourceManager()
            if "uri" in about:
                server._resource_manager.add_resource(FunctionResource.from_function(fn, **about))
            else:
                server._resource_manager.add_template(fn, **about)
        served: Handler = MethodType(handler.__func__, server)
        return served

    def may_ask(self, fn: Any) -> bool:
        """Whether `fn` is async: a function that is not async has no await that could suspend."""
        return is_async(fn)

    def takes_context(self, fn: Any) -> bool:
        """Whether a parameter of `fn` is annotated as a `Context`, by the SDK's rule."""
        return find_context_parameter(fn) is not None

    def asking(self) -> Iterator[tuple[str, Any]]:
        """The async functions, each with the name of its tool, prompt or resource."""
        return ((name, fn) for name, fn, _ in self._named() if is_async(fn))

    def registrations(self) -> Iterator[Registration]:
        """See `Host.registrations`. The code is not kept of a resource of the author's class."""
        for name, fn, code in self._named():
            if is_async(fn):
                own = Registered(fn, {}, "resources/read", name, marks_of(fn).reentrant)
                yield Registration(name, code or own, "" if code else "it is no function")

    def names(self) -> Iterator[str]:
        """The names of all tools, then of all prompts."""
        yield from (tool.name for tool in self._tools.list_tools())
        yield from (prompt.name for prompt in self._prompts.list_prompts())

    def _named(self) -> Iterator[tuple[str, Any, Registered | None]]:
        """Each handler: its name in messages, its function, and its code, None for a resource of the author's class."""
        yield from ((f'tool "{item.name}"', item.fn, _tool_code(item)) for item in self._tools.list_tools())
        yield from ((f'prompt "{item.name}"', item.fn, _prompt_code(item)) for item in self._prompts.list_prompts())
        for uri, resource in self._addresses.items():
            yield f'resource "{uri}"', _read_function(resource), _resource_code(resource)
        for template in self._resources.list_templates():
            yield f'resource "{template.uri_template}"', template.fn, _template_code(template)

    async def listed(self, kind: str) -> list[str]:
        """The names that a client gets in the list of a kind: "tool", "prompt" or "resource"."""
        server = self._server
        if kind == "tool":
            return [tool.name for tool in await server.list_tools()]
        if kind == "prompt":
            return [prompt.name for prompt in await server.list_prompts()]
        templates = [template.uri_template for template in await server.list_resource_templates()]
        return [str(resource.uri) for resource in await server.list_resources()] + templates

    def opens_resources(self, lifespan: Any) -> bool:
        """Whether it is another lifespan than the SDK's own, which does nothing."""
        return lifespan is not no_lifespan

    def http_app(self, settings: Settings, path: str) -> tuple[Starlette, TransportSecuritySettings]:
        """See `Host.http_app`."""
        return sdk_app(self._server, settings, path)

    def plan_of(self, boundary: RequestStateBoundary, strategy: str) -> PlanOf:
        """See `Host.plan_of`."""
        return Plans(self._server, self.lowlevel, boundary, strategy).current

    def wrap(self, seams: SeamBuilder) -> None:
        """See `Host.wrap`."""
        seams.wrap_handlers(self.lowlevel)


def _inner(fn: Any) -> Any:
    """The function that its author registered: the SDK puts pydantic's validation round prompts and resources."""
    return getattr(fn, "raw_function", fn)


def _tool_code(tool: Tool) -> Registered:
    about = {"structured_output": tool.output_schema is not None, "context_kwarg": tool.context_kwarg}
    return Registered(tool.fn, about, "tools/call", tool.name, marks_of(tool.fn).reentrant)


def _prompt_code(prompt: Prompt) -> Registered:
    about = {"description": prompt.description, "context_kwarg": prompt.context_kwarg}
    return Registered(_inner(prompt.fn), about, "prompts/get", prompt.name, marks_of(prompt.fn).reentrant)


def _resource_code(resource: Resource) -> Registered | None:
    """The code of a resource; None if it is of the author's class."""
    fn = getattr(resource, "fn", None)
    uri = str(resource.uri)
    about = {"uri": uri, "name": resource.name, "mime_type": resource.mime_type, "meta": resource.meta}
    return None if fn is None else Registered(_inner(fn), about, "resources/read", uri, marks_of(fn).reentrant)


def _template_code(template: ResourceTemplate) -> Registered:
    names = ("uri_template", "name", "mime_type", "meta", "security")
    about = {name: getattr(template, name) for name in names}
    fn = template.fn
    return Registered(_inner(fn), about, "resources/read", template.uri_template, marks_of(fn).reentrant)


def _read_function(resource: Resource) -> Any:
    """The function that makes a resource's content: a function of the author, or a method of the author's class. None
    for the SDK's own classes, which never ask."""
    fn = getattr(resource, "fn", None)
    if fn is not None:
        return fn
    return None if type(resource).__module__.startswith("mcp.") else resource.read


def _moved(what: str) -> ConfigError:
    return ConfigError(
        f"this release of mcp keeps its {what} elsewhere; nothing was attached; framehold doctor names one that fits"
    )

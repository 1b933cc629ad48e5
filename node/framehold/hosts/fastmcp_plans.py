"""Which tools of a FastMCP server are entered past FastMCP's handling of requests, so that their rounds are ordinary.

FastMCP does much for a request that changes nothing for a tool of the server's own: it runs a chain of middlewares that
look at lists only, finds the tool twice, and makes contexts and models. In a round with a plan the frame calls the tool
by `FastMCP.call_tool`, which finds and runs it as always, and the reply goes out as the frame has made it.

A tool has no plan if anything could stand between its client and it: a middleware of the author, an extension, another
provider, a transform, authorization, a second version, a method that is replaced; or somebody who is signed in, for
whom FastMCP keeps rules.

Private parts of FastMCP that are touched here; a test names the release and checks them:

- `LocalProvider._components`: the components of the server's own provider
- `FastMCP._extensions`, `_on_call_tool`: what takes part in calls
- `FastMCPServerMiddleware._apply_shared_context`: what `Shared()` dependencies of all requests share
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from operator import is_
from types import MethodType
from typing import Any, NamedTuple

from fastmcp import FastMCP
from fastmcp.server.low_level import FastMCPServerMiddleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.server.transforms.visibility import is_enabled
from fastmcp.tools.base import Tool
from fastmcp.tools.function_tool import FunctionTool
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.request_state import RequestStateBoundary
from mcp_types import CallToolRequestParams

from ..sdk.inbound import mirrors_nothing
from ..sdk.marks import Marks, marks_of
from ..sdk.middleware_chain import all_pass
from ..sdk.plan import MAX_PLANS, GeneralPlan
from ..sdk.session import Ctx
from ..sdk.token import METHOD, Target
from .fastmcp import FastMCPRounds, bound
from .fastmcp_code import LOOKUPS, KeptLookup, component_handler
from .fastmcp_components import author_of
from .fastmcp_results import KINDS
from .seam_builder import SeamBuilder


def _methods(owner: type[Any]) -> frozenset[str]:
    return frozenset(name for name in dir(owner) if callable(getattr(owner, name)))


_METHODS, _PROVIDERS = _methods(FastMCP), _methods(LocalProvider)
_CALLING = ("call_tool", "get_tool", "_get_tool", "_run_middleware", "_dispatch_component_middleware")
"""The methods by which FastMCP calls a tool. They may be replaced in the class."""
_OWN = {*LOOKUPS, "_dispatch_component_middleware"}
"""The methods of a served server that Framehold replaces."""


def _calling() -> list[Any]:
    return [getattr(FastMCP, name) for name in _CALLING]


_READ = [
    method if getattr(method, "__module__", "").startswith("fastmcp.") else None
    for method in map(inspect.unwrap, _calling())
]
"""These methods at import, None for each that was replaced before."""


class _ToolPlan(NamedTuple):
    """A plan, and what it was made of: the tool, its author's function with its marks, and the schema that headers are
    checked with."""

    tool: Tool
    fn: Any
    marks: Marks
    schema: Any
    plan: GeneralPlan


class FastMCPPlans:
    """The plans of one server's tools. `seams` makes the seam of each."""

    def __init__(self, server: FastMCP[Any], seams: SeamBuilder) -> None:
        self._server, self._seams = server, seams
        self._known: dict[str, _ToolPlan] = {}

    def current(self, target: Target) -> GeneralPlan | None:
        """The plan of a tool; None if it has none."""
        if target.method != METHOD or get_access_token() is not None:
            return None
        root = _root(self._server, self._seams.boundary)
        tool = None if root is None else _only(self._server, target.name)
        if root is None or tool is None:
            return None
        schema_of = self._server._mcp_server.get_tool_input_schema
        schema = None if schema_of is None else schema_of(target.name)
        known, fn = self._known.get(target.name), author_of(tool)
        marks = marks_of(fn)
        if known is not None and all(map(is_, known, (tool, fn, marks, schema))):
            return known.plan
        if schema is None or not mirrors_nothing(schema):
            return None
        if len(self._known) >= MAX_PLANS:
            self._known.clear()
        known = self._known[target.name] = _ToolPlan(tool, fn, marks, schema, self._made(root, tool, fn))
        return known.plan

    def _made(self, root: FastMCPServerMiddleware, tool: Tool, fn: Any) -> GeneralPlan:
        server, name = self._server, tool.name
        keep = KINDS[METHOD].keep

        async def entered(inner: Ctx, params: CallToolRequestParams) -> Any:
            with root._apply_shared_context(server), bound(inner):
                return await keep(server.call_tool(name, params.arguments or {}), name)

        handler = component_handler(server, name, fn, tool, entered, self._seams.codes)
        seam = self._seams.seam(entered, METHOD, CallToolRequestParams, lambda method, params: handler)
        return GeneralPlan(seam, validates_answers=True)


def _root(server: FastMCP[Any], boundary: RequestStateBoundary) -> FastMCPServerMiddleware | None:
    """FastMCP's middleware among those of the SDK's server, if none of FastMCP's and of the SDK's kind does anything
    for a call of a tool; else None."""
    if type(server) is not FastMCP or server._extensions or server.transforms:
        return None
    if not all(type(item) is DereferenceRefsMiddleware for item in server.middleware):
        return None
    entry = server._mcp_server.get_request_handler(METHOD)
    if entry is None or entry.handler != MethodType(FastMCP._on_call_tool, server) or not _is_unpatched(server):
        return None
    middlewares: Sequence[Any] = server._mcp_server.middleware
    roots = [item for item in middlewares if type(item) is FastMCPServerMiddleware]
    others = [item for item in middlewares if type(item) is not FastMCPServerMiddleware]
    return roots[0] if len(roots) == 1 and all_pass(others, boundary) else None


def _is_unpatched(server: FastMCP[Any]) -> bool:
    """Whether nobody but Framehold has replaced a method by which a tool is found and called, of the server, of its own
    provider or of the class."""
    replaced, provider = vars(server), server.local_provider
    rounds, look_up = replaced.get("_dispatch_component_middleware"), replaced.get("get_tool")
    if replaced.keys() & _METHODS != _OWN or vars(provider).keys() & _PROVIDERS or _calling() != _READ:
        return False
    if not isinstance(rounds, FastMCPRounds) or not isinstance(look_up, KeptLookup):
        return False
    chain, present = MethodType(FastMCP._dispatch_component_middleware, server), MethodType(FastMCP.get_tool, server)
    return bool(rounds.chain == chain and look_up.present == present)


def _only(server: FastMCP[Any], name: str) -> FunctionTool | None:
    """The tool of the server's own that has this name, is enabled and has no authorization, if nothing else could be
    found by it; else None."""
    provider = server.local_provider
    is_fastmcps = type(provider).__module__.startswith("fastmcp.")
    if server.providers != [provider] or not is_fastmcps or provider.transforms:
        return None
    found = [item for item in provider._components.values() if isinstance(item, Tool) and item.name == name]
    if len(found) != 1 or type(found[0]) is not FunctionTool or found[0].auth is not None or not name.isprintable():
        return None
    return found[0] if is_enabled(found[0]) else None

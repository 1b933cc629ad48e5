"""What is known of a tool of an MCPServer before its requests come: its function, its marks, how it gets its arguments
and how its result goes on the wire.

A plan is made once, and is used as long as the tool and its server are what they were when it was made. A tool has no
plan if the SDK, an extension or the author's code has to look at its requests: if it has parameters from `Resolve` or
parameters that a header repeats, has strategy replay, is rehearsed, or if its server has a middleware of somebody else
or a layer of the SDK is patched.

Private parts of the SDK that are touched here; a test names the release and checks them:

- `MCPServer._tool_manager`: the tools by name
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import is_
from typing import Any, NamedTuple

from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import Tool, ToolManager
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp.server.request_state import RequestStateBoundary
from mcp_types import methods
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from .. import json_text
from .inbound import mirrors_nothing
from .invocation import Rendered
from .marks import Marks, marks_of
from .middleware_chain import all_pass
from .seam import Seam
from .token import METHOD, Target
from .tool_shortcut import is_ordinary, is_served

MAX_PLANS = 1024
"""How many plans are kept. A server may have any number of tools, and change them."""


class Plan:
    """What is known of one tool. `seam` serves it, on `server`; `code` is the digest of its code, empty if it is not
    re-entrant; `arguments` are the names of its arguments, None if it may have others; `described` are those fields of
    a call's record that all its calls have; `validates` makes the arguments
    of its function out of those of a request, and `renders` makes its result out of what its function returned."""

    __slots__ = (
        "arguments",
        "code",
        "described",
        "function",
        "lifetime",
        "marks",
        "metadata",
        "name",
        "parameters",
        "reentrant",
        "renders",
        "seam",
        "server",
        "tool",
        "validates",
    )

    def __init__(self, server: MCPServer[Any], seam: Seam, tool: Tool) -> None:
        self.server, self.seam, self.tool, self.name = server, seam, tool, tool.name
        self.function, self.metadata, self.parameters = tool.fn, tool.fn_metadata, tool.parameters
        self.marks: Marks = marks_of(tool.fn)
        self.reentrant, self.lifetime = self.marks.reentrant, self.marks.ttl
        self.arguments = argument_names(tool.parameters)
        self.code = seam.wrapped.find(METHOD, {"name": tool.name}).code() if self.reentrant else ""
        self.described = {"tool": tool.name, "method": METHOD, "target": tool.name, "principal": ""}
        self.validates, self.renders = _validator(tool), _renderer(tool)

    def is_of(self, tool: Tool, handler: Any) -> bool:
        """Whether the plan was made of this tool as it is now, which `handler` serves."""
        return (
            tool is self.tool
            and handler is self.seam
            and tool.fn is self.function
            and tool.fn_metadata is self.metadata
            and tool.parameters is self.parameters
            and marks_of(tool.fn) is self.marks
        )


class GeneralPlan(NamedTuple):
    """What is known of a handler without a plan of its own: a prompt, a resource, a tool with layers before it, a
    low-level handler. `seam` serves it. It is entered with the context of its request, as the SDK does it.
    `validates_answers`: its library refuses a retry whose answers are none of the protocol's, whatever was asked."""

    seam: Seam
    validates_answers: bool = False

    def validated(self, version: str, params: Mapping[str, Any]) -> Any:
        """The parameters of a request as the handler gets them; None if the SDK refuses them."""
        try:
            methods.validate_client_request(self.seam.method, version, params)
            return self.seam.wrapped.params_type.model_validate(params, by_name=False)
        except (ValidationError, KeyError):
            return None


PlanOf = Callable[[Target], Plan | GeneralPlan | None]
"""Gives the plan of a handler; None if it has none."""


class Plans:
    """The plans of one server. `server` is None for a low-level server, and for a class of the author's. `lowlevel` is
    the server that serves its requests, `boundary` seals their states, and `strategy` is the setting STRATEGY."""

    def __init__(
        self, server: MCPServer[Any] | None, lowlevel: Server[Any], boundary: RequestStateBoundary, strategy: str
    ) -> None:
        self._server = server if type(server) is MCPServer else None
        self._lowlevel, self._strategy, self._boundary = lowlevel, strategy, boundary
        self._plans: dict[str, Plan] = {}
        self._middlewares: list[Any] = []

    def current(self, target: Target) -> Plan | GeneralPlan | None:
        """The plan of a handler; None if it has none."""
        entry, now = self._lowlevel.get_request_handler(target.method), self._lowlevel.middleware
        if entry is None or not isinstance(entry.handler, Seam):
            return None
        if len(now) != len(self._middlewares) or not all(map(is_, now, self._middlewares)):
            if not all_pass(now, self._boundary):
                return None
            self._middlewares = list(now)
        if target.method != METHOD:
            return GeneralPlan(entry.handler)
        if (server := self._server) is not None:
            manager: ToolManager = server._tool_manager
            tool = manager.get_tool(target.name)
            if tool is not None and is_ordinary(server, manager, tool):
                plan = self._plans.get(target.name)
                if plan is not None and plan.is_of(tool, entry.handler):
                    return plan
                return self._made(server, tool, entry.handler)
        return None if self._may_mirror(target.name) else GeneralPlan(entry.handler)

    def _may_mirror(self, tool: str) -> bool:
        """Whether headers may have to repeat arguments of a tool, as far as is known without a list of all tools."""
        schema_of = self._lowlevel.get_tool_input_schema
        schema = None if schema_of is None else schema_of(tool)
        return schema is None or not mirrors_nothing(schema)

    def _made(self, server: MCPServer[Any], tool: Tool, seam: Seam) -> Plan | None:
        if not is_served(seam.handler, server) or not tool.name.isprintable():
            return None
        if self._lowlevel.get_tool_input_schema is None:
            return None
        if self._lowlevel.get_tool_input_schema(tool.name) is not tool.parameters:
            return None
        if not mirrors_nothing(tool.parameters):
            return None
        plan = Plan(server, seam, tool)
        if (plan.marks.strategy or self._strategy) != "hold":
            return None
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[tool.name] = plan
        return plan


def argument_names(schema: Mapping[str, Any] | None) -> Collection[str] | None:
    """The names of the arguments that a tool with this input schema has; None if they are not known, or others may be
    given too."""
    return None if schema is None or schema.get("additionalProperties") else schema.get("properties")


def _validator(tool: Tool) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that validates the arguments of a request. Texts for parameters that are just texts stay as they are;
    all else the SDK validates."""
    validate, model = tool.fn_metadata.validate_arguments, tool.fn_metadata.arg_model
    if model.__mro__[1:] != ArgModelBase.__mro__ or model.model_config != ArgModelBase.model_config:
        return validate
    decorated = model.__pydantic_decorators__
    if decorated.validators or decorated.field_validators or decorated.model_validators:
        return validate
    if not all(map(_is_just_text, model.model_fields.values())):
        return validate
    names = model.model_fields.keys()

    def validated(given: dict[str, Any]) -> dict[str, Any]:
        if given.keys() != names or not all(map(_is_text, given.values())):
            return validate(given)
        return given

    return validated


def _is_text(value: Any) -> bool:
    return type(value) is str and json_text.is_unicode(value)


def _is_just_text(field: FieldInfo) -> bool:
    plain = field.annotation is str and not field.metadata and field.is_required()
    return plain and field.alias is None and field.validation_alias is None


def _renderer(tool: Tool) -> Callable[[Any], Any]:
    """A function that makes a result of what the author's function returned: a text at once as it goes on the wire, if
    this is known of the tool; all else as the SDK makes it."""
    convert, metadata = tool.fn_metadata.convert_result, tool.fn_metadata
    model = metadata.output_model if metadata.output_schema is not None else None
    if model is not None and not (metadata.wrap_output and _is_of_one_text(model)):
        return convert
    is_wrapped = model is not None

    def rendered(returned: Any) -> Any:
        if not _is_text(returned):
            return convert(returned)
        text = json_text.write(returned)
        structured = b',"structuredContent":{"result":' + text + b"}" if is_wrapped else b""
        head = b'{"content":[{"text":' + text + b',"type":"text"}],"isError":false,"resultType":"complete"'
        return Rendered(head + structured)

    return rendered


def _is_of_one_text(model: Any) -> bool:
    """Whether an output model takes any text as its one field `result`, and changes nothing of it."""
    if not isinstance(model, type) or not issubclass(model, BaseModel) or list(model.model_fields) != ["result"]:
        return False
    return _is_just_text(model.model_fields["result"])

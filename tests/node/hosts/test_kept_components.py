"""A component of the SDK that is made again of kept code is what its author registered, field by field."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource, ResourceSecurity
from mcp.server.mcpserver.tools import Tool
from mcp_types import Annotations, Icon, ToolAnnotations

from framehold.hosts.mcpserver_host import MCPServerHost

Server = MCPServer[Any]
GIVEN = {"name": "it", "title": "A title", "description": "said", "icons": [Icon(src="data:,")]}
OF_RESOURCE = {"mime_type": "text/x", "annotations": Annotations(priority=1), "meta": {"a": 1}}
OF_TOOL = {"annotations": ToolAnnotations(title="Another"), "meta": {"a": 1}, "structured_output": False}
BY_NAME, BY_ADDRESS = {"name": "it"}, {"uri": "it://a/.."}
LISTED = {"title", "description", "icons", "annotations"}
"""What only lists show, which have the present component."""


async def function(word: str = "", ctx: Any = None) -> str:
    return word


class Component(NamedTuple):
    """A kind of components: what an author calls, a value for each of its arguments, how a server gets what it makes,
    where the server has it, the request that runs it, and the fields that only lists show."""

    make: Callable[..., Any]
    given: dict[str, Any]
    put: Callable[[Server, Any], Any]
    found: Callable[[Server], list[Any]]
    request: tuple[str, dict[str, Any]]
    listed: set[str]


COMPONENTS = {
    "tool": Component(
        Tool.from_function,
        GIVEN | OF_TOOL | {"context_kwarg": "ctx"},
        lambda server, made: server._tool_manager._tools.update(it=made),
        lambda server: server._tool_manager.list_tools(),
        ("tools/call", BY_NAME),
        LISTED | {"meta"},
    ),
    "prompt": Component(
        Prompt.from_function,
        GIVEN | {"context_kwarg": "ctx"},
        lambda server, made: server.add_prompt(made),
        lambda server: server._prompt_manager.list_prompts(),
        ("prompts/get", BY_NAME),
        {"title", "icons"},
    ),
    "resource": Component(
        FunctionResource.from_function,
        GIVEN | OF_RESOURCE | BY_ADDRESS,
        lambda server, made: server.add_resource(made),
        lambda server: server._resource_manager.list_resources(),
        ("resources/read", BY_ADDRESS),
        LISTED,
    ),
    "template": Component(
        Server("makes templates")._resource_manager.add_template,
        GIVEN
        | OF_RESOURCE
        | {"uri_template": "it://{word}/{ctx}", "security": ResourceSecurity(exempt_params={"ctx"})},
        lambda server, made: server._resource_manager._templates.update(it=made),
        lambda server: server._resource_manager.list_templates(),
        ("resources/read", BY_ADDRESS),
        LISTED,
    ),
}


def shown(component: Any, field: str) -> Any:
    """A field as it is compared: what pydantic makes of a function is another object each time."""
    value = getattr(component, field)
    if field == "fn_metadata":
        return value.output_schema, value.arg_model.model_json_schema()
    return getattr(value, "raw_function", value)


@pytest.mark.parametrize("kind", COMPONENTS)
def test_each_field_that_a_call_can_meet_is_kept(kind: str) -> None:
    """A field of a later SDK fails this test until it is kept, or known to be shown in lists only."""
    make, given, put, found, (method, params), listed = COMPONENTS[kind]
    parameters = inspect.signature(make).parameters
    assert given.keys() == parameters.keys() - {"fn"}
    assert all(parameters[name].default != value for name, value in given.items())
    server = Server("shop")
    put(server, make(function, **given))
    host = MCPServerHost(server)
    code = host.registered(method, params)
    assert code is not None
    handler: Any = host.kept(method, params, code)
    (present,), (again,) = found(server), found(handler.__self__)
    other = {name for name in type(present).model_fields if shown(present, name) != shown(again, name)}
    assert other == listed

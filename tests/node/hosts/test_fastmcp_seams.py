"""FastMCP's private parts that we touch are as they were read off fastmcp 4.1.7 and 4.2.3. An upgrade of it fails here
first.

Then: go through each seam below against the new release, mend `fastmcp`, `fastmcp_host`, `fastmcp_components`,
`fastmcp_code`, `fastmcp_plans`, `fastmcp_results` and `fastmcp_span`, and add the release to `fastmcp.TESTED`. Which
names those files touch is listed, like the SDK's, in `test_seams`."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import mcp_types as types
import pytest
from fastmcp import Context, FastMCP
from fastmcp.prompts import PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.server import context as contexts
from fastmcp.server import dependencies, elicitation, telemetry
from fastmcp.server.elicitation import ScalarElicitationType
from fastmcp.server.low_level import FastMCPServerMiddleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.server.providers import fastmcp_provider as mounted
from fastmcp.server.providers.base import Provider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.server.providers.wrapped_provider import _WrappedProvider
from fastmcp.server.server import default_lifespan
from fastmcp.server.transforms.namespace import Namespace
from fastmcp.server.transforms.visibility import Visibility
from fastmcp.tools.base import ToolResult
from fastmcp.tools.function_tool import FunctionTool
from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary
from pydantic import BaseModel, Field

import framehold.hosts.fastmcp
from framehold.hosts import fastmcp_code, fastmcp_results
from framehold.hosts.fastmcp import Bound
from framehold.hosts.fastmcp_components import schema_of, understood
from framehold.hosts.fastmcp_host import FastMCPHost
from framehold_core.errors import ConfigError

FASTMCP = "fastmcp 4.1.7 and 4.2.3"
CHANGED = f"this release of fastmcp has moved a seam that was read off {FASTMCP}: "

pytestmark = pytest.mark.anyio


def names(callable_: Any) -> list[str]:
    return [name for name in inspect.signature(callable_).parameters if name != "self"]


def test_the_installed_release_is_the_tested_one() -> None:
    """One of two. Patches are let through; a minor release is read first."""
    assert f"fastmcp {' and '.join(framehold.hosts.fastmcp.TESTED)}" == FASTMCP
    installed = importlib.metadata.version("fastmcp")
    assert installed.split(".")[:2] in [release.split(".")[:2] for release in framehold.hosts.fastmcp.TESTED], (
        f"fastmcp {installed} is installed, but the seams were read off {FASTMCP}: check each test of this file "
        "against it, then add it to fastmcp.TESTED"
    )


def test_a_server_holds_a_low_level_server_with_its_middleware_outside_the_boundary() -> None:
    server: FastMCP[Any] = FastMCP("seams")
    inner = server._mcp_server
    assert isinstance(inner, Server), CHANGED + "FastMCP._mcp_server"
    assert inner.fastmcp is server, CHANGED + "FastMCP._mcp_server"
    kinds = [type(item) for item in inner.middleware]
    assert kinds.index(FastMCPServerMiddleware) < kinds.index(RequestStateBoundary), CHANGED + "the middleware's order"


def test_nothing_stands_before_a_tool_of_a_plain_server() -> None:
    server: FastMCP[Any] = FastMCP("seams")
    server.tool(lambda: "x", name="plain")
    (tool,) = server.local_provider._components.values()
    assert type(tool) is FunctionTool and tool.auth is None, CHANGED + "LocalProvider._components"
    assert server.local_provider.transforms == [], CHANGED + "LocalProvider.transforms"
    assert [type(item) for item in server.middleware] == [DereferenceRefsMiddleware], CHANGED + "FastMCP.middleware"
    asked = [name for name in vars(DereferenceRefsMiddleware) if name.startswith("on_")]
    assert sorted(asked) == ["on_list_resource_templates", "on_list_tools"], CHANGED + "DereferenceRefsMiddleware"
    assert server._extensions == {} and server.transforms == [], CHANGED + "FastMCP._extensions"
    assert names(FastMCPServerMiddleware._apply_shared_context) == ["fastmcp"], CHANGED + "the shared context"
    entry = server._mcp_server.get_request_handler("tools/call")
    called = None if entry is None else getattr(entry.handler, "__func__", None)
    assert called is FastMCP._on_call_tool, CHANGED + "FastMCP._on_call_tool"


def test_a_server_without_a_lifespan_opens_nothing() -> None:
    server: FastMCP[Any] = FastMCP("seams")
    assert server._lifespan is default_lifespan, CHANGED + "FastMCP._lifespan"
    assert server.providers == [server.local_provider], CHANGED + "FastMCP.providers"
    assert isinstance(server.local_provider, LocalProvider), CHANGED + "FastMCP.local_provider"
    assert type(server.local_provider).lifespan is Provider.lifespan, CHANGED + "the lifespan of a provider"
    assert not FastMCPHost(server).opens_resources(None)
    assert server._extensions == {}, CHANGED + "FastMCP._extensions"


def test_each_method_that_may_ask_goes_through_the_chain() -> None:
    assert names(FastMCP._dispatch_component_middleware) == ["context", "call_next"], CHANGED + "the chain"
    for method in (FastMCP.call_tool, FastMCP.render_prompt, FastMCP.read_resource):
        source = inspect.getsource(method)
        assert "await self._dispatch_component_middleware(" in source, CHANGED + method.__name__
        assert "run_middleware=False" in source and "fastmcp_context=ctx" in source, CHANGED + method.__name__


def test_what_runs_is_found_by_these_look_ups() -> None:
    sources = [
        inspect.getsource(method) for method in (FastMCP.call_tool, FastMCP.render_prompt, FastMCP.read_resource)
    ]
    tool, prompt, resource = sources
    assert "tool: Tool | None = await self.get_tool(name, version=version)" in tool, CHANGED + "FastMCP.get_tool"
    assert "prompt = await self.get_prompt(name, version=version)" in prompt, CHANGED + "FastMCP.get_prompt"
    first = "resource, exists = await self._lookup_resource(uri, version=version)"
    then = "template = await self.get_resource_template(uri, version=version)"
    assert 0 < resource.find(first) < resource.find(then), CHANGED + "FastMCP._lookup_resource"
    for name in ("get_tool", "get_prompt", "_lookup_resource", "get_resource_template"):
        assert names(getattr(FastMCP, name))[1:] == ["version"], CHANGED + name


def test_a_component_is_made_again_of_its_function_and_these_values() -> None:
    for kind, found in fastmcp_code._KINDS.items():
        assert {*found.fields, "meta"} <= {*names(found.make)}, CHANGED + kind.__name__
        assert issubclass(kind, BaseModel), CHANGED + kind.__name__
        assert {*found.fields, "meta", "auth"} <= {*kind.model_fields}, CHANGED + kind.__name__


def test_a_context_refuses_by_one_method_and_asks_through_its_session() -> None:
    assert names(Context._is_modern_protocol) == [], CHANGED + "Context._is_modern_protocol"
    source = inspect.getsource(inspect.unwrap(Context.elicit))
    assert "if self._is_modern_protocol():" in source and "await self.session.elicit(" in source, CHANGED + "elicit"
    assert "return self.request_context.session" in inspect.getsource(vars(Context)["session"].fget)


class Form(BaseModel):
    name: str = Field(title="Your name", max_length=40)
    meal: Literal["soup", "fish"] = "soup"


class Computed(BaseModel):
    name: str = Field(json_schema_extra=lambda schema: schema.update(enum=["a"]))


@dataclass
class Plain:
    name: str


@pytest.mark.parametrize(
    "form", [Form, Computed, Plain, ScalarElicitationType[bool], ScalarElicitationType[Literal["a", "b"]]]
)
def test_a_form_is_rendered_by_one_function(form: Any) -> None:
    """Ours returns what FastMCP's does, and each caller gets a schema of its own."""
    framehold.hosts.fastmcp.let_contexts_ask()
    forms: Any = framehold.hosts.fastmcp._forms
    assert elicitation.get_elicitation_schema is forms, CHANGED + "get_elicitation_schema"
    theirs = vars(forms)["_render"]
    assert "get_elicitation_schema(response_type)" in inspect.getsource(elicitation.parse_elicit_response_type)
    for _ in range(2):
        found: dict[str, Any] = elicitation.get_elicitation_schema(form)
        assert found == theirs(form) and list(found) == list(theirs(form))
        found.clear()


def test_the_present_request_is_in_two_variables() -> None:
    """The one has these fields, and no others: ours reads each of them through."""
    assert isinstance(dependencies.fastmcp_request_ctx, ContextVar)
    assert isinstance(contexts._current_context, ContextVar), CHANGED + "_current_context"
    fields = {field.name for field in dataclasses.fields(dependencies.FastMCPRequestContext)}
    read = {name for name, value in vars(Bound).items() if isinstance(value, property)}
    assert fields == read | {"_srctx"}, CHANGED + "FastMCPRequestContext"
    assert "_srctx=ctx" in inspect.getsource(dependencies.bind_request_context)
    present = Bound(SimpleNamespace(session=object()))  # type: ignore[arg-type]  # no more of a request is read
    before = dependencies.fastmcp_request_ctx.set(present)
    try:
        assert Context(FastMCP("seams")).request_context is present, CHANGED + "Context.request_context"
    finally:
        dependencies.fastmcp_request_ctx.reset(before)


def test_the_span_of_a_request_is_in_one_variable() -> None:
    """Alone, or in a record with the error that it will show. FastMCP compares it with the current one."""
    with telemetry.seam_span("tools/call", "seams") as span:
        record: Any = telemetry._active_seam_span.get()
        assert record is span or (record.span, record.error) == (span, None), CHANGED + "_active_seam_span"
    source = inspect.getsource(telemetry.server_span)
    assert "seam is active" in source or ("seam.span is active" in source and "seam.error = e" in source), CHANGED + (
        "server_span"
    )


async def _named(x: str, ctx: Context) -> str:
    return x


async def test_components_are_walked_under_the_names_that_they_are_served_by() -> None:
    """A tree of what is understood; with anything else in it schemas are FastMCP's to look up."""
    server, child = FastMCP[Any]("outer"), FastMCP[Any]("inner")
    child.tool(_named)
    server.mount(child, namespace="in")
    assert isinstance(server.local_provider, LocalProvider)
    assert isinstance(server.local_provider._components, dict), CHANGED + "LocalProvider._components"
    (wrapped,) = [item for item in server.providers if isinstance(item, _WrappedProvider)]
    assert isinstance(wrapped._inner, mounted.FastMCPProvider), CHANGED + "_WrappedProvider._inner"
    space = Namespace("in")
    assert (space._transform_name("x"), space._transform_uri("a://b")) == ("in_x", "a://in/b"), CHANGED + "Namespace"
    tool = await server.get_tool("in__named")
    assert tool is not None and schema_of(server, "in__named") == tool.parameters
    assert schema_of(server, "_named") is None
    server.disable(names={"x"})
    assert understood(server) and any(isinstance(item, Visibility) for item in server.transforms)
    server.mount(child, tool_names={"_named": "other"})
    assert not understood(server), "a tool that is renamed on the way is not found by the walk"


@pytest.mark.parametrize(
    "result",
    [
        ToolResult("text"),
        ToolResult([types.TextContent(type="text", text="t")], {"a": 1}, {"m": 2}, is_error=True),
        PromptResult("text", "about", {"m": 1}),
        ResourceResult([ResourceContent("text", meta={"m": 1}), ResourceContent(b"\0\xff", "image/png")], {"m": 2}),
    ],
    ids=["a text", "a tool's all", "a prompt", "a resource"],
)
@pytest.mark.parametrize("stored", [False, True], ids=["live", "stored"])
async def test_results_survive_being_kept(result: Any, stored: bool) -> None:
    """As the protocol's, in memory or in a tombstone, and back: what the client is sent is the same."""
    kinds: dict[type, str] = {ToolResult: "tools/call", PromptResult: "prompts/get", ResourceResult: "resources/read"}
    method = kinds[type(result)]
    kind = fastmcp_results.KINDS[method]
    assert kind.field == ("uri" if method == "resources/read" else "name")

    async def running() -> Any:
        return result

    kept = await kind.keep(running(), "a://b")
    outcome = kept.model_dump(by_alias=True, mode="json", exclude_none=True) if stored else kept
    given = kind.give(outcome)
    assert type(given) is type(result)

    async def again() -> Any:
        return given

    assert await kind.keep(again(), "a://b") == kept


def test_a_release_that_keeps_its_parts_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ("_dispatch_component_middleware", "_lookup_resource")
    for owner, name in (*((FastMCP, part) for part in parts), (Context, "_is_modern_protocol")):
        with monkeypatch.context() as patched:
            patched.delattr(owner, name)
            with pytest.raises(ConfigError, match=r"this release of fastmcp keeps .* elsewhere; nothing was attached"):
                framehold.attach(FastMCP("seams"))
    server: FastMCP[Any] = FastMCP("seams")
    del server._mcp_server
    with pytest.raises(ConfigError, match="this release of fastmcp keeps the SDK's server elsewhere"):
        framehold.attach(server)

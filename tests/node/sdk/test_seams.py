"""The SDK's private parts that we touch are as they were read off mcp 2.3.0. An upgrade of the SDK fails here first.

Then: go through each seam below against the new release, mend the files of `TOUCHED`, run the conformance
suite, and raise `attach.TESTED`."""

from __future__ import annotations

import ast
import copy
import dataclasses
import hashlib
import importlib
import importlib.metadata
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp.server._streamable_http_modern as modern
from mcp.server import MCPServer, Server, ServerRequestContext, elicitation
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.connection import Connection
from mcp.server.mcpserver.resources import FunctionResource, ResourceManager, ResourceTemplate
from mcp.server.mcpserver.tools import Tool, ToolManager
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    RequestStateBoundary,
    RequestStateSecurity,
    compact_json,
)
from mcp.server.runner import ServerRunner
from mcp.server.session import ServerSession
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp_types import methods
from opentelemetry import trace
from starlette.routing import Route

import framehold
import framehold_cli
from framehold.http import app as serving
from framehold.http.connection import Identity
from framehold.sdk import form_schemas, tool_shortcut

SEAM = importlib.import_module("framehold.hosts.attach")
"""The module, which the package's function of the same name hides."""
PACKAGE = Path(framehold.__file__).parent
MCP = "mcp 2.3.0"
CHANGED = f"this release of mcp has moved a seam that was read off {MCP}: "

TOUCHED = {
    "code/lines.py": {"_getframe"},
    # Documented: the defaults of a named tuple.
    "code/pieces.py": {"_field_defaults"},
    # asyncio's list of callbacks; where a loop has none, only turns are counted.
    "frame/loop.py": {"_ready"},
    "frame/rehearsed_frame.py": {"_answer", "_deliver_next", "_frame", "_host", "_key"},
    "hosts/attach.py": {"_security", "mcp.server._otel"},
    "hosts/attached.py": {"_security", "_server_instances", "_has_started"},
    "hosts/connections.py": {"_connection", "_request_outbound"},
    "hosts/fastmcp.py": {"_current_context", "_is_modern_protocol", "_srctx"},
    "hosts/fastmcp_code.py": {"_lookup_resource"},
    "hosts/fastmcp_components.py": {"_components", "_inner", "_original_name", "_original_uri", "_server"}
    | {"_transform_name", "_transform_uri"},
    "hosts/fastmcp_host.py": {"_dispatch_component_middleware", "_extensions", "_lifespan", "_mcp_server"},
    "hosts/fastmcp_plans.py": {"_apply_shared_context", "_components", "_dispatch_component_middleware", "_extensions"}
    | {"_mcp_server", "_on_call_tool"},
    "hosts/fastmcp_span.py": {"_active_seam_span"},
    "hosts/listeners.py": {"_bus", "_max_subscriptions"},
    "hosts/mcpserver_host.py": {"_lowlevel_server", "_tool_manager", "_prompt_manager", "_resource_manager"}
    | {"_resources"},
    "http/kernel.py": {"_serialize"},
    "http/mounting.py": {"_getframe"},
    "http/session_affinity.py": {"_admit_session", "_server_instances", "_session_owners"},
    "sdk/boundary.py": {"_seal", "_seal_result", "_unseal"},
    "sdk/inbound.py": {"_mcp_param_rejection", "mcp.server._streamable_http_modern"},
    "sdk/plan.py": {"_tool_manager"},
    "sdk/token.py": {"_audience", "_security", "_principal_claim", "_principal_matches"},
    "sdk/tool_shortcut.py": {"_handle_call_tool", "_subscriptions", "_tool_manager"},
    "telemetry/tracing.py": {"_TRACER_PROVIDER"},
    "wires/legacy_session.py": {"_connection", "_request_outbound"},
}
"""What is touched that others call private, by file. FastMCP's are checked in `test_fastmcp_seams`."""


_PUBLIC = {"_replace", "_asdict", "_fields", "_exit", "_current_frames"}
"""Documented, in spite of their names."""


def names(callable_: Any) -> list[str]:
    return [name for name in inspect.signature(callable_).parameters if name != "self"]


def test_the_installed_release_is_the_tested_one() -> None:
    """Patches are let through; a minor release is read first."""
    assert f"mcp {SEAM.TESTED}" == MCP
    installed = importlib.metadata.version("mcp")
    assert installed.split(".")[:2] == SEAM.TESTED.split(".")[:2], (
        f"mcp {installed} is installed, but the seams were read off {MCP}: check each test of this file against it, "
        "run the conformance suite, then raise attach.TESTED"
    )


def private(path: Path) -> Iterator[str]:
    """The underscored names that a file reaches for in others' objects, and the underscored modules that it imports."""
    tree = ast.parse(path.read_text())
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    slots = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            mine = isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in own | slots
            if node.attr.startswith("_") and not node.attr.startswith("__") and node.attr not in _PUBLIC and not mine:
                yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
            name = node.args[1]
            if isinstance(name, ast.Constant) and re.match("_(?!_)", str(name.value)):
                yield str(name.value)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (name for name in modules if name.startswith("mcp") and "._" in name)
            if isinstance(node, ast.ImportFrom) and modules[0].startswith("mcp"):
                yield from (alias.name for alias in node.names if re.match("_(?!_)", alias.name))


def test_only_the_seam_touches_private_parts() -> None:
    """What the files touch is what this file checks; no other file touches any."""
    found = {path.relative_to(PACKAGE).as_posix(): set(private(path)) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {name: touched for name, touched in found.items() if touched} == TOUCHED
    found = {path.name: set(private(path)) for path in sorted(Path(framehold_cli.__file__).parent.rglob("*.py"))}
    # uvicorn's question whether a request opens a WebSocket; `cli/serve/test_http_protocol.py` asks it.
    assert {name: touched for name, touched in found.items() if touched} == {"http_protocol.py": {"_should_upgrade"}}


def test_an_mcpserver_keeps_its_tools_by_name() -> None:
    manager = getattr(MCPServer("seams"), "_tool_manager", None)
    assert isinstance(manager, ToolManager), CHANGED + "MCPServer._tool_manager"
    assert names(manager.get_tool) == ["name"] and names(manager.list_tools) == []
    assert {"fn", "name"} <= Tool.model_fields.keys(), CHANGED + "Tool"
    assert "tool.run(" in inspect.getsource(ToolManager.call_tool), CHANGED + "ToolManager.call_tool"
    assert "call_fn(self.fn" in inspect.getsource(Tool.run), CHANGED + "Tool.run"


def test_an_mcpserver_keeps_its_resources_by_address() -> None:
    """A template's refusal ends the search; a resource of the SDK's own classes calls nobody, but for `fn`."""
    manager = getattr(MCPServer("seams"), "_resource_manager", None)
    assert isinstance(manager, ResourceManager), CHANGED + "MCPServer._resource_manager"
    assert getattr(manager, "_resources", None) == {}, CHANGED + "ResourceManager._resources"
    assert names(manager.list_templates) == [] and names(ResourceTemplate.matches) == ["uri"]
    assert {"fn", "uri_template"} <= ResourceTemplate.model_fields.keys(), CHANGED + "ResourceTemplate"
    assert "fn" in FunctionResource.model_fields and FunctionResource.__module__.startswith("mcp.")
    source = inspect.getsource(ResourceManager.get_resource)
    steps = ("self._resources.get(uri_str)", "self._templates.values()", "template.matches", "raise", "create_resource")
    assert sorted(steps, key=source.index) == list(steps), CHANGED + "the order in which a resource is looked for"


def test_an_mcpserver_comes_with_its_boundary_and_its_tracing() -> None:
    middleware = MCPServer("seams")._lowlevel_server.middleware
    kinds = [type(item) for item in middleware]
    assert isinstance(middleware, list), CHANGED + "Server.middleware"
    assert kinds.index(OpenTelemetryMiddleware) < kinds.index(RequestStateBoundary), CHANGED + "the middleware's order"


def test_a_boundary_holds_its_policy() -> None:
    policy = RequestStateSecurity.ephemeral()
    boundary = RequestStateBoundary(policy, default_audience="seams")
    assert getattr(boundary, "_security", None) is policy, CHANGED + "RequestStateBoundary._security"
    assert isinstance(policy.codec, AESGCMRequestStateCodec)
    assert "security.codec" in inspect.getsource(RequestStateBoundary), CHANGED + "the codec is no longer read late"
    assert policy.ttl == 600


def test_a_boundary_reads_the_arguments_of_the_context_that_it_is_given() -> None:
    """Where it opens a state, and where it seals the first one of a call; and it leaves that context as it is."""
    parts = [getattr(RequestStateBoundary, name) for name in ("_unseal", "_seal")]
    assert list(map(names, parts)) == [["ctx"], ["ctx", "state", "binding"]], CHANGED + "the boundary"
    source = inspect.getsource(RequestStateBoundary)
    assert source.count("_request_identity(ctx.method, ctx.params)") == 2, CHANGED + "what a state is bound to"
    assert source.count("self._unseal(ctx)") == 1 and source.count("self._seal(ctx, state, binding)") == 2


def test_a_codec_gets_the_claims_as_json() -> None:
    """With the state as its member `s`: that is where the call id is read from; `exp` is what ends its life."""
    source = inspect.getsource(RequestStateBoundary)
    assert '"s": state' in source and "compact_json(claims)" in source, CHANGED + "the sealed claims"
    assert '"iat": now' in source and '"exp": now + security.ttl' in source and "now < exp" in source
    assert compact_json({"b": "\u00e9", "a": 1}) == '{"b":"\\u00e9","a":1}', CHANGED + "compact_json"


def test_a_session_holds_its_connection() -> None:
    connection = Connection.from_envelope("2026-07-28", {"name": "n", "version": "1"}, {})
    session = ServerSession(None, connection)  # type: ignore[arg-type]  # nothing is sent
    assert getattr(session, "_connection", None) is connection, CHANGED + "ServerSession._connection"
    assert vars(session).get("_request_outbound", 0) is None, CHANGED + "ServerSession._request_outbound"
    other = copy.copy(connection)
    other.client_capabilities = None
    assert connection.client_capabilities is not None, CHANGED + "a connection's copy shares its capabilities"
    assert other.exit_stack is connection.exit_stack and connection.initialize_accepted


def test_a_tracer_provider_is_kept_where_it_is_looked_for() -> None:
    assert "_TRACER_PROVIDER is None" in inspect.getsource(trace.get_tracer_provider)
    assert hasattr(trace, "_TRACER_PROVIDER")


def test_a_connection_that_makes_its_parts_later_has_all_of_them() -> None:
    """And lets go of what no frame needs, a copy of it excepted, which shares them."""
    known = Connection.from_envelope("2026-07-28", {"name": "n", "version": "1"}, {})
    ours = Identity(known)
    later = {"initialized", "state", "exit_stack", "_client_params", "client_capabilities"}
    assert later < {*vars(known)}, CHANGED + "Connection"
    assert (ours.used, {*vars(ours)}) == (False, {*vars(known)} - later | {"_known"})
    other = copy.copy(ours)
    assert {name for name in vars(known) if not hasattr(ours, name)} == set(), CHANGED + "Connection"
    assert ours.used and other.exit_stack is ours.exit_stack and other.state is ours.state is not known.state
    assert ours.initialized.is_set() and ours.initialize_accepted


def test_the_manager_keeps_its_sessions_by_id() -> None:
    server = MCPServer("seams")
    app = server.streamable_http_app(streamable_http_path=serving.PATH)
    (route,) = [route for route in app.routes if isinstance(route, Route) and route.path == serving.PATH]
    endpoint: Any = route.endpoint
    manager = endpoint.session_manager
    found: Any = getattr(getattr(server, "_lowlevel_server", None), "session_manager", None)
    assert found is manager, CHANGED + "StreamableHTTPASGIApp.session_manager"
    assert getattr(found, "_server_instances", None) == {}, CHANGED + "StreamableHTTPSessionManager._server_instances"
    assert manager._has_started is False, CHANGED + "StreamableHTTPSessionManager._has_started"
    assert names(manager._admit_session) == ["requestor"], CHANGED + "StreamableHTTPSessionManager._admit_session"
    transport = manager._admit_session("somebody")
    assert manager._server_instances == {transport.mcp_session_id: transport}, CHANGED + "_server_instances"
    assert manager._session_owners == {transport.mcp_session_id: "somebody"}, CHANGED + "_session_owners"
    source = inspect.getsource(type(manager)._serve_opening_request)
    assert source.count("mcp_session_id") == 1, CHANGED + "StreamableHTTPSessionManager._serve_opening_request"


def test_a_session_sends_each_request_through_one_method() -> None:
    """`FrameSession` overrides it with the same parameters; all asks go through it."""
    wanted = ["request", "result_type", "request_read_timeout_seconds", "metadata", "progress_callback"]
    assert names(ServerSession.send_request) == wanted, CHANGED + "ServerSession.send_request"
    for ask in (
        ServerSession.elicit_form,
        ServerSession.elicit_url,
        ServerSession.create_message,
        ServerSession.list_roots,
    ):
        assert "self.send_request(" in inspect.getsource(ask), CHANGED + ask.__name__
    assert names(ServerSession.elicit_form) == ["message", "requested_schema", "related_request_id"]
    assert names(ServerSession.__init__) == ["request_outbound", "connection", "request_meta"]
    assert isinstance(inspect.getattr_static(ServerSession, "can_send_request"), property)


def test_the_layers_that_are_passed_over_are_as_they_were_read() -> None:
    """`tool_shortcut` says over again what they come to: read them anew, mend it, and put the digest in."""
    source = "".join(inspect.getsource(getattr(owner, name)) for owner, name in tool_shortcut.LAYERS)
    assert hashlib.sha256(source.encode()).hexdigest()[:16] == "189afff8a899a405", CHANGED + "how a tool is called"
    assert tool_shortcut._present_layers() == tool_shortcut._OWN_LAYERS, CHANGED + "where the layers are kept"


def test_a_request_context_has_the_fields_that_a_frame_reads_through() -> None:
    fields = {field.name for field in dataclasses.fields(ServerRequestContext)}
    live = {"request_id", "meta", "request", "close_sse_stream", "close_standalone_sse_stream"}
    kept = {"session", "lifespan_context", "protocol_version", "method", "params"}
    assert fields == live | kept, CHANGED + "ServerRequestContext"


def test_the_header_check_can_be_called() -> None:
    check = getattr(modern, "_mcp_param_rejection", None)
    assert inspect.iscoroutinefunction(check), CHANGED + "_mcp_param_rejection"
    assert names(check) == ["app", "request", "req", "verdict", "lifespan_state"], CHANGED + "_mcp_param_rejection"


def test_schemas_are_rendered_through_the_module() -> None:
    """`elicit_with_validation` looks the function up in its module at each call: another may stand in for it."""
    original = vars(form_schemas)["render_elicitation_schema"]
    assert names(original) == ["schema"] == names(form_schemas.rendered), CHANGED + "render_elicitation_schema"
    called = elicitation.elicit_with_validation.__code__.co_names
    assert "render_elicitation_schema" in called, CHANGED + "elicit_with_validation"


def test_the_runner_can_be_driven_in_parts() -> None:
    """`Kernel` is a runner that makes contexts and composes the chain itself."""
    assert names(ServerRunner)[:3] == ["server", "connection", "lifespan_state"], CHANGED + "ServerRunner"
    context = names(ServerRunner._make_context)
    assert context == ["dctx", "method", "params", "meta", "protocol_version"], CHANGED + "_make_context"
    made = "ServerSession(dctx, self.connection, request_meta=meta if dctx.request_id is not None else None)"
    assert made in inspect.getsource(ServerRunner._make_context), CHANGED + "_make_context"
    assert names(ServerRunner._serialize) == ["method", "version", "result"], CHANGED + "_serialize"
    assert names(methods.validate_client_request)[:3] == ["method", "version", "params"]
    source = inspect.getsource(ServerRunner._on_request)
    steps = ("validate_client_request", "get_request_handler", "model_validate", "entry.handler", "_serialize")
    assert sorted(steps, key=source.rindex) == list(steps), CHANGED + "the order of the kernel's steps"


def test_a_server_is_wrapped_by_public_means() -> None:
    server: Server[Any] = Server("seams")
    assert names(server.get_request_handler) == ["method"]
    assert names(server.add_request_handler)[:3] == ["method", "params_type", "handler"]
    assert callable(server.lifespan)
    assert server.get_tool_input_schema is None
    assert dict(server.server_info_stamp)["name"] == "seams"


def test_the_app_has_the_route_that_is_guarded() -> None:
    """One route for the path, whose endpoint is the SDK's app itself, or the wrapper that asks for a token."""
    app = MCPServer("seams").streamable_http_app(streamable_http_path=serving.PATH)
    (route,) = [route for route in app.routes if isinstance(route, Route) and route.path == serving.PATH]
    assert not isinstance(route.endpoint, RequireAuthMiddleware)
    assert names(RequireAuthMiddleware)[0] == "app", CHANGED + "RequireAuthMiddleware"
    assert names(TransportSecurityMiddleware.validate_request) == ["request", "is_post"]

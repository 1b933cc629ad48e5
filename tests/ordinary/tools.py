"""The server of both paths: tools that ask, end and fail in all the ways that a reply can show."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ImageContent, InputRequiredResult, TextContent
from pydantic import AnyHttpUrl, BaseModel, Field

import framehold


class Units(BaseModel):
    units: str


class Count(BaseModel):
    n: int
    why: str = "x"


class Shape(BaseModel):
    a: int
    b: list[str]


async def weather(location: str, ctx: Context) -> str:
    answer = await ctx.elicit("units?", Units)
    return f"{location} {answer.data.units if answer.action == 'accept' else answer.action}"


@framehold.reentrant
async def two(ctx: Context, x: int = 1) -> dict[str, Any]:
    first = await ctx.elicit(f"first {x}", Units)
    second = await ctx.elicit("second", Count)
    return {"first": first.action, "second": second.data.n if second.action == "accept" else second.action}


@framehold.reentrant
async def both(ctx: Context) -> list[str]:
    found = await asyncio.gather(ctx.elicit("A", Units), ctx.elicit("B", Count))
    return [answer.action for answer in found]


async def plain(text: str) -> str:
    return text


async def number(n: int, ctx: Context) -> int:
    await ctx.elicit("ok?", Units)
    return n * 2


async def shape(ctx: Context) -> Shape:
    answer = await ctx.elicit("ok?", Units)
    return Shape(a=1, b=[answer.action])


async def fails(kind: str, ctx: Context) -> str:
    if kind.endswith("late"):
        await ctx.elicit("really?", Units)
    if kind.startswith("tool"):
        raise ToolError("no such town")
    if kind.startswith("protocol"):
        raise MCPError(-32099, "own code", {"x": 1})
    raise RuntimeError("secret")


async def result(ctx: Context) -> CallToolResult:
    await ctx.elicit("ok?", Units)
    image = ImageContent(type="image", data="aaaa", mime_type="image/png")
    return CallToolResult(content=[TextContent(type="text", text="t"), image], structured_content={"k": [1, 2.5]})


async def nothing(ctx: Context) -> None:
    await ctx.elicit("ok?", Units)


async def many(ctx: Context, n: int = 2) -> str:
    return ",".join([(await ctx.elicit(f"question {number}", Count)).action for number in range(n)])


async def limited(n: int = Field(ge=0, le=5), tags: list[str] = Field(default_factory=list)) -> str:  # noqa: B008
    return f"{n} {tags}"


def sync(a: int) -> str:
    return str(a)


async def by_hand(ctx: Context) -> str | InputRequiredResult:
    given: Any = (ctx.input_responses or {}).get("u")
    if given is not None:
        return f"got {given.content} {ctx.request_state}"
    form = types.ElicitRequestFormParams(message="u?", requested_schema={"type": "object", "properties": {}})
    return InputRequiredResult(input_requests={"u": types.ElicitRequest(params=form)}, request_state="mine")


@framehold.reentrant
async def noisy(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    await ctx.elicit("ok?", Units)
    await ctx.report_progress(2, 2)
    return "done"


@framehold.reentrant
async def looks(ctx: Context) -> str:
    def seen() -> list[Any]:
        inner, session = ctx.request_context, ctx.session
        request: Any = inner.request
        request_ = [request.headers.get("mcp-name"), sorted(request.headers), request.url.path, "app" in request.scope]
        return [
            *(str(ctx.request_id), inner.method, inner.params, inner.meta, inner.protocol_version, request_),
            *(str(inner.lifespan_context), str(session.client_params), str(session.client_capabilities)),
            *(ctx.input_responses is None, ctx.request_state),
        ]

    before = seen()
    await ctx.elicit("ok?", Units)
    return json.dumps([before, seen()], sort_keys=True)


@framehold.reentrant
async def reads_its_body(ctx: Context) -> str:
    request: Any = ctx.request_context.request
    data = json.loads(await request.body())
    await ctx.elicit("ok?", Units)
    return f"{data['method']} {len(await ctx.request_context.request.body()) > 0}"  # type: ignore[union-attr]


@framehold.reentrant
async def url(ctx: Context) -> str:
    return (await ctx.elicit_url("go", "https://example.test/", "e1")).action


@framehold.reentrant
async def marked(ctx: Context) -> str:
    async def effect() -> int:
        return 7

    first = await framehold.once("first", effect)
    answer = await ctx.elicit("ok?", Units)
    return f"{first} {answer.action} {await framehold.once('second', effect)}"


@framehold.reentrant
@framehold.options(strategy="replay")
async def replayed(ctx: Context) -> str:
    return (await ctx.elicit("ok?", Units)).action


async def whose(ctx: Context) -> list[str]:
    seen = [get_access_token()]
    await ctx.elicit("ok?", Units)
    return [token.subject or "" if token else "nobody" for token in (*seen, get_access_token())]


@framehold.options(ttl=30)
async def brief(ctx: Context) -> str:
    return (await ctx.elicit("ok?", Units)).action


async def marks_its_meta(who: str, ctx: Context) -> str:
    """Nothing that a handler changes in its request is seen by the next, whose client may have an equal identity."""
    meta: Any = ctx.request_context.meta
    params: Any = ctx.request_context.params
    seen = [meta.get("who"), len(params["_meta"]["io.modelcontextprotocol/clientCapabilities"])]
    meta["who"], meta["progressToken"] = who, 1
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"].clear()
    params["_meta"]["who"] = who
    return json.dumps(seen)


async def takes_from(data: dict[str, Any], ctx: Context) -> str:
    """Its client sends the arguments again as they were."""
    data["inner"].pop("x")
    return (await ctx.elicit("ok?", Units)).action


async def asks_half(ctx: Context) -> str:
    """The whole message is escaped then, also the name of the server."""
    return (await ctx.elicit("half \ud800?", Units)).action


TOOLS = (
    *(weather, two, both, plain, number, shape, fails, result, nothing, many, limited, sync, by_hand, noisy, looks),
    *(reads_its_body, url, marked, replayed, whose, brief, marks_its_meta, takes_from, asks_half),
)


class Verifier:
    """Each access token is the name of its user; nobody has `x`."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return None if token == "x" else AccessToken(token=token, client_id="app", subject=token, scopes=[])


_URL = AnyHttpUrl("http://127.0.0.1:9")


def server(is_guarded: bool = False) -> MCPServer[Any]:
    auth = AuthSettings(issuer_url=_URL, resource_server_url=_URL, validate_token_resource=False)
    guard: dict[str, Any] = {"token_verifier": Verifier(), "auth": auth} if is_guarded else {}
    made: MCPServer[Any] = MCPServer("ördinary", log_level="CRITICAL", **guard)
    for tool in TOOLS:
        made.tool(description="A tool of this test.")(tool)

    @made.tool(structured_output=False)
    async def loose(text: str, ctx: Context) -> Any:
        await ctx.elicit("ok?", Units)
        return text

    made.tool(description="Its parameter is resolved by asking.")(resolved)
    made.prompt()(greeting)
    made.prompt()(silent)
    made.resource("place://{name}")(place)
    made.resource("all://places")(places)
    return made


async def ask_units() -> Elicit[Units]:
    return Elicit("units?", Units)


async def resolved(location: str, units: Annotated[Units, Resolve(ask_units)]) -> str:
    return f"{location} {units.units}"


async def greeting(name: str, ctx: Context) -> str:
    answer = await ctx.elicit(f"{name}?", Units)
    return f"hello {name} {answer.action}"


def silent(name: str, more: str = "x") -> list[str]:
    if name == "a":
        raise ValueError(name)
    return [name, more]


@framehold.reentrant
async def place(name: str, ctx: Context) -> str:
    answer = await ctx.elicit("ok?", Units)
    return f"{name} {answer.action}"


async def places() -> str:
    return "all"


def low_level(is_listing: bool) -> Server[Any]:
    """A low-level server with a tool that asks. One that lists its tools declares no function for their schemas."""

    async def call(ctx: Any, params: types.CallToolRequestParams) -> CallToolResult:
        answer = await ctx.session.elicit_form("units?", Units.model_json_schema())
        given = json.dumps(params.arguments)
        return CallToolResult(content=[TextContent(type="text", text=f"{params.name} {given} {answer.action}")])

    async def tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema={"type": "object"})])

    schemas: dict[str, Any] = {"weather": {"type": "object"}}
    if is_listing:
        return Server("low", on_call_tool=call, on_list_tools=tools)
    return Server("low", on_call_tool=call, get_tool_input_schema=schemas.get)

"""One meaning of a body, however it is written: the SDK, a router and a node read alike."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, encode_header_value
from mcp.types import CallToolRequestParams, CallToolResult, ElicitResult, TextContent
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel

import framehold
from framehold.config import Settings
from framehold.http import classify
from framehold_core import token
from framehold_core.ids import CallId
from framehold_fleet.http_server.message import Request
from framehold_fleet.http_server.request_head import RequestHead
from framehold_router.routing import request_facts
from framehold_router.routing.request_facts import WITH_SAGAS, Facts, RequestKind
from tests.kit.beside_sdk import twins
from tests.kit.client import Caller, Envelope, Reply
from tests.kit.nodes import served
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said, serving
from tests.node.http.test_relay import Site, fleet

pytestmark = pytest.mark.anyio


HALF = "cut \ud83d"
DEEP: Any = json.loads("[" * 250 + "]" * 250)
TWICE = '{"params": {"requestState": "h1.nonsense"}, "method": "ping", "id": 0,'
SPELLINGS: dict[str, Callable[[str], bytes]] = {
    "UTF-8": lambda text: text.encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big-endian": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "half a pair as bytes": lambda text: text.replace("\\ud83d", "\ud83d").encode("utf-8", "surrogatepass"),
    "keys twice": lambda text: (TWICE + text.lstrip()[1:]).encode(),
    "all escaped": lambda text: text.replace("call", "\\u0063\\u0061\\u006c\\u006c").encode(),
    "spaces": lambda text: f"\r\n\t {text} \n".encode(),
    "no number": lambda text: text.replace("12345", "NaN").encode(),
    "a number without end": lambda text: text.replace("12345", "1" * 4000).encode(),
    "an exponent without end": lambda text: text.replace("12345", "1e99999").encode(),
}
VALUES: tuple[Any, ...] = ("x", HALF, {HALF: 1}, DEEP, 12345, [12345, HALF], None)


def fails(text: str) -> bytes:
    """No JSON."""
    return text.encode()[:-1]


def bodies() -> list[tuple[str, bytes]]:
    """Requests in all spellings: with and without a token, with values that a fast reader refuses, and broken ones."""
    draw, made = random.Random(12), []
    call = CallId("0123456789abcdef" * 2)
    for spelling, spelled in [*SPELLINGS.items(), ("broken", fails)]:
        for method in (*sorted(WITH_SAGAS), "ping", "tools/list"):
            for value in VALUES:
                state = draw.choice([token.hold(call, "sealed"), "s.sealed", HALF, 5, None, "absent"])
                params: Any = {"name": "tool", "arguments": {"value": value}}
                if state != "absent":
                    params["sagaToken" if method == "tools/resumeSaga" else "requestState"] = state
                params = draw.choice([params] * 8 + [None, [], "text"])
                text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
                made.append((spelling, spelled(text)))
    return made


def meant(data: bytes) -> Facts:
    """What a body means for placement, by `json` alone."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return Facts(RequestKind.ANY)
    method, params = body.get("method"), body.get("params")
    if method not in WITH_SAGAS or type(params) not in (dict, type(None)):
        return Facts(RequestKind.ANY)
    state = None if params is None else params.get("sagaToken" if method == "tools/resumeSaga" else "requestState")
    if type(state) not in (str, type(None)):
        return Facts(RequestKind.ANY)
    call = token.named(state) if state else None
    return Facts(RequestKind.START) if call is None else Facts(RequestKind.RETRY, call)


def test_a_router_reads_what_json_reads() -> None:
    made = bodies()
    headers = [(b"host", b"h"), (b"mcp-protocol-version", b"2026-07-28")]
    found = [
        request_facts.read(Request(RequestHead(b"POST", b"/mcp", headers, ""), data), WITH_SAGAS) for _, data in made
    ]
    wrong = {spelling for (spelling, data), facts in zip(made, found, strict=True) if facts != meant(data)}
    assert wrong == set() and {facts.kind for facts in found} == {RequestKind.START, RequestKind.RETRY, RequestKind.ANY}


def test_a_node_reads_what_json_reads() -> None:
    read = 0
    for spelling, data in bodies():
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        names = {} if body is None or type(body["params"]) is not dict else body["params"]
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers = [(b"mcp-protocol-version", b"2026-07-28")]
        if body is not None:
            headers.append((b"mcp-method", body["method"].encode()))
            headers += [(b"mcp-name", str(names.get("name", "")).encode())] if names else []
        whole = data if body is None or not names else json.dumps({**body, "params": {**names, "_meta": meta}}).encode()
        found = classify.classified(headers, whole)
        assert (found is not None) == bool(names), spelling
        if found is not None:
            assert repr(found.params) == repr({**names, "_meta": meta}), spelling
            read += 1
    assert read > 100


@pytest.mark.parametrize("other", [{"sagaToken": 5}, {"sagaToken": "h1.x"}, {HALF: 1}], ids=["kind", "text", "key"])
def test_what_a_request_has_besides_keeps_no_token_from_the_router(other: dict[str, Any]) -> None:
    """A node ignores a field that the method does not have, whatever it is."""
    call = CallId("0123456789abcdef" * 2)
    params = {"name": "tool", "requestState": token.hold(call, "sealed"), **other}
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, **other}).encode()
    assert request_facts.read(Request(RequestHead(b"POST", b"/mcp", [], ""), data)) == Facts(RequestKind.RETRY, call)


@pytest.mark.parametrize("method", [HALF, "größe", ""])
async def test_a_method_that_no_header_can_say_is_refused_as_the_sdk_does(method: str) -> None:
    async with twins() as client:
        _, retry = await client.parked()
        ours, sdk = await client.both(retry.but(method=method))
        assert ours.verdict == sdk.verdict == (400, -32020)
        await client.completes(retry)


async def post(caller: Caller, envelope: Envelope, spelled: Callable[[str], bytes]) -> Reply:
    async with httpx2.AsyncClient(verify=False, timeout=60) as http:
        response = await http.post(caller.url, content=spelled(json.dumps(envelope.body)), headers=envelope.headers)
    return Reply(response.status_code, response.headers, response.json())


@pytest.fixture
async def pair(redis: RedisServer, tmp_path: Any) -> AsyncIterator[tuple[Site, Site]]:
    async with fleet(redis, tmp_path.name, "a", "b", route_headers=True) as sites:
        yield sites["a"], sites["b"]


WAYS: dict[str, dict[str, Any]] = {"held": {}, "rebuilt": {"rehearse": True}, "replayed": {"strategy": "replay"}}


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS)
async def test_half_a_pair_goes_through_questions_answers_and_results(settings: dict[str, Any]) -> None:
    """As the SDK alone lets it through in questions that a handler returns."""

    @framehold.reentrant
    async def ask(value: Any, ctx: Context) -> str:
        """Ask with what came, twice."""
        first = said(await ctx.elicit(f"{HALF}: {value}?", Word))
        url = await ctx.elicit_url(f"{HALF}?", f"https://example.com/{first}", "id")
        return json.dumps([first, url.action, value])

    async with serving(ask, **settings) as client:

        async def send(before: Reply | None = None, **answers: Any) -> Reply:
            params: dict[str, Any] = {"name": "ask", "arguments": {"value": HALF}}
            if before is not None:
                params |= {"requestState": before.token, "inputResponses": answers}
            return await post(client, client.envelope("tools/call", params), SPELLINGS["UTF-8"])

        reply = await send()
        assert reply.messages == [f"{HALF}: {HALF}?"]
        reply = await send(reply, **reply.accept(word=HALF))
        assert reply.messages == [f"{HALF}?"]
        reply = await send(reply, **{key: {"action": "accept"} for key in reply.asked})
        assert json.loads(reply.text) == [HALF, "accept", HALF]


@pytest.mark.parametrize("host", [None, "attacker.example"])
async def test_a_slash_too_many_leads_nowhere_else(host: str | None) -> None:
    """`/mcp/` is served as `/mcp`, with its checks. Starlette would redirect it to the Host that the client named."""

    async def hello() -> str:
        """Says hello."""
        return "hello"

    async with serving(hello) as client, httpx2.AsyncClient() as http:
        envelope = client.envelope("tools/call", {"name": "hello", "arguments": {}})
        headers = {**envelope.headers, **({} if host is None else {"host": host})}
        replies = [await http.post(url, json=envelope.body, headers=headers) for url in (client.url, client.url + "/")]
    assert [reply.status_code for reply in replies] == ([200, 200] if host is None else [421, 421])
    assert replies[0].content == replies[1].content and "location" not in replies[1].headers


class Amount(BaseModel):
    n: float


@framehold.reentrant
async def ask(value: Any, ctx: Context) -> str:
    """Ask, and say what came as it came."""
    answer = await ctx.elicit("How much?", Amount)
    return json.dumps([value, answer.data.n if answer.action == "accept" else answer.action])


async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
    answer = await ctx.session.elicit_form("How much?", {"type": "object", "properties": {"n": {"type": "number"}}})
    assert isinstance(answer, ElicitResult)
    said = (answer.content or {}).get("n") if answer.action == "accept" else answer.action
    text = json.dumps([(params.arguments or {})["value"], said])
    return CallToolResult(content=[TextContent(type="text", text=text)])


def high() -> Any:
    server: MCPServer[Any] = MCPServer("high")
    server.tool()(ask)
    return server


SERVERS: dict[str, Callable[[], Any]] = {"MCPServer": high, "low-level": lambda: Server("low", on_call_tool=call_tool)}
WRITTEN: dict[str, tuple[Any, Any]] = {
    "a double as an integer": (1.0, 1),
    "an integer as a double": (1, 1.0),
    "deeper": ({"a": [100, {"b": 2.0}]}, {"a": [1e2, {"b": 2}]}),
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("strategy", ["hold", "replay"])
async def test_arguments_that_are_written_otherwise_are_the_same(server: str, written: str, strategy: str) -> None:
    """In each round. A handler has those of the request that it is entered with: under strategy replay, of each."""
    first, then = WRITTEN[written]
    # A low-level server has no marks, so its calls are held.
    settings = Settings(node_id="n", strategy=strategy if server == "MCPServer" else "hold")
    app = framehold.asgi(SERVERS[server](), settings)
    async with served(app) as url, Caller(url) as caller:
        asked = await caller.call("ask", arguments={"value": first})
        done = await caller.retry("ask", asked.token, asked.accept(n=2), arguments={"value": then})
        value, said = json.loads(done.text)
        # Python takes 1 for 1.0, its `repr` does not.
        came = first if settings.strategy == "hold" else then
        assert (repr(value), said) == (repr(came), 2), done.message
        asked = await caller.call("ask", arguments={"value": first})
        other = await caller.retry("ask", asked.token, asked.accept(n=2), arguments={"value": 3})
        assert other.code == -32602


def answers(reply: Reply, **answer: Any) -> dict[str, Any]:
    return dict.fromkeys(reply.asked, answer)


AGAIN: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "a number": ({"action": "accept", "content": {"n": 1.0}}, {"action": "accept", "content": {"n": 1}}, 1.0),
    "declined, with content": ({"action": "decline"}, {"action": "decline", "content": None}, "decline"),
    "other meta": ({"action": "cancel", "_meta": {"a": 1}}, {"action": "cancel", "_meta": {"a": 2}}, "cancel"),
}


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("settings", [{}, {"rehearse": True}], ids=["held", "rebuilt"])
async def test_an_answer_that_is_written_otherwise_is_the_same(again: str, settings: dict[str, Any]) -> None:
    first, then, said = AGAIN[again]
    async with serving(ask, **settings) as client:
        given = {"arguments": {"value": "x"}}
        asked = await client.call("ask", **given)
        for answer in (first, then):
            done = await client.retry("ask", asked.token, answers(asked, **answer), **given)
            assert json.loads(done.text) == ["x", said]
        other = answers(asked, action="accept", content={"n": 7})
        assert "reason" in (await client.retry("ask", asked.token, other, **given)).message["error"]["data"]


_META = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}
_METAS: tuple[Any, ...] = (
    _META,
    {**_META, CLIENT_INFO_META_KEY: None},
    {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION},
    None,
    [],
)
_VERSIONS = (LATEST_MODERN_VERSION, "2025-11-25", None, 20260728, [LATEST_MODERN_VERSION])
_NAMES = ("echo", "grüße", "日本", "=?base64?ZWNobw==?=", "=?", "", None, 5)
_METHODS = ("tools/call", "resources/read", "tools/callSaga")


def _headers(**text: str | None) -> list[tuple[bytes, bytes]]:
    names = {name: f"mcp-{name.replace('_', '-')}".encode() for name in text}
    return [(names[name], value.encode("latin-1")) for name, value in text.items() if value is not None]


def _bodies() -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = []
    for method, meta, name in itertools.product(_METHODS, _METAS, _NAMES):
        key = "uri" if method == "resources/read" else "name"
        bodies.append({"jsonrpc": "2.0", "id": 1, "method": method, "params": {key: name, "_meta": meta}})
    for version in _VERSIONS:
        params = {"name": "echo", "_meta": {**_META, PROTOCOL_VERSION_META_KEY: version}}
        bodies.append({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return bodies


@pytest.mark.parametrize("body", _bodies(), ids=json.dumps)
def test_a_glance_and_the_ladder_agree(body: dict[str, Any]) -> None:
    encoded = [encode_header_value(name) for name in _NAMES if isinstance(name, str)]
    names = dict.fromkeys([None, "echo", "grüße", "=?base64?ZWNobw==?=", "=?", "", *encoded])
    for method, version, name in itertools.product(_METHODS, (LATEST_MODERN_VERSION, "2025-11-25", None), names):
        headers = _headers(protocol_version=version, method=method, name=name)
        text = {key.decode(): value.decode("latin-1") for key, value in headers}
        passes = isinstance(classify_inbound_request(body, headers=text), InboundModernRoute)
        assert (classify.classified(headers, json.dumps(body).encode()) is not None) == passes


def test_a_header_that_is_there_twice_is_not_ordinary() -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "_meta": _META}})
    headers = _headers(protocol_version=LATEST_MODERN_VERSION, method="tools/call", name="echo")
    assert classify.classified(headers, body.encode()) is not None
    for header in headers:
        assert classify.classified([*headers, header], body.encode()) is None


def test_its_route_is_the_ladders() -> None:
    headers = _headers(protocol_version=LATEST_MODERN_VERSION, method="tools/call", name="echo")
    for info in ({}, {CLIENT_INFO_META_KEY: {"name": "n", "version": "1"}}):
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "echo", "_meta": {**_META, **info}},
        }
        found = classify.classified(headers, json.dumps(body).encode())
        assert found is not None and found.route == classify_inbound_request(body)

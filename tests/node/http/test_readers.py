"""One meaning of a body: whatever Python's `json` reads, and so the SDK, a router and a node read alike.

Clients write JSON in many ways: a JavaScript client escapes half of a surrogate pair where it has cut a text inside of
an emoji, others send a byte order mark or UTF-16, and gateways write keys twice."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.http import classify
from framehold_core import token
from framehold_core.ids import CallId
from framehold_fleet.http_server.message import Request
from framehold_fleet.http_server.request_head import RequestHead
from framehold_router.routing import request_facts
from framehold_router.routing.request_facts import WITH_SAGAS, Facts, RequestKind
from tests.node.http.test_relay import Site, fleet
from tests.node.served import edge
from tests.node.stage import Word, said, stage
from tests.store.server import RedisServer
from tests.wire import Caller, Envelope, Reply

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
    async with edge() as client:
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

    async with stage(ask, **settings) as client:

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

    async with stage(hello) as client, httpx2.AsyncClient() as http:
        envelope = client.envelope("tools/call", {"name": "hello", "arguments": {}})
        headers = {**envelope.headers, **({} if host is None else {"host": host})}
        replies = [await http.post(url, json=envelope.body, headers=headers) for url in (client.url, client.url + "/")]
    assert [reply.status_code for reply in replies] == ([200, 200] if host is None else [421, 421])
    assert replies[0].content == replies[1].content and "location" not in replies[1].headers

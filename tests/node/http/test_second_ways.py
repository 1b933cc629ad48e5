"""Each refusal of the ordinary way, `tools/call` over HTTP on 2026-07-28, asked on each other way to the same tools.

A cell of the table is a request on one way that is refused as on the ordinary way, or the reason why there is no such
request: `Row.absent`."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from starlette.types import Message

import framehold
from framehold.config import Settings
from tests.kit.beside_sdk import RawRequest
from tests.node.ways import BEN, MAX_BODY, WAYS, Make, Ran, Way, of_fastmcp, of_the_sdk

pytestmark = pytest.mark.anyio

Change = Callable[[Way, RawRequest], RawRequest]
PARSE, INVALID, PARAMS, MISSING, MISMATCH, VERSIONS = -32700, -32600, -32602, -32601, -32020, -32022
TOKEN_TTL = Settings.model_fields["token_ttl"].default
RESULT = (200, "result")


class Row(NamedTuple):
    """A refusal of the ordinary way.

    - `change`: what makes it of a good request
    - `verdict`: status and code of the refusal; the code is that of JSON-RPC, or what the body says
    - `asked`: of which good requests it is made; both by default
    - `absent`: the ways on which there is no such request, with the reason
    """

    change: Change
    verdict: tuple[int, Any]
    absent: Mapping[str, str] = {}
    asked: tuple[str, ...] = ("first", "retry")


def on(ways: str, why: str) -> dict[str, str]:
    """One reason for these ways, which are separated by commas."""
    return dict.fromkeys(ways.split(", "), why)


NO_HTTP = on("stdio, stdio saga", "there is no HTTP: who starts the process is its client")
NO_BODY = on("stream", "a GET has no body")
NO_ROUTING = on(
    "session, session saga, stream", "a session of 2025 has no routing headers, and no gateway rules by them"
)
NO_META = on("session, session saga", "a session of 2025 said it once, in its handshake")
SEALED = on("saga, session saga, stdio saga", "a resume names neither: they are sealed in its token")
DROPPED = on("session, session saga", "a session takes it for a notification, and drops it")
NO_LINE = on("stdio, stdio saga", "the SDK drops such a line: nothing says which request it was")


def stranger(token: str) -> Change:
    """With another access token."""
    return lambda way, w: w.having(authorization=f"Bearer {token}")


def named(request: RawRequest, tool: str) -> RawRequest:
    """For another tool, in the header too where there is one."""
    return (request.having(mcp_name=tool) if "mcp-name" in dict(request.headers) else request).params(name=tool)


HTTP = {
    "another host": Row(lambda way, w: w.having(host="evil.example"), (421, ...), NO_HTTP),
    "another origin": Row(lambda way, w: w.having(origin="http://evil.example"), (403, ...), NO_HTTP),
    "another content type": Row(lambda way, w: w.having(content_type="text/plain"), (400, ...), NO_HTTP | NO_BODY),
    "accepts pictures": Row(lambda way, w: w.having(accept="image/png"), (406, ""), NO_HTTP),
    "too large a body": Row(lambda way, w: w.saying(w.body + b" " * MAX_BODY), (413, ...), NO_HTTP | NO_BODY),
    "nobody": Row(lambda way, w: w.without("authorization"), (401, ...), NO_HTTP),
    "nobody's token": Row(stranger("eve/use"), (401, ...), NO_HTTP),
    "an expired access token": Row(stranger("ann/expired"), (401, ...), NO_HTTP),
    "another scope": Row(stranger("ann/look"), (403, ...), NO_HTTP),
    "a method of HTTP that is none": Row(lambda way, w: replace(w, method="PUT"), (405, ...), NO_HTTP),
    "/admin without the secret": Row(
        lambda way, w: replace(w, method="GET", path="/admin/node", body=b"", chunked=False),
        (403, ...),
        NO_HTTP | on("routed", "the router serves no /admin at all: 404"),
    ),
    "/admin with a secret of its own": Row(
        lambda way, w: replace(
            w.having(framehold_secret="0" * 64), method="GET", path="/admin/node", body=b"", chunked=False
        ),
        (403, ...),
        NO_HTTP | on("routed", "the router serves no /admin at all: 404"),
    ),
}

ROUTING = {
    "two methods": Row(lambda way, w: w.adding(mcp_method="tools/call"), (400, MISMATCH)),
    "two names": Row(lambda way, w: w.adding(mcp_name="visit"), (400, MISMATCH)),
    "another method": Row(lambda way, w: w.having(mcp_method="prompts/get"), (400, MISMATCH)),
    "no method": Row(lambda way, w: w.without("mcp-method"), (400, MISMATCH)),
    "another name": Row(lambda way, w: w.having(mcp_name="harmless"), (400, MISMATCH)),
    "no name": Row(lambda way, w: w.without("mcp-name"), (400, MISMATCH)),
    "another argument": Row(lambda way, w: w.having(mcp_param_region="south"), (400, MISMATCH)),
    "no argument": Row(lambda way, w: w.without("mcp-param-region"), (400, MISMATCH)),
    "two arguments": Row(lambda way, w: w.adding(mcp_param_region="north"), (400, MISMATCH)),
    "a malformed argument": Row(lambda way, w: w.having(mcp_param_region="=?base64?!!?="), (400, MISMATCH)),
    "another version": Row(lambda way, w: w.having(mcp_protocol_version="2027-01-01"), (400, MISMATCH)),
}
ROUTING = {name: row._replace(absent=NO_HTTP | NO_ROUTING) for name, row in ROUTING.items()}

ENVELOPES = {
    "cut short": Row(lambda way, w: w.saying(w.body[:-1]), (400, PARSE), NO_BODY | NO_LINE),
    "a batch": Row(lambda way, w: w.saying(b"[" + w.body + b"]"), (400, INVALID), NO_BODY | NO_LINE),
    "an id that is a list": Row(lambda way, w: w.but(id=[1]), (400, INVALID), NO_BODY | NO_LINE | DROPPED),
    "parameters that are a list": Row(lambda way, w: w.but(params=["visit"]), (400, INVALID), NO_BODY | NO_LINE),
    "a version to come": Row(
        lambda way, w: w.having(mcp_protocol_version="2027-01-01").meta(protocolVersion="2027-01-01"),
        (400, VERSIONS),
        NO_BODY | NO_META,
    ),
    "capabilities that are a list": Row(lambda way, w: w.meta(clientCapabilities=[]), (400, PARAMS), NO_BODY | NO_META),
    "a client that is a number": Row(lambda way, w: w.meta(clientInfo=5), (400, PARAMS), NO_BODY | NO_META),
    "a progress token that is a list": Row(
        lambda way, w: w.params(_meta={**json.loads(w.body)["params"].get("_meta", {}), "progressToken": []}),
        (400, PARAMS),
        NO_BODY,
    ),
    "_meta that is a text": Row(lambda way, w: w.params(_meta="x"), (400, PARAMS), NO_BODY),
    "an unknown method": Row(
        lambda way, w: w.having(mcp_method="tools/burn").but(method="tools/burn"), (404, MISSING), NO_BODY
    ),
    "a name that is null": Row(lambda way, w: w.params(name=None), (400, PARAMS), NO_BODY, ("first",)),
    "arguments that are a list": Row(lambda way, w: w.params(arguments=[1]), (400, PARAMS), NO_BODY, ("first",)),
    "an unknown tool": Row(lambda way, w: named(w, "other"), RESULT, NO_BODY, ("first",)),
    "a tool that needs another scope": Row(
        lambda way, w: named(w, "delete").without("mcp-param-region").params(arguments={}),
        RESULT,
        NO_BODY | NO_HTTP,
        ("first",),
    ),
}


def forged(way: Way, w: RawRequest) -> RawRequest:
    """The token with another last byte."""
    token = json.loads(w.body)["params"][way.token]
    head, _, sealed = token.rpartition(".")
    data = bytearray(base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)))
    data[-1] ^= 1
    return w.params(**{way.token: f"{head}.{base64.urlsafe_b64encode(data).decode().rstrip('=')}"})


NO_ARGUMENTS = NO_BODY | SEALED
TOKENS = {
    "a forged token": Row(forged, (400, PARAMS), NO_BODY),
    "a token cut short": Row(
        lambda way, w: w.params(**{way.token: json.loads(w.body)["params"][way.token][:-2]}), (400, PARAMS), NO_BODY
    ),
    "a token that is a number": Row(lambda way, w: w.params(**{way.token: 5}), (400, PARAMS), NO_BODY),
    "the token of another user": Row(
        lambda way, w: w.having(authorization=BEN),
        (400, PARAMS),
        NO_BODY | NO_HTTP | on("session, session saga", "the session itself is another user's: 404"),
    ),
    "other arguments": Row(
        lambda way, w: w.params(arguments={"region": "south", "asks": True}).having(mcp_param_region="south"),
        (400, PARAMS),
        NO_ARGUMENTS,
    ),
    "another tool": Row(lambda way, w: named(w, "other"), (400, PARAMS), NO_ARGUMENTS),
    "answers that are a text": Row(lambda way, w: w.params(**{way.answers: "x"}), (400, PARAMS), NO_BODY),
}
TOKENS = {name: row._replace(asked=("retry",)) for name, row in TOKENS.items()}
TABLE = HTTP | ROUTING | ENVELOPES | TOKENS
OF_2025 = {"session", "session saga", "stream"}


def same(way: Way, verdict: tuple[int, Any], wanted: tuple[int, Any]) -> bool:
    """Whether a verdict is the one that the ordinary way gives. `...` is any code. A session of 2025 has the same
    status with a code of its own, or the same code within a stream; standard output has codes alone."""
    (status, code), (status_wanted, code_wanted) = verdict, wanted
    is_status, is_code = status == status_wanted, code_wanted in (..., code)
    if way.name in OF_2025:
        return is_status if status != 200 else is_code
    return is_code and (is_status or status == 0)


async def differences(way: Way) -> dict[tuple[str, str], Any]:
    """The requests that are not refused as on the ordinary way, with their verdict and that one."""
    wrong: dict[tuple[str, str], Any] = {}
    for row, (change, wanted, absent, asked) in TABLE.items():
        requests = {kind: request for kind, request in way.good().items() if kind in asked}
        assert requests or way.name in absent, f"{row}: neither a request nor a reason"
        for kind, request in () if way.name in absent else requests.items():
            reply = await way.send(change(way, request))
            if not same(way, reply.verdict, wanted):
                wrong[row, kind] = reply.verdict, wanted
    return wrong


CLAIMS = {"framehold_secret": "0" * 64, "framehold_via": "node", "framehold_call_id": "c" * 32}


async def serves(way: Way) -> None:
    """The good requests are served, whatever internal headers their client adds."""
    for kind, text in (("first", "north"), ("retry", "north: aye")):
        if kind not in way.good() or kind == way.unserved:
            continue
        reply = await way.send(way.good()[kind].adding(**CLAIMS))
        assert same(way, reply.verdict, RESULT), reply.verdict
        assert reply.message["result"]["content"][0]["text"] == text
        assert not [header for header in reply.headers if header.startswith("framehold-")]


@pytest.mark.parametrize("make", [of_the_sdk, of_fastmcp])
@pytest.mark.parametrize("name", WAYS)
async def test_each_way_refuses_what_the_ordinary_way_refuses(
    name: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No handler is entered or resumed by a refused request, and the good ones are served after all of them."""
    async with WAYS[name](make) as way:
        before = list(way.ran)
        assert await differences(way) == {}
        if way.retry is not None:
            late = time.time() + TOKEN_TTL + 1
            with monkeypatch.context() as patch:
                patch.setattr(time, "time", lambda: late)
                assert same(way, (await way.send(way.retry)).verdict, (400, PARAMS)), "an expired token"
            if way.unserved == "retry":
                assert same(way, (await way.send(way.retry)).verdict, (400, PARAMS)), "a token of another revision"
        assert way.ran == before
        await serves(way)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/admin/node", "/metrics", "/healthz"])
async def test_nothing_of_ours_is_served_over_websocket(path: str) -> None:
    """Routes of the author's may be: `test_app_of_the_author.py` has what these see."""
    ran: Ran = []
    app = framehold.asgi(of_the_sdk(ran), Settings(node_id="ways"))
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async with app.lifespan():
        headers = [(b"host", b"localhost"), (b"authorization", b"Bearer ann/use")]
        await app({"type": "websocket", "path": path, "query_string": b"", "headers": headers}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert ran == []

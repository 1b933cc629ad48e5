"""Bad requests at the HTTP edge: refused as the SDK's own app refuses the same bytes, and nothing parked is lost by it.

Each bad request here is made of the good retry of a parked call: had it been taken, the handler would have resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.beside_sdk import RawRequest, TwinClient, raw, send, twins
from tests.kit.client import VERSION

pytestmark = pytest.mark.anyio

Change = Callable[[RawRequest], RawRequest]
PARSE, INVALID, PARAMS, MISSING, MISMATCH, VERSIONS = -32700, -32600, -32602, -32601, -32020, -32022
DEPTH, NESTED = 100_000, 40_000


async def refused(client: TwinClient, cases: dict[str, tuple[Change, int, Any]]) -> None:
    """Each case gets its own verdict from us and from the SDK, and the parked call completes after all of them."""
    _, retry = await client.parked()
    ours: dict[str, tuple[int, Any]] = {}
    theirs: dict[str, tuple[int, Any]] = {}
    for name, (change, _, _) in cases.items():
        result, plain = await client.both(change(retry))
        ours[name], theirs[name] = result.verdict, plain.verdict
    assert ours == {name: (status, code) for name, (_, status, code) in cases.items()}
    assert ours == theirs
    await client.completes(retry)


BODIES: dict[str, tuple[Change, int, Any]] = {
    "cut short": (lambda w: w.saying(w.body[:-1]), 400, PARSE),
    "empty": (lambda w: w.saying(b""), 400, PARSE),
    "not UTF-8": (lambda w: w.saying(w.body.replace(b'"aye"', b'"\xff"')), 400, PARSE),
    "nested lists": (lambda w: w.saying(b"[" * DEPTH + b"]" * DEPTH), 400, PARSE),
    "nested argument": (lambda w: w.saying(w.body.replace(b'"aye"', b"[" * DEPTH + b"]" * DEPTH)), 400, PARSE),
    "nested objects": (
        lambda w: w.saying(w.body.replace(b'"aye"', b'{"a":' * NESTED + b"1" + b"}" * NESTED)),
        400,
        PARSE,
    ),
    "5,000 digits": (lambda w: w.saying(w.body.replace(b'"aye"', b"9" * 5000)), 400, PARSE),
    "two values": (lambda w: w.saying(w.body + b"{}"), 400, PARSE),
    "a batch": (lambda w: w.saying(b"[" + w.body + b"]"), 400, INVALID),
    "a batch of two": (lambda w: w.saying(b"[" + w.body + b"," + w.body + b"]"), 400, INVALID),
    "a text": (lambda w: w.saying('"tools/call"'), 400, INVALID),
    "a number": (lambda w: w.saying("5"), 400, INVALID),
    "null": (lambda w: w.saying("null"), 400, INVALID),
    "a response": (lambda w: w.but(method=..., params=..., result={}), 400, INVALID),
}

ENVELOPES: dict[str, tuple[Change, int, Any]] = {
    "jsonrpc 1.0": (lambda w: w.but(jsonrpc="1.0"), 400, INVALID),
    "jsonrpc 2.0 as a number": (lambda w: w.but(jsonrpc=2.0), 400, INVALID),
    "no jsonrpc": (lambda w: w.but(jsonrpc=...), 400, INVALID),
    "id null": (lambda w: w.but(id=None), 400, INVALID),
    "id true": (lambda w: w.but(id=True), 400, INVALID),
    "id 1.5": (lambda w: w.but(id=1.5), 400, INVALID),
    "id a list": (lambda w: w.but(id=[1]), 400, INVALID),
    "no id": (lambda w: w.but(id=...), 202, ""),
    "method null": (lambda w: w.but(method=None), 400, INVALID),
    "method a number": (lambda w: w.but(method=5), 400, INVALID),
    "no method": (lambda w: w.but(method=...), 400, INVALID),
    "params null": (lambda w: w.but(params=None), 400, PARAMS),
    "no params": (lambda w: w.but(params=...), 400, PARAMS),
    "params a list": (lambda w: w.but(params=["ask"]), 400, INVALID),
    "params a text": (lambda w: w.but(params="ask"), 400, INVALID),
    "_meta null": (lambda w: w.params(_meta=None), 400, PARAMS),
    "no _meta": (lambda w: w.params(_meta=...), 400, PARAMS),
    "_meta a text": (lambda w: w.params(_meta="x"), 400, PARAMS),
    "_meta empty": (lambda w: w.params(_meta={}), 400, PARAMS),
    "no version": (lambda w: w.meta(protocolVersion=...), 400, PARAMS),
    "version a number": (lambda w: w.meta(protocolVersion=20260728), 400, MISMATCH),
    "version null": (lambda w: w.meta(protocolVersion=None), 400, MISMATCH),
    "no capabilities": (lambda w: w.meta(clientCapabilities=...), 400, PARAMS),
    "capabilities null": (lambda w: w.meta(clientCapabilities=None), 400, PARAMS),
    "capabilities a list": (lambda w: w.meta(clientCapabilities=[]), 400, PARAMS),
    "elicitation a number": (lambda w: w.meta(clientCapabilities={"elicitation": 5}), 400, PARAMS),
    "client a number": (lambda w: w.meta(clientInfo=5), 400, PARAMS),
    "client without a name": (lambda w: w.meta(clientInfo={"version": "1"}), 400, PARAMS),
    "progress token null": (lambda w: w.meta(progressToken=None), 400, PARAMS),
    "progress token a list": (lambda w: w.meta(progressToken=[]), 400, PARAMS),
    "name a number": (lambda w: w.params(name=5), 400, MISMATCH),
    "name null": (lambda w: w.params(name=None), 400, PARAMS),
    "no name": (lambda w: w.params(name=...), 400, PARAMS),
    "arguments an empty list": (lambda w: w.params(arguments=[]), 400, PARAMS),
    "arguments a list": (lambda w: w.params(arguments=[1]), 400, PARAMS),
    "arguments an empty text": (lambda w: w.params(arguments=""), 400, PARAMS),
    "arguments zero": (lambda w: w.params(arguments=0), 400, PARAMS),
    "state a number": (lambda w: w.params(requestState=5), 400, PARAMS),
    "state an object": (lambda w: w.params(requestState={"h1": 1}), 400, PARAMS),
    "state empty": (lambda w: w.params(requestState=""), 400, PARAMS),
    "answers a list": (lambda w: w.params(inputResponses=[]), 400, PARAMS),
    "answers a text": (lambda w: w.params(inputResponses="x"), 400, PARAMS),
    "answers a number": (lambda w: w.params(inputResponses=12345), 400, PARAMS),
}

HEADERS: dict[str, tuple[Change, int, Any]] = {
    "two versions": (lambda w: w.adding(mcp_protocol_version=VERSION), 400, MISMATCH),
    "two methods": (lambda w: w.adding(mcp_method="tools/call"), 400, MISMATCH),
    "two names": (lambda w: w.adding(mcp_name="ask"), 400, MISMATCH),
    "another version first": (
        lambda w: w.having(mcp_protocol_version="2027-01-01").adding(mcp_protocol_version=VERSION),
        400,
        MISMATCH,
    ),
    "another version": (lambda w: w.having(mcp_protocol_version="2027-01-01"), 400, MISMATCH),
    "a version to come": (
        lambda w: w.having(mcp_protocol_version="2027-01-01").meta(protocolVersion="2027-01-01"),
        400,
        VERSIONS,
    ),
    "another method": (lambda w: w.having(mcp_method="prompts/get"), 400, MISMATCH),
    "no method": (lambda w: w.without("mcp-method"), 400, MISMATCH),
    "another name": (lambda w: w.having(mcp_name="echo"), 400, MISMATCH),
    "no name": (lambda w: w.without("mcp-name"), 400, MISMATCH),
    "an unknown method": (lambda w: w.having(mcp_method="tools/burn").but(method="tools/burn"), 404, MISSING),
    "no accept": (lambda w: w.without("accept"), 406, ""),
    "accepts JSON only": (lambda w: w.having(accept="application/json"), 406, ""),
    "accepts pictures": (lambda w: w.having(accept="image/png"), 406, ""),
    "no content type": (lambda w: w.without("content-type"), 400, "Invalid Content-Type header"),
    "another content type": (lambda w: w.having(content_type="text/plain"), 400, "Invalid Content-Type header"),
    "another host": (lambda w: w.having(host="evil.example"), 421, "Invalid Host header"),
    "an empty host": (lambda w: w.having(host=""), 421, "Invalid Host header"),
    "another origin": (lambda w: w.having(origin="http://evil.example"), 403, "Invalid Origin header"),
    "no origin at all": (lambda w: w.having(origin="null"), 403, "Invalid Origin header"),
    "GET": (lambda w: RawRequest(w.headers, b"", "GET"), 405, ""),
    "DELETE": (lambda w: RawRequest(w.headers, b"", "DELETE"), 405, ""),
    "PUT": (lambda w: RawRequest(w.headers, w.body, "PUT"), 405, ""),
    "another path": (lambda w: RawRequest(w.headers, w.body, path="/mcp2"), 404, "Not Found"),
}  # fmt: skip - a case, a line


@pytest.mark.parametrize("cases", [BODIES, ENVELOPES, HEADERS], ids=["bodies", "envelopes", "headers"])
async def test_a_bad_request_is_refused_as_the_sdk_refuses_it(cases: dict[str, tuple[Change, int, Any]]) -> None:
    async with twins() as client:
        await refused(client, cases)
        assert client.runtime.counts["entered"] == 1
        assert client.runtime.counts["broken"] == 0


async def test_odd_values_that_are_no_mistake() -> None:
    """Lone surrogates, NaN, huge numbers, odd encodings: a handler hears what it hears behind the SDK's own app."""
    odd: dict[str, bytes] = {
        "lone surrogate": rb'"\ud83d"',
        "lone surrogate as bytes": b'"\xed\xa0\xbd"',
        "NUL": rb'"\u0000"',
        "NaN": b"NaN",
        "-Infinity": b"-Infinity",
        "400 digits": b"9" * 400,
        "beyond a float": b"1e999",
        "nested": b"[" * 500 + b"]" * 500,
    }
    async with twins() as client:
        plainly = raw(client.envelope("tools/call", {"name": "echo", "arguments": {"text": "x", "value": "@"}}))
        requests = {name: plainly.saying(plainly.body.replace(b'"@"', value)) for name, value in odd.items()}
        requests["a key twice"] = plainly.saying(plainly.body.replace(b'"x"', b'"y", "text": "z"'))
        requests["a huge id"] = plainly.but(id=10**400)
        requests["a byte order mark"] = plainly.saying(b"\xef\xbb\xbf" + plainly.body)
        requests["UTF-16"] = plainly.saying(plainly.body.decode().encode("utf-16"))
        for name, request in requests.items():
            ours, theirs = await client.both(request)
            assert ours.verdict == (200, "result"), name
            assert ours.message == theirs.message, name


async def test_spaces_and_tabs_round_header_values_are_no_part_of_them() -> None:
    """RFC 9110: optional white space is stripped, whatever the HTTP parser does about it."""
    async with twins(compared=False) as client:
        _, retry = await client.parked()
        padded = {name: f" \t{value} \t " for name, value in retry.headers}
        await client.completes(RawRequest(tuple(padded.items()), retry.body))


async def test_internal_headers_of_a_client_are_ignored() -> None:
    async with twins(compared=False) as client:
        _, retry = await client.parked()
        names = ("node", "route", "call", "relay", "secret", "principal", "epoch")
        claims = {f"framehold_{name}": "0" * 32 for name in names}
        await client.completes(retry.adding(**claims))
        result = await send(client.url, retry.adding(**claims))
        assert result.verdict == (200, "result")
        assert not [name for name in result.headers if name.lower().startswith("framehold-")]


@pytest.mark.parametrize(
    ("header", "good", "bad", "status"),
    [
        ("origin", "http://localhost:1", "http://evil.example", 403),
        ("host", "localhost:1", "evil.example", 421),
        ("content-type", "application/json", "text/plain", 400),
        ("accept", "*/*", "image/png", 406),
    ],
)
async def test_a_header_sent_twice_vouches_for_nobody_else(header: str, good: str, bad: str, status: int) -> None:
    """What was found acceptable is remembered by all that was said: a good copy before a bad one opens no door for the
    bad one alone."""
    async with twins() as client:
        _, retry = await client.parked()
        clean = raw(client.envelope("tools/call", {"name": "echo", "arguments": {}})).without(header)
        twice = RawRequest((*clean.headers, (header, good), (header, bad)), clean.body)
        ours, theirs = await client.both(twice)
        # Two hosts are refused before anybody looks at one.
        assert ours.verdict == theirs.verdict or (header == "host" and ours.status == 400)
        alone = RawRequest((*clean.headers, (header, bad)), clean.body)
        ours, theirs = await client.both(alone)
        assert ours.status == theirs.status == status
        await client.completes(retry)

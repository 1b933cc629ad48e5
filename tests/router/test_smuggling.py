"""Two readers of the same bytes: what they could disagree on is refused, or sent on in the one form that has no two
readings."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from httptools import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from framehold_fleet.http_server.repeated import KEPT, PATIENCE
from framehold_fleet.http_server.request_head import RequestHead
from framehold_fleet.http_server.request_reader import Reader, RequestRefused
from framehold_fleet.identity.plane import PROOF
from framehold_router.routing.relay import RequestRelay
from tests.kit.limits import limits_of
from tests.router.wires import Door, both_loops, node, ok, post, router

anyio_backend = both_loops
door = pytest.fixture(lambda: router)
"""The tests that take it run before a node, too (tests/node/http/test_client_side.py)."""

LIMITS = limits_of(1 << 20, 32 * 1024, 100)
CHUNKED = "Transfer-Encoding: chunked"
SECOND = b"GET /smuggled HTTP/1.1\r\nHost: router.test\r\n\r\n"


def request(*lines: str | bytes, body: bytes = b"", end: bytes = b"\r\n") -> bytes:
    return end.join(line if isinstance(line, bytes) else line.encode() for line in lines) + end + end + body


def posted(*lines: str | bytes, body: bytes = b"hello") -> bytes:
    return request("POST /mcp HTTP/1.1", "Host: router.test", *lines, body=body)


def chunked(body: bytes) -> bytes:
    return posted(CHUNKED, body=body)


REFUSED = {
    "two lengths": posted("Content-Length: 5", "Content-Length: 6"),
    "one length twice": posted("Content-Length: 5", "Content-Length: 5"),
    "a list of lengths": posted("Content-Length: 5, 5"),
    "a length and chunks": posted("Content-Length: 5", CHUNKED, body=b"0\r\n\r\n" + SECOND),
    "chunks and a length": posted(CHUNKED, "Content-Length: 5", body=b"0\r\n\r\n" + SECOND),
    "coding identity": posted("Transfer-Encoding: identity", "Content-Length: 5"),
    "coding identity alone": posted("Transfer-Encoding: identity"),
    "coding gzip": posted("Transfer-Encoding: gzip"),
    "coding gzip, chunked": posted("Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "coding chunked, gzip": posted("Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"),
    "chunked twice": posted("Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"),
    "two codings": posted("Transfer-Encoding: gzip", CHUNKED, body=b"0\r\n\r\n"),
    "two codings, chunked first": posted(CHUNKED, "Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    "coding xchunked": posted("Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "coding after a vertical tab": posted(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "empty coding": posted("Transfer-Encoding:"),
    "coding on HTTP/1.0": request("POST /mcp HTTP/1.0", "Host: router.test", CHUNKED, body=b"0\r\n\r\n"),
    "length +5": posted("Content-Length: +5"),
    "length -5": posted("Content-Length: -5"),
    "length 0x5": posted("Content-Length: 0x5"),
    "length 5;": posted("Content-Length: 5;"),
    "length 1_0": posted("Content-Length: 1_0"),
    "no length": posted("Content-Length:"),
    "a length that overflows": posted("Content-Length: 99999999999999999999999"),
    "chunk size with a sign": chunked(b"+5\r\nhello\r\n0\r\n\r\n"),
    "chunk size 0x5": chunked(b"0x5\r\nhello\r\n0\r\n\r\n"),
    "chunk size and space": chunked(b"5 \r\nhello\r\n0\r\n\r\n"),
    "chunk size that overflows": chunked(b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    "no chunk size": chunked(b"\r\nhello\r\n0\r\n\r\n"),
    "chunk extension ended by LF": chunked(b"5;a\nhello\r\n0\r\n\r\n"),
    "chunk extension ended by CR": chunked(b"5;a\rhello\r\n0\r\n\r\n"),
    "chunk extension with NUL": chunked(b"5;a\0b\r\nhello\r\n0\r\n\r\n"),
    "chunks ended by LF": chunked(b"5\nhello\n0\n\n"),
    "chunk longer than said": chunked(b"5\r\nhelloX\r\n0\r\n\r\n"),
    "a length in a trailer": chunked(b"5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n"),
    "folded header": posted("X: a", " b", "Content-Length: 5"),
    "folded coding": posted("Transfer-Encoding:", " chunked", body=b"0\r\n\r\n"),
    "lines ended by LF": request("POST /mcp HTTP/1.1", "Host: a", "Content-Length: 0", end=b"\n"),
    "one line ended by LF": posted(b"X: a\nContent-Length: 5"),
    "CR in a value": posted(b"X: a\rContent-Length: 9", "Content-Length: 5"),
    "CR at the end of a value": posted(b"X: a\r", "Content-Length: 5"),
    "NUL in a value": posted(b"X: a\0b", "Content-Length: 5"),
    "control byte in a value": posted(b"X: a\x01b", "Content-Length: 5"),
    "space before the colon": posted("Content-Length : 5"),
    "no name": posted(": 5", "Content-Length: 5"),
    "no colon": posted("Content-Length 5"),
    "space before the first header": request("GET /mcp HTTP/1.1", " Host: a"),
    "lower-case method": request("get /mcp HTTP/1.1", "Host: a"),
    "unknown method": request("FETCH /mcp HTTP/1.1", "Host: a"),
    "method with a colon": request("GE:T /mcp HTTP/1.1", "Host: a"),
    "RTSP's method": request("PLAY /mcp HTTP/1.1", "Host: a"),
    "CONNECT": request("CONNECT a:443 HTTP/1.1", "Host: a", body=SECOND),
    "HTTP/0.9": b"GET /mcp\r\n\r\n",
    "HTTP/0.9 said": request("GET /mcp HTTP/0.9", "Host: a"),
    "HTTP/1.2": request("GET /mcp HTTP/1.2", "Host: a"),
    "HTTP/2.0": request("GET /mcp HTTP/2.0", "Host: a"),
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no host": request("GET /mcp HTTP/1.1"),
    "two hosts": request("GET /mcp HTTP/1.1", "Host: a", "Host: a"),
    "a host that is a header": request("GET /mcp HTTP/1.1", "Host: framehold-proof: planted"),
    "a list of hosts": request("GET /mcp HTTP/1.1", "Host: a, b"),
    "user in the host": request("GET /mcp HTTP/1.1", "Host: a@b"),
    "path in the host": request("GET /mcp HTTP/1.1", "Host: a/b"),
    "high byte in the host": request(b"GET /mcp HTTP/1.1", b"Host: \xff"),
    "a port that is no number": request("GET /mcp HTTP/1.1", "Host: a:b"),
    "an address that does not end": request("GET /mcp HTTP/1.1", "Host: [::1"),
    "a host that is none on HTTP/1.0": request("GET /mcp HTTP/1.0", "Host: a b"),
    "a host that is none behind a URL": request("GET http://a/mcp HTTP/1.1", "Host: a b"),
    "a port that is no number in the target": request("GET http://a:b/mcp HTTP/1.1", "Host: a"),
    "quotes in the host of the target": request('GET http://"a"/mcp HTTP/1.1', "Host: a"),
    "no host in the target": request("GET http:///mcp HTTP/1.1", "Host: a"),
    "user in the target": request("GET http://a@b/mcp HTTP/1.1", "Host: b"),
    "another scheme": request("GET ftp://a/mcp HTTP/1.1", "Host: a"),
    "fragment": request("GET /mcp#a HTTP/1.1", "Host: a"),
    "asterisk without OPTIONS": request("GET * HTTP/1.1", "Host: a"),
    "space in the target": request("GET /mcp x HTTP/1.1", "Host: a"),
    "tab in the target": request("GET /mcp\tx HTTP/1.1", "Host: a"),
    "high byte in the target": request(b"GET /mcp\xff HTTP/1.1", "Host: a"),
    "space after the version": request("GET /mcp HTTP/1.1 ", "Host: a"),
    "other expectation": posted("Content-Length: 5", "Expect: 200-ok"),
    "one more expectation": posted("Content-Length: 5", "Expect: 100-continue, 200-ok"),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
async def test_is_refused(door: Door, data: bytes) -> None:
    """One answer that refuses, then the end of the connection; no node gets a byte, whatever follows."""
    async with node(ok()) as upstream, door(upstream.address) as it:
        text = await it.all(data + SECOND)
        assert text.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 417 ", b"HTTP/1.1 501 "))
        assert text.count(b"\r\n\r\n") == 1
        assert b"connection: close\r\n" in text
        assert upstream.bytes == b""


HELLO = b"content-length: 5\r\n"

ONE_FORM = {
    "space around the length": (posted("Content-Length:  5 "), HELLO, b"hello"),
    "length with a zero": (posted("Content-Length: 05"), HELLO, b"hello"),
    "chunks": (chunked(b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), HELLO, b"hello"),
    "CHUNKED": (posted("Transfer-Encoding: CHUNKED", body=b"5\r\nhello\r\n0\r\n\r\n"), HELLO, b"hello"),
    "chunk extension": (chunked(b'5;a=b;c="d"\r\nhello\r\n0\r\n\r\n'), HELLO, b"hello"),
    "chunk size with zeros": (chunked(b"0005\r\nhello\r\n000\r\n\r\n"), HELLO, b"hello"),
    "trailers": (chunked(b"5\r\nhello\r\n0\r\nX-Trail: y\r\nframehold-proof: z\r\n\r\n"), HELLO, b"hello"),
    "a request in a body": (
        posted(f"Content-Length: {len(SECOND)}", body=SECOND), b"content-length: %d\r\n" % len(SECOND), SECOND
    ),
    "a request in a chunk": (
        chunked(b"%x\r\n%b\r\n0\r\n\r\n" % (len(SECOND), SECOND)), b"content-length: %d\r\n" % len(SECOND), SECOND
    ),
    "an upgrade with a body": (
        posted("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: a", "Content-Length: 5"),
        HELLO, b"hello",
    ),
    "an upgrade that names less of itself": (
        posted("Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: a", "Content-Length: 5"), HELLO, b"hello"
    ),
    "an upgrade with chunks": (
        posted("Connection: Upgrade", "Upgrade: websocket", CHUNKED, body=b"5\r\nhello\r\n0\r\n\r\n"), HELLO, b"hello"
    ),
    "no expectation": (posted("Content-Length: 5", "Expect:"), HELLO, b"hello"),
    "an expectation twice": (posted("Content-Length: 5", "Expect: 100-continue,, 100-Continue"), HELLO, b"hello"),
    "empty lines before": (b"\r\n\r\n" + posted("Content-Length: 5"), HELLO, b"hello"),
    "the router's own URL": (
        request("POST HTTP://Router.Test/mcp HTTP/1.1", "Host: router.test", "Content-Length: 5", body=b"hello"),
        HELLO, b"hello",
    ),
    "HTTP/1.0 without a host": (request("POST /mcp HTTP/1.0", "Content-Length: 5", body=b"hello"), HELLO, b"hello"),
    "what Connection names": (
        posted("Connection: close, X-A, host, content-length, content-type", "X-A: b", "Content-Length: 5"),
        HELLO, b"hello",
    ),
    "a method with a body of none": (request("POST /mcp HTTP/1.1", "Host: a"), b"content-length: 0\r\n", b""),
}  # fmt: skip


@pytest.mark.parametrize(("data", "length", "body"), ONE_FORM.values(), ids=ONE_FORM.keys())
async def test_is_sent_on_in_one_form(data: bytes, length: bytes, body: bytes) -> None:
    async with node(ok()) as upstream, router(upstream.address) as it:
        assert (await it.ask(data)).status == 200
        (reply,) = upstream.requests
        assert upstream.bytes == reply.raw
        assert reply.first == b"POST /mcp HTTP/1.1"
        assert length in reply.raw
        assert reply.body == body
        names = [name for name, _ in reply.headers]
        assert names.count(b"host") == names.count(b"content-length") == 1
        for name in ("transfer-encoding", "connection", "upgrade", "http2-settings", "x-a", "x-trail", "te", "expect"):
            assert name.encode() not in names
        assert (reply.one(PROOF) or b"").startswith(b"v1.router.")


@pytest.mark.parametrize("host", [b"a", b"A:80", b"b", b"b:8080", b"[::1]:80"])
async def test_the_host_of_an_absolute_target_counts(door: Door, host: bytes) -> None:
    """Whatever the header says (RFC 9112, section 3.2.2)."""
    async with node(ok()) as upstream, door(upstream.address) as it:
        data = request(b"POST http://%b/mcp?x HTTP/1.1" % host, "X: y", "Host: a", "Content-Length: 5", body=b"hello")
        for _ in range(2):
            assert (await it.ask(data)).status == 200
            reply = upstream.requests[-1]
            assert (reply.first, reply.all(b"host")) == (b"POST /mcp?x HTTP/1.1", [host])


class Read(NamedTuple):
    """What a reader found in one request."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    sent_on: bytes
    body: bytes
    call: bytes
    version: str
    keep_alive: bool


def read(pieces: list[bytes], *, forgets: bool = False) -> list[Read]:
    """What a reader makes of these reads. With `forgets` it recognises no head that is repeated."""
    reader, found = Reader(LIMITS), []
    for piece in pieces:
        while piece:
            if forgets:
                reader.forget()
            piece = piece[reader.feed(piece) :]
            if reader.whole:
                version, keep_alive = reader.version, reader.keep_alive
                head, body, call = reader.take("peer")
                kept = head.method, head.target, head.headers, head.lines
                found.append(Read(*kept, body, call, version, keep_alive))
    return found


LAST = (b"Connection: close", b"HTTP/1.0")
FOLLOWED = {
    name: data + post(b"second") for name, (data, _, _) in ONE_FORM.items() if not any(last in data for last in LAST)
}
FOLLOWED["extensions and zeros before sizes"] = chunked(b"005;a=b\r\nhello\r\n000;c\r\n\r\n") + post(b"second")
FOLLOWED["a chunk that looks like the last one"] = chunked(b"7\r\n\r\n0\r\n\r\n\r\n0\r\nA: b\r\n\r\n") + post(b"second")
FOLLOWED["empty lines before both"] = b"\r\n\r\n\r\n" + post(b"first") + b"\r\n\r\n" + post(b"second")
FOLLOWED["chunks that are empty lines"] = chunked(b"2\r\n\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n") + post(b"second")


@pytest.mark.parametrize("data", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_requests_end_where_they_end_wherever_their_bytes_are_cut(data: bytes) -> None:
    whole = read([data])
    assert len(whole) == 2
    assert whole[1].body == b"second"
    for at in range(1, len(data)):
        assert read([data[:at], data[at:]]) == whole
    assert read([data[at : at + 1] for at in range(len(data))]) == whole


class Counted:
    """A parser that counts its calls."""

    def __init__(self, reader: Reader) -> None:
        self.parser, self.calls = HttpRequestParser(reader), 0

    def feed_data(self, data: bytes) -> None:
        self.calls += 1
        self.parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parser, name)


KIB = 64 * 1024
COSTLY = {
    "one chunk of empty lines": chunked(b"%x\r\n%b\r\n0\r\n\r\n" % (KIB, b"\r\n" * (KIB // 2))),
    "one chunk of last chunks": chunked(b"%x\r\n%b\r\n0\r\n\r\n" % (8 * KIB, b"\r\n0\r\n\r\n " * KIB)),
    "chunks that are empty lines": chunked(b"4\r\n\r\n\r\n\r\n" * 1000 + b"0\r\n\r\n"),
    "chunks of one byte": chunked(b"1\r\n\n\r\n" * 1000 + b"0\r\n\r\n"),
    "a body with a length of empty lines": posted(f"Content-Length: {KIB}", body=b"\r\n" * (KIB // 2)),
    "empty lines before it": b"\r\n" * 10_000 + post(b"first"),
}


@pytest.mark.parametrize("data", COSTLY.values(), ids=COSTLY.keys())
def test_what_a_request_costs_follows_its_reads_and_not_its_bytes(data: bytes) -> None:
    """The parser is called for a head, a body and what ends it, and for each further read: not for each empty line."""
    for reads in (1, 7):
        reader = Reader(LIMITS)
        reader._parser = parser = Counted(reader)  # type: ignore[assignment]
        size = -(-len(data) // reads)
        for at in range(0, len(data), size):
            reader.feed(data[at : at + size])
        assert reader.whole
        assert parser.calls <= reads + 3


@pytest.mark.parametrize("line", [b"1\r\nx\r\n", b"1;%b\r\nx\r\n" % (b"a" * 1000), b"4\r\n\r\n\r\n\r\n"])
def test_framing_that_outgrows_its_body_is_refused(line: bytes) -> None:
    """Each chunk costs the calls of a chunk, whatever its size: so small ones count. A body in chunks of some size, or
    in few chunks, passes."""
    for data in (b"20\r\n%b\r\n" % (b"x" * 32) * 10_000, line * (32 * 1024 // len(line) - 1)):
        (found,) = read([chunked(data + b"0\r\n\r\n")])
        assert found.body
    reader = Reader(LIMITS)
    with pytest.raises(RequestRefused) as caught:
        for _ in range(10_000):
            reader.feed(chunked(line) if reader.version == "" else line)
    assert caught.value.status == 431 and "FRAMEHOLD_MAX_HEAD" in caught.value.text
    assert len(reader._body) <= 33 * 1024


WRITTEN = b"POST /mcp HTTP/1.1\r\nHost: a\r\n%bContent-Length: %b\r\nX-A: %b\r\n\r\n%b"
CALLS = b"0123456789abcdef" * 2, b"f" * 32
NAMED = [WRITTEN % (b"", b"5\r\nframehold-call-id: " + call, b"1", b"named") for call in CALLS]
"""As a router writes them: the id of a new call stands behind the length."""
ALIKE = [
    *NAMED,
    WRITTEN % (b"", b"5\r\nframehold-call-id: short", b"1", b"named"),
    WRITTEN % (b"", b"5\r\nframehold-call-id: %b0" % CALLS[0], b"1", b"named"),
    WRITTEN % (b"", b"5\r\nframehold-call-id: %b-0" % CALLS[0][2:], b"1", b"named"),
    WRITTEN % (b"", b"5\r\nframehold-call-id:  %b" % CALLS[0], b"1", b"named"),
    WRITTEN % (b"", b"5\r\nFramehold-Call-Id: %b" % CALLS[0], b"1", b"named"),
    WRITTEN % (b"", b"5\r\nframehold-call-id: %b\r\nframehold-call-id: %b" % CALLS, b"1", b"named"),
    WRITTEN % (b"framehold-call-id: %b\r\n" % CALLS[0], b"5", b"1", b"first"),
    WRITTEN % (b"", b"5", b"1\r\nFramehold-Call-Id: %b" % CALLS[0], b"first"),
    WRITTEN % (b"", b"53", b"1", b"\r\nframehold-call-id: %b" % CALLS[0]),
    WRITTEN % (b"", b"5", b"1", b"first"),
    WRITTEN % (b"", b"13", b"1", b"of two digits"),
    WRITTEN % (b"", b"0", b"1", b""),
    WRITTEN % (b"", b"05", b"1", b"zeros"),
    WRITTEN % (b"", b"5", b"2", b"other"),
    WRITTEN % (b"Connection: X-A\r\n", b"5", b"1", b"named"),
    WRITTEN % (b"X-B: Content-Length: 5\r\n", b"5", b"1", b"twice"),
    WRITTEN % (b"Expect: 100-continue\r\n", b"5", b"1", b"await"),
    WRITTEN % (b"Framehold-Via: node\r\n", b"5", b"1", b"fleet"),
    WRITTEN % (b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"5", b"1", b"other"),
    b"\r\n" + WRITTEN % (b"", b"5", b"1", b"lines"),
    *(data for data, _, _ in ONE_FORM.values() if not any(last in data for last in LAST)),
]
"""Requests of which many differ little."""


@given(st.lists(st.sampled_from(ALIKE), max_size=8), st.lists(st.integers(0, 500), max_size=3))
def test_a_repeated_head_is_read_as_the_parser_reads_it(requests: list[bytes], cuts: list[int]) -> None:
    reads = list(requests)
    for cut in cuts:
        for at, data in enumerate(reads):
            if 0 < cut < len(data):
                reads[at : at + 1] = [data[:cut], data[cut:]]
                break
    assert read(reads) == read(reads, forgets=True)


REPEATED = WRITTEN % (b"", b"5", b"1", b"first")


@pytest.mark.parametrize(
    "data",
    [
        WRITTEN % (b"", b"+5", b"1", b"signs"),
        WRITTEN % (b"", b"5 5", b"1", b"twice"),
        WRITTEN % (b"", b"", b"1", b"empty"),
        WRITTEN % (b"", b"5,5", b"1", b"lists"),
        WRITTEN % (b"", b"\xb2", b"1", b"as"),
        WRITTEN % (b"Content-Length: 5\r\n", b"5", b"1", b"twice"),
        WRITTEN % (b"", b"9999999", b"1", b"large"),
        WRITTEN % (b"", b"5\r\nframehold-call-id: %b\n" % CALLS[0][1:], b"1", b"lines"),
        WRITTEN % (b"", b"5\r\nframehold-call-id: %b\0" % CALLS[0][1:], b"1", b"nulls"),
    ],
)
def test_what_the_parser_refuses_is_refused_after_a_head_like_it(data: bytes) -> None:
    reader = Reader(LIMITS)
    assert reader.feed(REPEATED) == len(REPEATED)
    reader.take("peer")
    with pytest.raises(RequestRefused):
        reader.feed(data)


def test_a_repeated_head_is_read_once() -> None:
    """It is the same object, until KEPT others came or it is forgotten. Heads that are never repeated are kept rarely;
    a client that begins to repeat its head is recognised all the same."""
    reader = Reader(LIMITS)

    def head(*pieces: bytes) -> RequestHead:
        for piece in pieces:
            reader.feed(piece)
        return reader.take("peer").head

    def other(number: int) -> bytes:
        return WRITTEN % (b"", b"5", b"number %d" % number, b"other")

    first = head(REPEATED)
    assert head(REPEATED) is first
    assert head(WRITTEN % (b"", b"13", b"1", b"of two digits")) is first
    assert head(NAMED[0]) is first
    assert head(REPEATED[:30], REPEATED[30:]) is not first
    assert head(REPEATED) is first
    for number in range(KEPT):
        assert head(other(number)) is not first
    again = head(REPEATED)
    assert again is not first
    assert head(REPEATED) is again
    reader.forget()
    assert head(REPEATED) is not again
    reader.forget()
    for number in range(10 * PATIENCE):
        head(other(number))
    heads = [head(REPEATED) for _ in range(2 * PATIENCE)]
    assert len(set(heads[PATIENCE:])) == 1 and heads[0] is not heads[-1]


@pytest.mark.parametrize(
    "target", ["/admin", "//admin/x", "/%61dmin/x", "/mcp/../admin/x", "/./admin/x", "/x/%2e%2e/admin"]
)
async def test_no_spelling_of_admin_reaches_a_node(target: str) -> None:
    """A node decodes its paths: what it would take for /admin isn't sent to it."""
    async with node(ok()) as upstream, router(upstream.address) as it:
        assert (await it.ask(post(target=target))).status == 404
        assert upstream.bytes == b""


@pytest.mark.parametrize(
    "target",
    ["/metrics", "//metrics", "/%6detrics", "/x/../dashboard", "/api/v1/nodes", "/api//v1/nodes", "/%61pi/v1/nodes"],
)
async def test_no_spelling_of_a_page_is_served_to_clients_beside_an_admin_port(target: str) -> None:

    def closed(*parts: Any) -> RequestRelay:
        relay = RequestRelay(*parts)
        relay.close_pages()
        return relay

    async with node(ok()) as upstream, router(upstream.address, pages=upstream.address, relay=closed) as it:
        assert (await it.ask(post(target=target))).status == 404
        assert upstream.bytes == b""
        assert (await it.ask(post(target="/healthz"))).status == 200

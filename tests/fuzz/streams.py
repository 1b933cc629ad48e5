"""Streams of requests drawn from a seed: well-formed ones, the ways in which two servers may read one otherwise, and
bytes that are no request any more; each in the pieces in which a client sends it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from .part import mangled

PLANTED = b"planted"
"""In the value of each internal header that a client sends."""
INSIDE = b"POST /inside HTTP/1.1\r\nHost: a\r\nframehold-proof: planted\r\nContent-Length: 0\r\n\r\n"
"""A request that stands in a body or behind one."""
_METHODS = (b"POST",) * 12 + (b"GET",) * 4 + (
    b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT", b"PRI", b"post", b"BREW", b"PO ST", b"",
)  # fmt: skip
_TARGETS = (b"/mcp",) * 12 + (
    b"/mcp?x=1", b"/", b"//mcp", b"/mcp/", b"/%6dcp", b"/../mcp", b"/mcp#a", b"/mcp?a#b", b"*", b"mcp", b"", b"?x",
    b"http://a/mcp", b"HTTP://A:80/mcp?x", b"http://a", b"http://a?x", b"http://a@b/mcp", b"http:///mcp",
    b"ftp://a/mcp", b"//a/mcp", b"a:443", b"/admin/drain", b"/x/../admin", b"/%61dmin", b"/healthz", b"/metrics",
    b"/mcp x", b"/mcp\tx", b"/mcp\xff", b"/mcp\x00", b"/mcp\x7f", b"/" + b"a" * 8180, b"/" + b"a" * 9000,
    b'/"<>\\^`{|}', b"/mcp;a=b", b"/a:b",
)  # fmt: skip
_VERSIONS = (b"HTTP/1.1",) * 24 + (
    b"HTTP/1.0", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 ", b"HTTP/01.1", b"",
    b"X/1.1",
)  # fmt: skip
_HOSTS = (b"Host: a",) * 16 + (
    b"", b"Host: a\r\nHost: a", b"Host: a\r\nhost: b", b"Host:", b"Host: a, b", b"Host: a:80", b"Host: [::1]:8080",
    b"HOST: a", b"Host: a/b", b"Host: a@b", b"Host : a", b"Host:\ta", b"Host: \xff", b"Host: a\x00b",
)  # fmt: skip
_LINES = (
    b"Accept: application/json, text/event-stream", b"Content-Type: application/json", b"Mcp-Method: tools/call",
    b"Authorization: Bearer x", b"X-Forwarded-For: 1.2.3.4", b"X-Forwarded-For:", b"X-Real-IP: 1.2.3.4", b"X-A: b",
    b"X-A:", b"X-A: caf\xc3\xa9", b"X-A: \xff\xfe", b"Cookie: a=b; c=d", b"!#$%&'*+-.^_`|~09: a", b"Max-Forwards: 0",
    b"framehold-proof: planted", b"Framehold-Proof: planted", b"FRAMEHOLD-HELLO: planted", b"framehold-x: planted",
    b"framehold-call-id: planted", b"framehold-node: planted", b"framehold-: planted", b"framehold-hello:  planted ",
    b"Connection: close", b"Connection: keep-alive", b"Connection: Close, X-A", b"Connection: framehold-proof",
    b"Connection: framehold-hello, framehold-x", b"Connection: framehold-call-id", b"Connection: content-length",
    b"Connection: transfer-encoding", b"Connection: host", b"Connection: ,,", b"Connection: \xff",
    b"Connection: connection", b"Connection: Upgrade\r\nUpgrade: websocket",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a",
    b"Connection: upgrade\r\nUpgrade: TLS/1.0", b"Upgrade: h2c", b"Keep-Alive: timeout=5",
    b"Proxy-Connection: keep-alive", b"TE: trailers", b"Trailer: X-A", b"Proxy-Authorization: Basic x",
    b"Expect: 100-continue", b"Expect: 100-Continue", b"Expect: 200-ok", b"Expect:", b"Expect: 100-continue, x",
)  # fmt: skip
_ODD_LINES = (
    b"X-A: b\r\n c", b"X-A:\r\n\tframehold-proof: planted", b" X-A: b", b"\tX-A: b", b"X-A : b", b": b", b"X-A",
    b"X A: b", b"X-A: b\nX-B: c", b"X-A: b\rX-B: c", b"X-A: b\r", b"X-A: b\n", b"X-A: \x00", b"X-\x00A: b",
    b"X-A: \x01", b"X-A: \x7f", b"X-A: \x0b", b"X-\xe9: b", b"X-(A): b", b"framehold-proof : planted",
    b"\x00framehold-proof: planted", b"framehold-proof\t: planted", b"X-A: a\r\n\r", b"X-A: \x85", b"\x0bHost: b",
    b"X-A: b\nframehold-proof: planted", b"X-A: b\rframehold-proof: planted\r", b"Content-Length\x00: 3",
    b"X-A: " + b"a" * 33_000, b"X-A: " + b"a" * 3_000,
)  # fmt: skip
_LENGTHS = (
    b"Content-Length: %d", b"content-length:%d", b"Content-Length:  %d ", b"Content-Length:\t%d\t",
    b"Content-Length: 0%d", b"Content-Length: +%d", b"Content-Length: -%d", b"Content-Length: 0x%d",
    b"Content-Length: %d;", b"Content-Length: %d.0", b"Content-Length: %d, %d",
    b"Content-Length: %d\r\nContent-Length: %d", b"Content-Length: %d\r\nContent-Length: 3", b"Content-Length : %d",
    b"Content-Length: 1_%d", b"Content-Length: \x0b%d", b"Content-Length: %d e", b"Content-Length:",
    b"Content-Length: \xb2", b"Content-Length: 99999999999999999999%d", b"Content-Length: %d\r\n ",
    b"Content_Length: %d", b"Content-Length: \x00%d", b"Content-Length: %d\x00",
    b"Content-Length: 18446744073709551621", b"Content-Length: 4294967%d",
)  # fmt: skip
_CODINGS = (b"Transfer-Encoding: chunked",) * 12 + (
    b"transfer-encoding: CHUNKED", b"Transfer-Encoding:chunked", b"Transfer-Encoding: chunked ",
    b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding:", b"Transfer-Encoding: chunked, gzip",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: xchunked", b"Transfer-Encoding: \x0bchunked",
    b"Transfer-Encoding: chunked\x0b", b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", b"Transfer-Encoding:\r\n chunked",
    b'Transfer-Encoding: "chunked"', b"Transfer-Encoding: chunked;a=b", b"Transfer_Encoding: chunked",
    b"Transfer-Encoding: \x00chunked", b"Transfer-Encoding: chunked\x00", b"Transfer-Encoding: ,chunked",
    b"X: a\nTransfer-Encoding: chunked",
)  # fmt: skip
_SIZES = (b"%x",) * 16 + (
    b"%X", b"000%x", b"+%x", b"-%x", b"0x%x", b" %x", b"%x ", b"%x\t", b"%x;a", b"%x;a=b", b'%x;a="b;\\"c"', b"%x;",
    b"%x;;", b"%x; a", b"%x;a\x00", b"%x;a\n", b"%x;a\r", b"%x\n", b"%xg", b"", b"fffffffffffffff%x",
    b"%x;" + b"a" * 2_000, b"%x,", b"%x #",
)  # fmt: skip
_TRAILERS = (b"",) * 12 + (
    b"X-Trail: y\r\n", b"framehold-proof: planted\r\n", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n",
    b"X\r\n", b"Host: b\r\n", b" X: y\r\n", b"X : y\r\n", b"X: y\n", b"X: \x00\r\n",
)  # fmt: skip
_ENDS = (b"\r\n",) * 40 + (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n\r\n", b"", b"\x0b\n")
_BETWEEN = (b"",) * 24 + (b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\x00", b"x", b"0\r\n\r\n", b"\xff")
_BYTES = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\x00", b" ", b"\t", b":", b",", b";", b"\xff", b"\x0b", b"0", b"5\r\n",
    b"0\r\n\r\n", b"HTTP/1.1", b"chunked", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n",
    b"framehold-proof: planted\r\n", INSIDE,
)  # fmt: skip
_BODIES = (
    b"",
    b"a",
    b"hello",
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b"\r\n\r\n",
    b"0\r\n\r\n",
    INSIDE,
    b"\x00" * 9,
    b"ab" * 3_000,
)


def _chosen(draw: Random, usual: bytes, odd: Sequence[bytes], often: float) -> bytes:
    return draw.choice(odd) if draw.random() < often else usual


def _framed(draw: Random, body: bytes, odd: float) -> tuple[list[bytes], bytes]:
    """The lines that say how long a body is, and the body as it is sent."""
    kind, lines = draw.random(), list[bytes]()
    if kind < 0.55 or odd > draw.random() > 0.2:
        said = len(body) + (draw.choice((-3, -1, 1, 2, 40)) if draw.random() < odd / 4 else 0)
        line = _chosen(draw, _LENGTHS[0], _LENGTHS, odd)
        lines.append(line.replace(b"%d", b"%d" % max(0, said)))
    if kind < 0.55:
        return lines, body
    if kind < 0.9:
        lines.insert(draw.randrange(len(lines) + 1), _chosen(draw, _CODINGS[0], _CODINGS, odd))
        return lines, _chunked(draw, body, odd)
    return lines, _chosen(draw, b"", (body,), odd)


def _chunked(draw: Random, body: bytes, odd: float) -> bytes:
    parts = list[bytes]()
    while body:
        size = draw.choice((1, 3, len(body), len(body)))
        piece, body = body[:size], body[size:]
        parts += (_size(draw, len(piece), odd), piece, _chosen(draw, b"\r\n", _ENDS, odd / 4))
    last = _chosen(draw, b"0", (b"000", b"0;a=b", b"", b"0 ", b"-0", b"0x0"), odd / 2)
    return b"".join((*parts, last, b"\r\n", _chosen(draw, b"", _TRAILERS, odd), b"\r\n"))


def _size(draw: Random, size: int, odd: float) -> bytes:
    line = _chosen(draw, b"%x", _SIZES, odd / 2)
    said = line.replace(b"%x", b"%x" % size).replace(b"%X", b"%X" % size)
    return said + _chosen(draw, b"\r\n", _ENDS, odd / 8)


def _request(draw: Random, odd: float) -> bytes:
    body = draw.choice(_BODIES)
    framing, sent = _framed(draw, body, odd)
    lines = [_chosen(draw, _HOSTS[0], _HOSTS, odd), *framing]
    for _ in range(draw.choice((0, 0, 1, 2, 3))):
        lines.append(draw.choice(_ODD_LINES if draw.random() < odd / 3 else _LINES))
    if draw.random() < odd / 20:
        lines += [b"X-%d: a" % number for number in range(draw.choice((60, 97, 98, 99, 120)))]
    if draw.random() < odd:
        draw.shuffle(lines)
    first = b" ".join(
        (
            _chosen(draw, b"POST", _METHODS, odd),
            _chosen(draw, b"/mcp", _TARGETS, odd),
            _chosen(draw, b"HTTP/1.1", _VERSIONS, odd),
        )
    )
    head = b"".join(line + _chosen(draw, b"\r\n", _ENDS, odd / 8) for line in (first, *filter(None, lines)))
    return head + _chosen(draw, b"\r\n", _ENDS, odd / 8) + sent


def _cut(draw: Random, data: bytes) -> list[bytes]:
    """The pieces in which it is sent."""
    kind = draw.random()
    if kind < 0.4 or len(data) < 2:
        return [data]
    if kind < 0.45 and len(data) < 300:
        return [data[at : at + 1] for at in range(len(data))]
    at = sorted({draw.randrange(1, len(data)) for _ in range(draw.choice((1, 1, 2, 3, 6)))})
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


def drawn(seed: int) -> list[bytes]:
    """A stream, in the pieces in which it is sent."""
    draw = Random(seed)
    odd = draw.choice((0.02, 0.1, 0.2, 0.4))
    data = b"".join(
        _request(draw, odd) + _chosen(draw, b"", _BETWEEN, odd / 2) for _ in range(draw.choice((1, 1, 2, 3)))
    )
    while draw.random() < odd:
        data = mangled(draw, data, _BYTES)
    # No connection gives an empty piece: to a protocol that would be the end of the stream.
    return [piece for piece in _cut(draw, data) if piece]

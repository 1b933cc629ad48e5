"""Parses the bytes of a client into complete requests of bounded size, one at a time.

The law: a router and a node never disagree on where a request ends. A request that a strict parser (llhttp, every
leniency off) rejects is refused. A request is refused also if other parsers could read it differently: a transfer
coding other than `chunked`, or any transfer coding on HTTP/1.0; no Host header, or two, or one that names no host; a
target with a fragment, or with a user. The authority of an absolute target replaces the Host header (RFC 9112, section
3.2.2), so that a node sees one host.

The parser does not report where in its input a request ended. So it is fed pieces that can't contain the end of one
request and the start of the next:

    1  a head and a chunked body end with an empty line: a piece ends at the next empty line at the latest, even if the
       first bytes of that line came in an earlier read. Empty lines in front of a request, and within a chunk, end
       nothing: a piece goes past them
    2  in a body of declared length, a piece has no more bytes than are missing of the body
    3  if the parser sees the start of a second request all the same, the first is refused (400)

A request whose head is repeated is not fed to the parser (`repeated.py`).
"""

from __future__ import annotations

import re

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from ..headers import CALL_ID, Header
from ..limits import Limits
from .chunks import Chunks
from .message import Request
from .repeated import Repeated
from .request_head import RequestHead

MAX_LINE = 8 * 1024
"""The longest target of a request, in bytes."""
SMALL_BODY = 4096
"""Bytes up to which a request is let in though all clients together hold too much. The number of connections limits
what such requests take."""

FRAMING = 4
"""A chunked body may have a byte of framing for so many bytes of its own."""

_LINE_END = b"\r\n"
_EMPTY_LINE = _LINE_END * 2
_BLANK = re.compile(rb"[\r\n]+")
_HOST = re.compile(rb"(?:\[[\w.:~%-]+\]|[\w.~!$&'()*+,;=%-]*)(?::[0-9]*)?")
"""A host and its port, as a URL has them (RFC 3986, section 3.2). A router repeats a client's Host to a node."""
_SPECIAL = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect", CALL_ID))
_APART = frozenset((b"content-length", CALL_ID))
"""Headers that are not among those of the head: they differ in requests whose heads are the same."""


class RequestRefused(Exception):
    """A request is refused, with an HTTP `status` and a `text`. Its connection closes after the response, because the
    bytes that follow can't be trusted."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Reader:
    """Parses requests. Call `feed` until `whole` is true, then `take` the request. `keep_alive`, `expects` and
    `version` belong to that request. A request always has exactly one Host header."""

    __slots__ = (
        "_body", "_call", "_chunked", "_chunks", "_declared", "_due", "_fed", "_fresh", "_headers", "_host",
        "_max_body", "_max_head", "_max_headers", "_method", "_named", "_parser", "_read", "_refusal", "_repeat",
        "_repeated", "_tail", "_upgrading", "_url", "begun", "expects", "keep_alive", "version", "whole",
    )  # fmt: skip

    def __init__(self, limits: Limits) -> None:
        """`limits.max_head` is also how many bytes of framing a chunked body may have beyond one for `FRAMING` of its
        own. Each chunk costs far more than its bytes."""
        self._named = limits.named
        self._max_body, self._max_head, self._max_headers = limits.max_body, limits.max_head, limits.max_headers
        self._parser = HttpRequestParser(self)
        self._refusal: RequestRefused | None = None
        self._method = b""
        self._repeated: Repeated[RequestHead] = Repeated()
        self._reset()

    def _reset(self) -> None:
        self.whole = False
        self.keep_alive = False
        self.expects = False
        """The client waits for `100 Continue` before it sends the body."""
        self.version = ""
        self._url = b""
        self._headers: list[Header] = []
        self._host: bytes | None = None
        self._call = b""
        self._body: bytes | bytearray = b""
        self._declared = 0
        self._due = 0  # bytes of the body of declared length that are still missing, once its head is complete
        self._chunked = False
        self._chunks: Chunks | None = None  # where the chunks of the body end, from its head to its last chunk
        self.begun = False
        """More than empty lines has come."""
        self._fed = 0  # bytes of the head, or of the framing of chunks, less those that the body may have
        self._tail = b""  # the last bytes of a piece that ended elsewhere than at an empty line
        self._upgrading = False
        self._fresh = True  # nothing of the request was read
        self._repeat: RequestHead | None = None  # its head, if it was recognised
        self._read: bytes | None = None  # the one read in which all of it came

    def feed(self, data: bytes) -> int:
        """Read up to the end of a request; returns how many bytes of `data` that took.

        Raises:
            Refused: the request is malformed, or beyond a limit.
        """
        start, size, fresh = 0, len(data), self._fresh
        if fresh and self._recognised(data):
            return size
        self._fresh = False
        while start < size and not self.whole:
            end = min(size, start + self._due) if self._due else self._cut(data, start, size)
            piece = data if end - start == size else data[start:end]
            if self._due:
                self._due -= end - start
            else:
                self._fed += end - start
            try:
                self._parser.feed_data(piece)
            except HttpParserUpgrade:
                self._ignore_upgrade()
            except HttpParserError as error:
                raise (self._refusal or RequestRefused(400, f"Malformed request ({error}); it was not read")) from None
            if self._fed > self._max_head and not self.whole:
                what = (
                    f"More than {self._max_head} bytes of head, or of framing for small chunks{self._named('MAX_HEAD')}"
                )
                raise RequestRefused(431, f"{what}; the request was not read")
            start = end
        if fresh and self.whole and start == size:
            self._read = data
        return start

    def _recognised(self, data: bytes) -> bool:
        """Read `data` without the parser, if it is a request whose head is repeated."""
        found = self._repeated.find(data)
        if found is None or len(found[1]) > self._max_body:
            return False
        self._repeat, self._body, self._call = found
        self.whole, self.keep_alive, self.version = True, True, "1.1"
        return True

    @property
    def held(self) -> int:
        """Bytes of the request that count as held: of its body, and of its head until that is complete. The body of a
        complete request counts from `SMALL_BODY` on."""
        size = len(self._body)
        if self.whole:
            return size if size > SMALL_BODY else 0
        return size + self._fed if self.begun else 0

    def take(self, peer: str) -> Request:
        """Return the complete request, and get ready for the next one."""
        body = bytes(self._body)
        if self._repeat is not None:
            request = Request(self._repeat, body, self._call)
            # All that `_recognised` has set; the rest is as `_reset` left it.
            self.whole, self.keep_alive, self.version = False, False, ""
            self._body, self._call, self._repeat = b"", b"", None
            return request
        request = Request(RequestHead(self._method, self._url, self._headers, peer), body, self._call)
        if self._read is not None and self._is_plain():
            self._repeated.keep(self._read, self._method + b" ", len(body), request.head)
        self._reset()
        return request

    def cut(self, peer: str) -> Request:
        """Return a request whose body is not read to its end, without its body, and delete that. Nothing can be read
        after that."""
        head = self._repeat or RequestHead(self._method, self._url, self._headers, peer)
        request = Request(head, b"", self._call)
        self.drop()
        return request

    def _is_plain(self) -> bool:
        """Whether the request asks for nothing but to be answered on a connection that stays open. A request without a
        length is plain too, but has no length by which it could be recognised."""
        return (
            self.version == "1.1" and self.keep_alive and not self._chunked and not self.expects and not self._upgrading
        )

    def forget(self) -> None:
        """Forget the last heads: an idle client takes less memory."""
        self._repeated.forget()

    def drop(self) -> None:
        """Delete what was read, and the parser: it refers back to this reader, and the cycle would keep both in
        memory."""
        self._body, self._headers = b"", []
        if hasattr(self, "_parser"):
            del self._parser

    def _cut(self, data: bytes, start: int, size: int) -> int:
        """The end of the piece that begins at `start`: after the next empty line that may end the request, or the end
        of the data."""
        if not self.begun:
            if data[start] in _LINE_END and (blank := _BLANK.match(data, start)) is not None:
                start = blank.end()
        elif self._chunks is not None:
            start = self._chunks.end(data, start)
            if self._chunks.more:
                return size
            # The line of the last chunk has ended: another line end makes the empty line.
            self._chunks, self._tail = None, _LINE_END
        tail = self._tail
        if tail:
            at = (tail + data[start : start + 3]).find(_EMPTY_LINE)
            if at >= 0:
                self._tail = b""
                return start + at + 4 - len(tail)
        at = data.find(_EMPTY_LINE, start)
        if at >= 0:
            self._tail = b""
            return at + 4
        self._tail = (tail + data[max(start, size - 3) :])[-3:]
        return size

    def _refuse(self, status: int, text: str) -> None:
        self._refusal = RequestRefused(status, text)
        raise self._refusal

    def _refuse_head(self) -> None:
        headers, head = f"{self._max_headers} headers{self._named('MAX_HEADERS')}", f"{self._max_head} bytes"
        limits = f"{headers} or {head}{self._named('MAX_HEAD')}"
        self._refuse(431, f"The head of the request has more than {limits}; it was not read")

    def _ignore_upgrade(self) -> None:
        """Go on after the parser has stopped at a request to switch protocols. This server never switches, so the body
        belongs to the request: a new parser reads it as the body of a request with the same framing."""
        if self._method == b"CONNECT":
            raise RequestRefused(501, "This is no forward proxy: CONNECT was not served")
        self.whole, self._upgrading = False, True
        self._parser = HttpRequestParser(self)
        framing = b"transfer-encoding: chunked" if self._chunked else b"content-length: %d" % self._declared
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")

    # Called by the parser. An exception here ends its feed_data with an HttpParserError.

    def on_message_begin(self) -> None:
        self.begun = True
        if self.whole:
            self._refuse(400, "A second request began within the first; neither was read")

    def on_url(self, url: bytes) -> None:
        if self._upgrading:
            return
        self._url += url
        if len(self._url) > MAX_LINE:
            self._refuse(414, f"The target of the request is longer than {MAX_LINE} bytes; it was not read")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.version:
            return  # a trailer, or the second reading of an upgrade
        if len(self._headers) >= self._max_headers:
            # Now, and not when the head is complete: each line takes far more memory than its bytes.
            self._refuse_head()
        name = name.lower()
        if name in _SPECIAL:
            self._special(name, value)
            if name in _APART:
                return
        self._headers.append((name, value))

    def _special(self, name: bytes, value: bytes) -> None:
        if name == CALL_ID:
            self._call = value
        elif name == b"host":
            if self._host is not None:
                self._refuse(400, "Two Host headers; the request was not read")
            self._host = self._checked_host(value.strip(b" \t"))
        elif name == b"content-length":
            self._declared = int(value)
            if self._declared > self._max_body:
                self._too_large()
        elif name == b"transfer-encoding":
            # The header is not relayed, so the node would take the bytes of another coding for the body.
            if self._chunked or value.strip().lower() != b"chunked":
                self._refuse(400, "A transfer coding other than chunked; the request was not read")
            self._chunked = True
        else:
            # A list, which may have empty members (RFC 9110, section 5.6.1).
            wanted = {one.strip().lower() for one in value.split(b",")} - {b""}
            if wanted - {b"100-continue"}:
                self._refuse(417, "An expectation other than 100-continue; the request was not read")
            self.expects = self.expects or bool(wanted)

    def on_headers_complete(self) -> None:
        if self._upgrading:
            return
        parser = self._parser
        self.version = parser.get_http_version()
        self._method = parser.get_method()
        if self._fed > self._max_head:
            self._refuse_head()
        if self.version != "1.1":
            if self._host is None:
                # The request is relayed as HTTP/1.1, which requires Host.
                self._headers.append((b"host", b""))
            if self.version != "1.0":
                self._refuse(400, f"HTTP/{self.version} is not spoken here; the request was not read")
            if self._chunked:
                self._refuse(400, "HTTP/1.0 has no transfer codings; the request was not read")
            self.expects = False
        elif self._host is None:
            self._refuse(400, "No Host header; the request was not read")
        if self._url[:1] != b"/" or b"#" in self._url:
            self._origin_form()
        self._due = self._declared
        self._chunks = Chunks() if self._chunked else None
        self._fed = 0

    def _origin_form(self) -> None:
        """Replace an absolute target by its path, and the Host header by its authority."""
        scheme, found, rest = self._url.partition(b"://")
        slash = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
        authority, path = rest[:slash], rest[slash:]
        if b"#" in self._url:
            self._refuse(400, "The target of the request has a fragment; it was not read")
        if self._method in (b"OPTIONS", b"CONNECT") and not found:
            return  # "*" or an authority
        if scheme.lower() not in (b"http", b"https") or not authority or b"@" in authority:
            self._refuse(400, "The target of the request is neither a path nor a URL without a user; it was not read")
        self._checked_host(authority)
        self._headers = [(name, authority if name == b"host" else value) for name, value in self._headers]
        self._url = path if path[:1] == b"/" else b"/" + path

    def _checked_host(self, host: bytes) -> bytes:
        if _HOST.fullmatch(host) is None:
            self._refuse(400, "The host of the request is none that a URL can have; it was not read")
        return host

    def on_body(self, piece: bytes) -> None:
        self._fed = max(self._fed - len(piece) - len(piece) // FRAMING, 0)
        if not self._body:
            self._body = piece
        else:
            # Not a list of pieces: for a body in chunks of one byte it would cost 50 bytes for each byte.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += piece
        if len(self._body) > self._max_body:
            self._too_large()

    def _too_large(self) -> None:
        limit = f"the limit is {self._max_body} bytes{self._named('MAX_BODY')}"
        self._refuse(413, f"Request body too large: {limit}; nothing was started")

    def on_message_complete(self) -> None:
        self.whole = True
        if not self._upgrading:
            # Asked here, because the parser forgets it as soon as this method returns.
            self.keep_alive = self._parser.should_keep_alive()

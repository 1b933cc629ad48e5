"""The same tools served twice, by us and by the SDK's own app, and a client that sends both the same bytes."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from tests.kit.client import EVERYTHING, Caller, Envelope, Reply
from tests.kit.nodes import served
from tests.kit.processes import DEADLINE
from tests.kit.serving import Word, said


@dataclass(frozen=True)
class RawResponse:
    """A response as it came: what of it two servers can be compared by, and the rest."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def message(self) -> Any:
        """The JSON-RPC message, None where the body is none."""
        data = self.body
        if data.startswith(b"event:"):
            data = data.rpartition(b"data: ")[2]
        try:
            return json.loads(data)
        except ValueError:
            return None

    @property
    def verdict(self) -> tuple[int, Any]:
        """Status and JSON-RPC error code, or that of OAuth; where there is none, "result" or what the body says."""
        message = self.message
        if not isinstance(message, dict):
            return self.status, self.body.decode()
        error = message.get("error", "result")
        return self.status, error["code"] if isinstance(error, dict) else error


@dataclass(frozen=True)
class RawRequest:
    """A request as bytes. `chunked` sends the body in two chunks without saying how long it is."""

    headers: tuple[tuple[str, str], ...]
    body: bytes
    method: str = "POST"
    path: str = "/mcp"
    chunked: bool = False

    def without(self, *names: str) -> RawRequest:
        """Less these headers."""
        return replace(self, headers=tuple(item for item in self.headers if item[0] not in names))

    def adding(self, **named: str) -> RawRequest:
        """With one more header each, whether or not there is one of the name; underscores stand for hyphens."""
        more = tuple((name.replace("_", "-"), value) for name, value in named.items())
        return replace(self, headers=(*self.headers, *more))

    def having(self, **named: str) -> RawRequest:
        """With these headers instead of those of the same names."""
        return self.without(*(name.replace("_", "-") for name in named)).adding(**named)

    def saying(self, body: bytes | str) -> RawRequest:
        """With another body."""
        return replace(self, body=body if isinstance(body, bytes) else body.encode())

    def but(self, **members: Any) -> RawRequest:
        """With other members of the envelope; `...` leaves a member out."""
        whole = {**json.loads(self.body), **members}
        return self.saying(json.dumps({name: value for name, value in whole.items() if value is not ...}))

    def params(self, **members: Any) -> RawRequest:
        """With other parameters; `...` leaves one out."""
        whole = {**json.loads(self.body)["params"], **members}
        return self.but(params={name: value for name, value in whole.items() if value is not ...})

    def meta(self, **members: Any) -> RawRequest:
        """With other members of `_meta`, by the last part of their names."""
        meta = dict(json.loads(self.body)["params"]["_meta"])
        for name, value in members.items():
            key = next((known for known in meta if known.endswith("/" + name)), name)
            meta[key] = value
        return self.params(_meta={name: value for name, value in meta.items() if value is not ...})

    def encoded(self, host: str) -> bytes:
        """The bytes that go to `host`, which closes the connection after."""
        lines = [f"{self.method} {self.path} HTTP/1.1", "connection: close"]
        names = {name for name, _ in self.headers}
        if "host" not in names:
            lines.append(f"host: {host}")
        if self.chunked:
            lines.append("transfer-encoding: chunked")
        elif "content-length" not in names:
            lines.append(f"content-length: {len(self.body)}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if not self.chunked:
            return head + self.body
        half = len(self.body) // 2
        chunks = [part for part in (self.body[:half], self.body[half:]) if part]
        return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in chunks) + b"0\r\n\r\n"


def raw(envelope: Envelope) -> RawRequest:
    """A request of the usual client, as bytes."""
    return RawRequest(tuple(envelope.headers.items()), json.dumps(envelope.body).encode())


class _Read:
    """A socket's stand-in for the standard library's parser."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


async def send(url: str, request: RawRequest) -> RawResponse:
    """Send the bytes and read until the server closes."""
    host = url.removeprefix("http://").partition("/")[0]
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    try:
        writer.write(request.encoded(host))
        data = await asyncio.wait_for(reader.read(), DEADLINE)
    finally:
        writer.close()
    response = http.client.HTTPResponse(_Read(data), method=request.method)  # type: ignore[arg-type]  # it only reads
    response.begin()
    return RawResponse(response.status, response.headers, response.read())


async def ask(ctx: Context) -> str:
    """Ask once, for a word."""
    return said(await ctx.elicit("Which word?", Word))


async def echo(text: str = "", value: Any = None) -> str:
    """Say what was sent, in characters that any encoding has."""
    return ascii((text, value))


Register = Callable[[MCPServer[Any]], object]


def twin(register: Register | None = None) -> MCPServer[Any]:
    """A server with these tools and whatever `register` adds."""
    server: MCPServer[Any] = MCPServer("twin")
    for tool in (ask, echo):
        server.tool(description="A tool of these tests.")(tool)
    if register is not None:
        register(server)
    return server


class TwinClient(Caller):
    """A client of ours that knows where the SDK's own app serves the same tools."""

    runtime: Runtime
    plain: str

    async def both(self, request: RawRequest) -> tuple[RawResponse, RawResponse]:
        """What we answer, and what the SDK does."""
        return await send(self.url, request), await send(self.plain, request)

    async def parked(self) -> tuple[Reply, RawRequest]:
        """A call that waits for its word, and the retry that would complete it."""
        reply = await self.call("ask")
        answers = {key: {"action": "accept", "content": {"word": "aye"}} for key in reply.asked}
        params = {"name": "ask", "arguments": {}, "requestState": reply.token, "inputResponses": answers}
        return reply, raw(self.envelope("tools/call", params))

    async def completes(self, retry: RawRequest) -> None:
        """Nothing of the parked call was lost or consumed: its good retry ends it."""
        assert self.runtime.counts["resumed"] == 0, "a bad request resumed the handler"
        result = await send(self.url, retry)
        assert result.verdict == (200, "result"), result.body
        assert result.message["result"]["content"][0]["text"] == "aye"


@asynccontextmanager
async def twins(
    register: Register | None = None, *, compared: bool = True, has: Mapping[str, Any] = EVERYTHING, **settings: Any
) -> AsyncIterator[TwinClient]:
    """Both servers and the client; without `compared` ours alone. `settings` are ours, by field; `max_body` is the
    SDK's too."""
    app = framehold.asgi(twin(register), Settings(node_id="edge", **settings))
    limits = {"max_request_body_size": settings["max_body"]} if "max_body" in settings else {}
    plain = twin(register).streamable_http_app(**limits)
    async with served(app) as ours, AsyncExitStack() as stack, TwinClient(ours, has) as client:
        client.runtime = app.attached.runtime
        client.plain = await stack.enter_async_context(served(plain)) if compared else ""
        yield client

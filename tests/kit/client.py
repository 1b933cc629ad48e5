"""A client of revision 2026-07-28 that hides nothing of what is on the wire."""

from __future__ import annotations

import itertools
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Self

import httpx2
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)

from tests.kit.processes import DEADLINE
from tests.kit.proofs import Insider

VERSION = "2026-07-28"
EVERYTHING: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""All that a client can be asked."""


@dataclass
class Reply:
    """One response: its status and headers, the notifications that came first, and the reply itself."""

    status: int
    headers: Mapping[str, str]
    message: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def streamed(self) -> bool:
        return self.headers["content-type"].startswith("text/event-stream")

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.message, self.message
        result: dict[str, Any] = self.message["result"]
        return result

    @property
    def code(self) -> int:
        assert "error" in self.message, self.message
        code: int = self.message["error"]["code"]
        return code

    @property
    def text(self) -> str:
        """What a finished tool says, or an error's message."""
        if "error" in self.message:
            return str(self.message["error"]["message"])
        return " ".join(block.get("text", "") for block in self.result["content"])

    @property
    def token(self) -> str:
        assert self.result["resultType"] == "input_required", self.result
        return str(self.result["requestState"])

    @property
    def asked(self) -> dict[str, dict[str, Any]]:
        """The questions by key."""
        assert self.result["resultType"] == "input_required", self.result
        found: dict[str, dict[str, Any]] = self.result["inputRequests"]
        return found

    @property
    def messages(self) -> list[str]:
        """The questions' texts."""
        return [question["params"]["message"] for question in self.asked.values()]

    def accept(self, **content: Any) -> dict[str, Any]:
        """The same accepted form for each question."""
        return {key: accepted(**content) for key in self.asked}


def accepted(**content: Any) -> dict[str, Any]:
    """A form that was filled in."""
    return {"action": "accept", "content": content}


class Envelope(NamedTuple):
    """A request's body and headers."""

    body: dict[str, Any]
    headers: dict[str, str]


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates of this machine. To read them takes longer than most tests, so it is done once."""
    return httpx2.create_ssl_context()


class Caller:
    """A client that sends one request at a time as it is told to, and hides nothing of the response."""

    def __init__(self, url: str, has: Mapping[str, Any] = EVERYTHING, verify: ssl.SSLContext | None = None) -> None:
        self.url, self.has = url, has
        self._ids = itertools.count(1)
        several = httpx2.Limits(max_connections=300)
        self._http = httpx2.AsyncClient(
            transport=Insider(verify=verify or _trusted(), limits=several), timeout=DEADLINE
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def call(self, tool: str, **options: Any) -> Reply:
        """`tools/call`, its first round. Options as for `send`, and `arguments`."""
        return await self.send("tools/call", {"name": tool, "arguments": options.pop("arguments", {})}, **options)

    async def retry(self, tool: str, token: str, answers: Mapping[str, Any], **options: Any) -> Reply:
        """`tools/call` with answers and a token."""
        params = {"name": tool, "arguments": options.pop("arguments", {})}
        return await self.send(
            "tools/call", {**params, "requestState": token, "inputResponses": dict(answers)}, **options
        )

    async def send(self, method: str, params: dict[str, Any], **options: Any) -> Reply:
        """One request; options as for `envelope`."""
        return await self.post(self.envelope(method, params, **options))

    async def post(self, envelope: Envelope) -> Reply:
        """A request as it is."""
        return _heard(await self._http.post(self.url, json=envelope.body, headers=envelope.headers))

    def envelope(
        self,
        method: str,
        params: dict[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        has: Mapping[str, Any] | None = None,
        request_id: int | str | None = None,
    ) -> Envelope:
        """A request as it is sent. `meta` is added to its `_meta`, `has` replaces the capabilities that the client
        declares."""
        identity = {
            PROTOCOL_VERSION_META_KEY: VERSION,
            CLIENT_INFO_META_KEY: {"name": "caller", "version": "1"},
            CLIENT_CAPABILITIES_META_KEY: dict(self.has if has is None else has),
        }
        result = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
        }
        if name := params.get("name") or params.get("uri"):
            result["mcp-name"] = name
        number = next(self._ids) if request_id is None else request_id
        whole = {**params, "_meta": {**identity, **(meta or {})}}
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": whole}
        return Envelope(body, {**result, **(headers or {})})


def _heard(response: httpx2.Response) -> Reply:
    if not response.headers["content-type"].startswith("text/event-stream"):
        return Reply(response.status_code, response.headers, response.json())
    lines = response.text.splitlines()
    *events, last = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    return Reply(response.status_code, response.headers, last, events)

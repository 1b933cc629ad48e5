"""Connects the official client to a server, and says in words why that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED

from framehold_core.errors import ConfigError

from ..client import addresses
from ..client.credentials import Credentials
from ..client.local_fleets import LOCAL
from ..client.patient import PatientClient, plainly

MAX_ROUNDS = 100
"""The most rounds of one call. A person answers more rounds than the client's default allows."""
TIMEOUT = httpx2.Timeout(30.0, connect=5.0, read=300.0)


@dataclass(frozen=True)
class Endpoint:
    """A server by the URL of its MCP endpoint, and the headers of each request to it. `api`: the address of the router
    whose API tells of it; None if that is `url`.

    Raises:
        ConfigError: `url` is no http address.
    """

    url: str
    credentials: Credentials = field(default_factory=Credentials)
    api: str | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"{self.url} is no http address; nothing was called; name one as http://127.0.0.1:8080/mcp"
            )

    @property
    def router(self) -> str:
        """The address of the router whose API tells of it."""
        return self.api or self.url

    @property
    def http_options(self) -> dict[str, Any]:
        """The options of an HTTP client for it."""
        return {
            "headers": dict(self.credentials.headers),
            "timeout": TIMEOUT,
            # Requests to this machine don't go through a proxy.
            "trust_env": urlsplit(self.url).hostname not in LOCAL,
        }

    def refused(self, http: PatientClient) -> str:
        """Why the last response refused the caller; empty if it did not."""
        return self.credentials.refused(self.url, http.status)


@asynccontextmanager
async def connected(server: Endpoint, http: PatientClient, answer: Any = None) -> AsyncIterator[Client]:
    """The official client of the server, connected over `http`. `answer` is called with each question.

    Raises:
        ConfigError: no MCP server answers, or it refuses the caller.
    """
    connecting = True
    try:
        async with http:
            transport = streamable_http_client(server.url, http_client=http)
            async with Client(transport, elicitation_callback=answer, input_required_max_rounds=MAX_ROUNDS) as client:
                connecting = False
                yield client
    except Exception as error:
        first = innermost(error)
        if not connecting or isinstance(first, ConfigError):
            raise
        if refused := server.refused(http):
            raise ConfigError(f"{refused}; nothing was called") from None
        if http.status and http.status not in (httpx2.codes.OK, httpx2.codes.NOT_FOUND):
            why = f"{server.url} answered with HTTP {http.status}; nothing was called"
            raise ConfigError(f"{why}; look at its log, or {addresses.OTHER}") from None
        way = f"start a fleet with framehold up, or {addresses.OTHER}"
        if http.status == httpx2.codes.NOT_FOUND:
            way = f"try {addresses.endpoints(server.url)}"
        raise ConfigError(f"nobody speaks MCP at {server.url} ({reason(first)}); nothing was called; {way}") from None


def innermost(error: BaseException) -> BaseException:
    """The first error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def reason(error: BaseException) -> str:
    """The error in words. The client's text for a response that broke off is replaced, because it doesn't help a
    user."""
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "the connection broke before the answer was there; whether it ran is not known"
    return plainly(error)

"""A server that only those may use who are authorized, on two nodes behind the router."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AccessToken
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.types import ElicitRequestParams, ElicitResult, TextContent
from pydantic import AnyUrl

from framehold_cli.local.ports import free as free_port
from tests.kit.beside_sdk import raw, send
from tests.kit.client import Caller, Reply
from tests.kit.fleet import Fleet, RouterProcess
from tests.kit.nodes import FrameholdProcess
from tests.kit.processes import DEADLINE
from tests.kit.redis_server import RedisServer
from tests.node.oauth_server import SCOPE, Records

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The fleet lives longer than a test, so its loop does."""
    return "asyncio"


class AtPort(RouterProcess):
    """A router whose address is known before it starts: it is written in the metadata that clients find it by."""

    def __init__(self, port: int, log: Path, **environment: str) -> None:
        FrameholdProcess.__init__(self, ["router", "--port", str(port)], log, **environment)


class Guarded(Fleet):
    """The fleet, and what its authorization server knows."""

    records: Records

    @property
    def root(self) -> str:
        return self.routers[0].root

    def knows(self, bearer: str, *scopes: str) -> str:
        """Issue a token to the user that it names, up to the slash, or change its scopes."""
        user = bearer.partition("/")[0]
        self.records.keep(bearer, AccessToken(token=bearer, client_id="app", subject=user, scopes=list(scopes)))
        return bearer


@pytest.fixture(scope="module")
async def guard(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    port, shared = free_port(), folder / "records"
    shared.mkdir()
    made = Guarded(folder, redis, "tests/node/oauth_server.py")
    made.records = Records(shared)
    made.common |= {"OAUTH_FOLDER": str(shared), "OAUTH_ROOT": f"http://127.0.0.1:{port}"}
    try:
        await made.add_nodes("node-1", "node-2")
        router = AtPort(port, folder / "router.log", **made.common)
        made.routers.append(router)
        await router.start()
        await router.knows(*made.nodes)
        yield made
    finally:
        made.stop()


class As(Caller):
    """A client that brings a bearer token with each request."""

    async def call_as(self, bearer: str) -> Reply:
        return await self.call("who", headers={"authorization": f"Bearer {bearer}"})

    async def answer_as(self, bearer: str, asked: Reply) -> Reply:
        headers = {"authorization": f"Bearer {bearer}"}
        return await self.retry("who", asked.token, asked.accept(word="x"), headers=headers)


async def test_each_round_is_its_users_alone_on_all_nodes(guard: Guarded) -> None:
    """Another user's retry is refused wherever it arrives: by the node that holds the frame, by the one that would pass
    it on, and by the one that would replay it. The user's own carries the call on each time, and after its node's
    death."""
    ann, ben = guard.knows("ann/1", SCOPE), guard.knows("ben/1", SCOPE)
    async with As(guard.routers[0].url) as client:
        asked = await client.call_as(ann)
        assert asked.messages == ["ann, One?"]
        holder = asked.headers["framehold-node"]
        (other,) = set(guard.nodes) - {holder}
        for url in (guard.routers[0].url, guard.nodes[holder].url, guard.nodes[other].url):
            async with As(url) as thief:
                stolen = await thief.answer_as(ben, asked)
            assert (stolen.status, stolen.code, stolen.text) == (400, -32602, "Invalid or expired requestState")
        asked = await client.answer_as(guard.knows("ann/2", SCOPE), asked)
        assert (asked.messages, asked.headers["framehold-node"]) == (["ann, Two?"], holder)
        await guard.add_nodes("node-3")
        guard.nodes.pop(holder).kill()
        stolen = await client.answer_as(ben, asked)
        assert (stolen.status, stolen.text) == (400, "Invalid or expired requestState")
        done = await client.answer_as(ann, asked)
        assert (done.text, done.headers["framehold-route"]) == ("ann", "takeover")


async def test_the_challenge_passes_the_router_as_it_is(guard: Guarded) -> None:
    """Status, body and `WWW-Authenticate`, which names metadata that the router serves."""
    async with As(guard.routers[0].url) as client:
        call = raw(client.envelope("tools/call", {"name": "who", "arguments": {}}))
        for request in (call, call.adding(authorization="Bearer eve/1"), call.adding(mcp_session_id="l1.n.b.s")):
            result, direct = [await send(url, request) for url in (client.url, next(iter(guard.nodes.values())).url)]
            assert (result.status, result.body) == (direct.status, direct.body) and result.status == 401
            challenge = result.headers["www-authenticate"]
            assert challenge == direct.headers["www-authenticate"]
        metadata = f"{guard.root}/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{metadata}"' in challenge
        async with httpx2.AsyncClient() as http:
            text = (await http.get(metadata)).json()
            assert (text["resource"], text["authorization_servers"]) == (f"{guard.root}/mcp", [guard.root])
            known = (await http.get(f"{guard.root}/.well-known/oauth-authorization-server")).json()
        assert known["token_endpoint"] == f"{guard.root}/token"


@dataclass
class Wallet:
    """What the official client keeps, and the person who follows its redirects."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    came_back: str = ""
    visited: list[str] = field(default_factory=list)

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def redirected(self, url: str) -> None:
        async with httpx2.AsyncClient() as http:
            result = await http.get(url)
        assert result.status_code == 302, result.text
        self.came_back = result.headers["location"]

    async def answered(self) -> AuthorizationCodeResult:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.came_back).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    async def note(self, response: httpx2.Response) -> None:
        self.visited.append(f"{response.status_code} {response.request.url.path}")


async def elicited(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    assert params.message.startswith("ann, ")
    return ElicitResult(action="accept", content={"word": "x"})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_authorizes_itself_through_the_router(guard: Guarded, mode: str) -> None:
    """Challenge, metadata, registration, consent, token: each goes to any node, since they share what they know; then
    the tool asks twice."""
    wallet = Wallet()
    metadata = OAuthClientMetadata(
        client_name="test",
        redirect_uris=[AnyUrl("http://localhost:1/callback")],
        token_endpoint_auth_method="client_secret_post",
    )
    provider = OAuthClientProvider(guard.routers[0].url, metadata, wallet, wallet.redirected, wallet.answered)
    hooks = {"response": [wallet.note]}
    async with httpx2.AsyncClient(auth=provider, timeout=DEADLINE, event_hooks=hooks) as http:
        transport = streamable_http_client(guard.routers[0].url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=elicited) as client:
            result = await client.call_tool("who", {})
    (block,) = result.content
    assert isinstance(block, TextContent) and block.text == "ann"
    assert wallet.tokens is not None and wallet.tokens.scope == SCOPE
    assert wallet.visited[:5] == [
        "401 /mcp",
        "200 /.well-known/oauth-protected-resource/mcp",
        "200 /.well-known/oauth-authorization-server",
        "201 /register",
        "200 /token",
    ]
    assert set(wallet.visited[5:]) <= {"200 /mcp", "202 /mcp"}


def test_no_bearer_is_logged(guard: Guarded) -> None:
    logs = "".join(child.log() for child in (*guard.routers, *guard.nodes.values()))
    assert "ann/" not in logs and "ben/" not in logs

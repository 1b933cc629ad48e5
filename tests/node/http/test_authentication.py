"""Configured authentication guards our entry as it guards the SDK's, and binds a call to whoever began it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from pydantic import AnyHttpUrl

import framehold
from framehold.admin import tool_list
from framehold.config import Settings
from framehold.engine import memory
from framehold.engine.runtime import Runtime
from framehold.telemetry.tool_labels import ToolLabels
from framehold_core.events import Expired
from framehold_core.value import replace
from framehold_store import system_clock as clock
from tests.kit.beside_sdk import RawRequest, raw, send
from tests.kit.client import Caller, Reply
from tests.kit.nodes import served
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio


class Verifier:
    """Knows tokens of the form `user/scope/number`; the number changes when the user's token is renewed."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user, _, rest = token.partition("/")
        if user not in ("ann", "ben"):
            return None
        scope, _, number = rest.partition("/")
        expires = 1 if number == "expired" else None
        return AccessToken(token=token, client_id="app", subject=user, scopes=[scope], expires_at=expires)


URL = AnyHttpUrl("http://127.0.0.1:9")
GUARD: dict[str, Any] = {
    "token_verifier": Verifier(),
    "auth": AuthSettings(
        issuer_url=URL, resource_server_url=URL, required_scopes=["ask"], validate_token_resource=False
    ),
}
"""What authenticates users."""


def guarded() -> MCPServer[Any]:
    """A server whose tools tell which access token they see."""
    server: MCPServer[Any] = MCPServer("guarded", **GUARD)

    def seen() -> str:
        token = get_access_token()
        return token.token.rpartition("/")[2] if token else "none"

    @server.tool()
    async def watch(ctx: Context) -> str:
        """Note the access token before and after each question, in the handler and in gathered children."""
        reply: list[str] = [seen()]

        async def child(name: str) -> None:
            before = seen()
            said(await ctx.elicit(f"{name}?", Word))
            reply.append(f"{name}:{before}>{seen()}")

        said(await ctx.elicit("first?", Word))
        reply.append(seen())
        await asyncio.gather(child("left"), child("right"))
        reply.append(seen())
        async with asyncio.TaskGroup() as group:
            group.create_task(child("last"))
        return " ".join([reply[0], reply[1], *sorted(reply[2:4]), *reply[4:], seen()])

    @server.tool()
    async def grow(ctx: Context) -> str:
        """Run large effects until one is refused; say how many were run."""
        for number in range(100):
            try:
                await framehold.once(f"k{number}", lambda: "x" * 3_000)
            except framehold.LimitExceeded as error:
                return f"{number} {error}"
        return "100"

    return server


class Guarded(Caller):
    """A client that brings a bearer token with each request."""

    runtime: Runtime
    plain: str

    async def call_as(self, bearer: str, **arguments: Any) -> Reply:
        return await self.call("watch", arguments=arguments, headers={"authorization": f"Bearer {bearer}"})

    async def answer_as(self, bearer: str, asked: Reply, word: str = "x", **arguments: Any) -> Reply:
        headers, answers = {"authorization": f"Bearer {bearer}"}, asked.accept(word=word)
        return await self.retry("watch", asked.token, answers, arguments=arguments, headers=headers)

    async def complete_as(self, bearer: str, asked: Reply, **arguments: Any) -> str:
        while asked.result["resultType"] == "input_required":
            asked = await self.answer_as(bearer, asked, **arguments)
        return asked.text


@asynccontextmanager
async def guard(**settings: Any) -> AsyncIterator[Guarded]:
    app = framehold.asgi(guarded(), Settings(node_id="guarded", **settings))
    plain = guarded().streamable_http_app()
    async with served(app) as ours, served(plain) as theirs, Guarded(ours) as client:
        client.runtime, client.plain = app.attached.runtime, theirs
        yield client


REFUSED: dict[str, tuple[dict[str, str], int]] = {
    "no token": ({}, 401),
    "an empty one": ({"authorization": ""}, 401),
    "no bearer": ({"authorization": "Basic YTpi"}, 401),
    "nobody's": ({"authorization": "Bearer eve/ask/1"}, 401),
    "expired": ({"authorization": "Bearer ann/ask/expired"}, 401),
    "of another scope": ({"authorization": "Bearer ann/look/1"}, 403),
}


async def test_who_may_not_is_refused_as_the_sdk_refuses() -> None:
    """The same status, body and challenge, for what our entry serves and for what it does not; nothing is started, and
    a parked call completes after."""
    async with guard() as client:
        asked = await client.call_as("ann/ask/1")
        answers = asked.accept(word="x")
        retry = {"name": "watch", "arguments": {}, "requestState": asked.token, "inputResponses": answers}
        requests = {
            "call": raw(client.envelope("tools/call", {"name": "watch", "arguments": {}})),
            "retry": raw(client.envelope("tools/call", retry)),
            "list": raw(client.envelope("tools/list", {})),
            "broken": raw(client.envelope("tools/call", {})).saying("{"),
            "get": RawRequest((("accept", "text/event-stream"),), b"", "GET"),
        }
        for name, request in requests.items():
            for how, (headers, status) in REFUSED.items():
                mine = RawRequest((*request.headers, *headers.items()), request.body, request.method)
                ours, theirs = await send(client.url, mine), await send(client.plain, mine)
                assert ours.status == theirs.status == status, (name, how)
                assert ours.body == theirs.body
                assert ours.headers["www-authenticate"] == theirs.headers["www-authenticate"]
                assert "resource_metadata" in ours.headers["www-authenticate"]
        assert (client.runtime.counts["entered"], client.runtime.counts["resumed"]) == (1, 0)
        assert await client.complete_as("ann/ask/1", asked)


async def test_another_users_token_is_refused() -> None:
    """A parked call is its user's alone; a renewed access token of the same user is the same user."""
    async with guard() as client:
        asked = await client.call_as("ann/ask/1")
        stolen = await client.answer_as("ben/ask/1", asked)
        assert (stolen.status, stolen.code) == (400, -32602)
        assert stolen.text == "Invalid or expired requestState"
        assert client.runtime.counts["resumed"] == 0
        assert await client.complete_as("ann/ask/2", asked)
        late = await client.answer_as("ben/ask/1", asked)
        assert (late.status, late.code, late.text) == (400, -32602, "Invalid or expired requestState")


async def test_the_access_token_is_that_of_the_present_round() -> None:
    """Also in gathered children, and in the handler after they have asked."""
    async with guard() as client:
        reply = await client.call_as("ann/ask/1")
        for number in (2, 3, 4):
            reply = await client.answer_as(f"ann/ask/{number}", reply)
        assert reply.text == "1 2 left:2>3 right:2>3 3 last:3>4 4"


async def test_the_access_tokens_of_two_users_never_mix() -> None:
    async with guard() as client:
        ann, ben = await client.call_as("ann/ask/a1"), await client.call_as("ben/ask/b1")
        for number in (2, 3, 4):
            ann, ben = await asyncio.gather(
                client.answer_as(f"ann/ask/a{number}", ann), client.answer_as(f"ben/ask/b{number}", ben)
            )
        assert ann.text == "a1 a2 left:a2>a3 right:a2>a3 a3 last:a3>a4 a4"
        assert ben.text == "b1 b2 left:b2>b3 right:b2>b3 b3 last:b3>b4 b4"


async def test_max_journal_per_principal() -> None:
    """What one user's calls have in the store is counted together. Beyond the limit a new call is refused, and an
    answer that is not small: nothing is started or taken, another user is served, and small answers end the calls."""
    async with guard(max_journal_per_principal=40_000) as client:
        parked = [await client.call_as(f"ann/ask/{number}") for number in (1, 2, 3)]
        assert (await client.answer_as("ann/ask/1", parked[0], "x" * 20_000)).asked
        refused = await client.answer_as("ann/ask/2", parked[1], "x" * 20_000)
        assert (refused.status, refused.code) == (503, -32603)
        assert "FRAMEHOLD_MAX_JOURNAL_PER_PRINCIPAL" in refused.text and "no answer was taken" in refused.text
        assert int(refused.headers["retry-after"]) >= 1
        second = await client.answer_as("ann/ask/2", parked[1], "x" * 11_000)
        assert second.asked
        full = await client.call_as("ann/ask/4")
        assert (full.status, full.code) == (503, -32603)
        assert "FRAMEHOLD_MAX_JOURNAL_PER_PRINCIPAL" in full.text and "nothing was started" in full.text
        other = await client.call_as("ben/ask/1")
        assert (await client.answer_as("ben/ask/1", other, "x" * 20_000)).asked
        assert await client.complete_as("ann/ask/3", parked[2])
        assert await client.complete_as("ann/ask/2", second)
        assert (await client.call_as("ann/ask/4")).asked


async def test_a_journal_counts_for_its_user_until_its_record_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its frame was let go of: the store keeps it."""
    async with guard(max_journal_per_principal=20_000) as client:
        asked = await client.call_as("ann/ask/1")
        assert (await client.answer_as("ann/ask/1", asked, "x" * 20_000)).status == 503
        assert (await client.answer_as("ann/ask/1", asked, "x" * 15_000)).asked
        (slot,) = client.runtime.table
        slot.call = replace(slot.call, expires=clock.now())
        client.runtime.feed(slot, Expired())
        assert not len(client.runtime.table)
        assert (await client.call_as("ann/ask/2")).status == 503
        after = clock.now() + 1_000
        monkeypatch.setattr(client.runtime.clock, "now", lambda: after)
        assert (await client.call_as("ann/ask/2")).asked


async def test_a_handler_can_not_take_its_user_far_beyond() -> None:
    async with guard(max_journal_per_principal=10_000) as client:
        grown = await client.call("grow", headers={"authorization": "Bearer ann/ask/1"})
        count, _, why = grown.text.partition(" ")
        assert 4 <= int(count) <= 6
        assert "FRAMEHOLD_MAX_JOURNAL_PER_PRINCIPAL" in why and "once('k" in why


async def test_max_parked_per_principal() -> None:
    """One user's calls are counted by themselves: the message names the setting, others are served, an end makes
    room."""
    async with guard(max_parked_per_principal=2) as client:
        parked = [await client.call_as(f"ann/ask/{number}") for number in (1, 2)]
        full = await client.call_as("ann/ask/3")
        assert (full.status, full.code) == (503, -32603)
        assert "FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL" in full.text
        assert int(full.headers["retry-after"]) >= 1
        listed = await client.send("tools/list", {}, headers={"authorization": "Bearer ann/ask/3"})
        assert listed.result["tools"]
        other = await client.call_as("ben/ask/1")
        result = await tool_list.tools(client.runtime, ToolLabels(tuple), None)
        assert ([holder.calls for holder in result.holders], result.over_limit) == ([2, 1], 1)
        assert all("ann" not in holder.who and "ben" not in holder.who for holder in result.holders)
        assert await client.complete_as("ann/ask/1", parked[0])
        third = await client.call_as("ann/ask/4")
        assert third.messages == ["first?"]
        for bearer, asked in (("ann/ask/1", parked[1]), ("ann/ask/1", third), ("ben/ask/1", other)):
            assert await client.complete_as(bearer, asked)


async def test_heavy_arguments_of_one_user_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they take, not by their number: a few calls of one user could fill a node."""
    monkeypatch.setattr(memory, "resident", lambda: 100 << 20)
    # A quarter of what is left for calls: 7 MiB.
    async with guard(memory_limit=160 << 20) as client:
        junk, more = ["x" * 10] * 40_000, ["x" * 10] * 60_000
        parked = await client.call_as("ann/ask/1", junk=junk)
        light = await client.call_as("ann/ask/2")
        full = await client.call_as("ann/ask/3", junk=more)
        assert (full.status, full.code) == (503, -32603)
        assert "FRAMEHOLD_MEMORY_LIMIT" in full.text and "nothing was started" in full.text
        other = await client.call_as("ben/ask/1", junk=more)
        assert await client.complete_as("ann/ask/1", parked, junk=junk)
        third = await client.call_as("ann/ask/4", junk=more)
        assert await client.complete_as("ann/ask/2", light)
        assert await client.complete_as("ann/ask/4", third, junk=more)
        assert await client.complete_as("ben/ask/1", other, junk=more)

"""The rounds of a call as spans: each leads to the one before, on whatever node that was, and a handler's own spans
hang under the round that runs it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Context as FastContext
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp.server.mcpserver import Context
from mcp.server.request_state import AESGCMRequestStateCodec
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import framehold
from framehold.config import Settings
from framehold.http.app import Application
from framehold_core.ids import NodeId, prefix
from framehold_fleet.members.membership import LIVE
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said, serving
from tests.kit.tracing import Traces, at, links, pair, parent, tracer, traces, two
from tests.kit.tracing import said as told

pytestmark = pytest.mark.anyio
CALLED = "tools/call two"


@pytest.fixture(scope="module")
def provider() -> Iterator[Traces]:
    with traces() as found:
        yield found


@pytest.fixture
def seen(provider: Traces) -> Traces:
    provider.clear()
    return provider


async def both(ctx: Context) -> str:
    """Two branches that ask and then do something each."""

    async def branch(name: str) -> str:
        word = said(await ctx.elicit(name, Word))
        with tracer.start_as_current_span(name):
            return word

    return " ".join(await asyncio.gather(branch("a"), branch("b")))


async def answered(client: Caller, reply: Reply, tool: str = "two") -> Reply:
    return await client.retry(tool, reply.token, reply.accept(word="x"))


async def test_each_round_leads_to_the_one_before_and_to_the_first(seen: Traces) -> None:
    """And says which round of which call it is, how it found its frame, and on which node."""
    async with serving(two) as client:
        asked = await client.call("two")
        again = await answered(client, asked)
        assert (await answered(client, again)).text == "x x"
    one, two_, three = seen.named(CALLED)
    assert links(one) == {}
    assert links(two_) == {"previous round": at(one)}
    assert links(three) == {"previous round": at(two_), "first round": at(one)}
    call = prefix(asked.token.split(".")[1])
    common = {"call": call, "tool": "two", "epoch": 1, "node": "stage"}
    assert told(one) == {**common, "round": 1, "route": "start"}
    assert told(two_) == {**common, "round": 2, "route": "resume"}
    assert told(three) == {**common, "round": 3, "route": "resume"}


async def test_spans_of_a_handler_hang_under_the_round_that_runs_it(seen: Traces) -> None:
    """One that is open while the client thinks goes on; once it has ended, what was current before it is the present
    round, not the one that entered the handler."""
    async with serving(two) as client:
        asked = await answered(client, await client.call("two"))
        assert (await answered(client, asked)).text == "x x"
    one, two_, three = map(at, seen.named(CALLED))
    assert parent(seen.one("first")) == one
    assert parent(seen.one("inner")) == at(seen.one("first"))
    assert parent(seen.one("between")) == two_
    assert parent(seen.one("last")) == three
    assert (seen.named(CALLED)[2].attributes or {})["own"] == "said in round 3"


async def test_a_handler_reads_the_span_of_the_round_that_runs_it(seen: Traces) -> None:
    """A recording span has more than the methods that each span has."""
    read: list[Any] = []

    def look() -> None:
        span: Any = trace.get_current_span()
        span.set_attribute("looks", len(read))
        own = {name: getattr(span, name) for name in ("name", "parent", "start_time", "resource")}
        read.append((span.attributes["looks"], own))
        with pytest.raises(AttributeError, match="no_such_part"):
            _ = span.no_such_part

    async def looks(ctx: Context) -> str:
        look()
        word = said(await ctx.elicit("Well?", Word))
        look()
        return str(copy.copy(trace.get_current_span()).is_recording()) + word

    async with serving(looks) as client:
        assert (await answered(client, await client.call("looks"), "looks")).text == "Truex"
    for (number, own), span in zip(read, seen.named("tools/call looks"), strict=True):
        assert number == (span.attributes or {})["looks"]
        assert own == {name: getattr(span, name) for name in own}


async def test_each_branch_of_a_handler_goes_on_under_the_new_round(seen: Traces) -> None:
    async with serving(both) as client:
        asked = await client.call("both")
        assert (await answered(client, asked, "both")).text == "x x"
    resumed = seen.named("tools/call both")[1]
    assert parent(seen.one("a")) == parent(seen.one("b")) == at(resumed)


async def test_a_takeover_is_seen_from_the_first_node_to_the_second(
    seen: Traces, redis: RedisServer, tmp_path: Path
) -> None:
    """Round 2 on the heir leads to round 1 on the node that died; the replay stands between, with what was done again
    under it."""
    async with pair(redis, tmp_path.name) as ((a, at_a), (_, at_b)):
        asked = await at_a.call("two")
        # Its lease goes, its calls stay: as of a process that was killed.
        await a.attached.runtime.heartbeat.close()
        again = await answered(at_b, asked)
        assert again.headers["framehold-route"] == "takeover"
    one, two_ = seen.named(CALLED)
    assert (told(one)["node"], told(two_)["node"]) == ("a", "b")
    assert links(two_) == {"previous round": at(one)}
    assert (told(two_)["route"], told(two_)["round"], told(two_)["epoch"]) == ("takeover", 2, 2)
    replay = seen.one("framehold replay")
    assert parent(replay) == at(two_)
    assert {name: told(replay)[name] for name in ("from_node", "node", "entries", "route")} == {
        "from_node": "a",
        "node": "b",
        "entries": 1,
        "route": "takeover",
    }
    assert replay.status.status_code is StatusCode.UNSET
    entered_again = seen.named("first")[-1]
    assert parent(entered_again) == at(replay)
    assert parent(seen.one("between")) == at(two_)


async def test_a_request_that_is_passed_on_is_no_error(seen: Traces, redis: RedisServer, tmp_path: Path) -> None:
    async with pair(redis, tmp_path.name) as ((_, at_a), (_, at_b)):
        again = await answered(at_b, await at_a.call("two"))
        assert again.headers["framehold-node"] == "a"
    one, passed, two_ = seen.named(CALLED)
    assert (told(passed)["route"], told(passed)["node"], told(passed)["to_node"]) == ("relay", "b", "a")
    assert passed.status.status_code is StatusCode.UNSET and "error.type" not in (passed.attributes or {})
    assert links(passed) == links(two_) == {"previous round": at(one)}
    assert (told(two_)["route"], told(two_)["node"]) == ("resume", "a")


async def test_a_call_whose_token_is_all_of_it_is_followed_over_nodes(
    seen: Traces, redis: RedisServer, tmp_path: Path
) -> None:
    """Strategy replay: each round on another node, each leading to the one before."""
    async with pair(redis, tmp_path.name, strategy="replay") as ((_, at_a), (_, at_b)):
        asked = await answered(at_b, await at_a.call("two"))
        assert (await answered(at_a, asked)).text == "x x"
    one, two_, three = seen.named(CALLED)
    assert [told(span)["node"] for span in (one, two_, three)] == ["a", "b", "a"]
    assert [told(span)["route"] for span in (one, two_, three)] == ["start", "replay", "replay"]
    assert links(three) == {"previous round": at(two_), "first round": at(one)}
    assert [parent(span) for span in seen.named("framehold replay")] == [at(two_), at(three)]
    assert "from_node" not in told(seen.named("framehold replay")[0])


async def test_a_replay_that_fails_says_so(seen: Traces) -> None:
    kinds = iter(("one", "other"))

    @framehold.reentrant
    async def strays(ctx: Context) -> str:
        """Asks something else each time."""
        return said(await ctx.elicit(next(kinds), Word))

    async with serving(strays, rehearse=True) as client:
        asked = await client.call("strays")
        await answered(client, asked, "strays")
    replay = seen.one("framehold replay")
    assert (replay.status.status_code, replay.status.description) == (StatusCode.ERROR, "diverged")
    assert told(seen.named("tools/call strays")[1])["refused"] == "diverged"


async def test_a_round_whose_handler_raised_says_what_and_where(seen: Traces) -> None:
    """By class and place; nothing of the exception's text, which may hold what a user typed."""

    async def fails(ctx: Context) -> str:
        """Asks once and raises."""
        raise LookupError(said(await ctx.elicit("one", Word)))

    async with serving(fails) as client:
        asked = await client.call("fails")
        assert (await client.retry("fails", asked.token, asked.accept(word="secret"))).result["isError"]
    first, second = seen.named("tools/call fails")
    assert first.events == ()
    (event,) = second.events
    line = fails.__code__.co_firstlineno + 2
    place = f"{__name__}:{fails.__qualname__}:{line}"
    assert (event.name, dict(event.attributes or {})) == (
        "exception",
        {"exception.type": "LookupError", "framehold.place": place},
    )
    assert second.status.status_code is StatusCode.ERROR and "secret" not in second.to_json()


async def test_the_wait_for_a_lease_is_a_span(seen: Traces, redis: RedisServer, tmp_path: Path) -> None:
    gone = "http://127.0.0.1:1"
    async with pair(redis, tmp_path.name) as ((a, at_a), (b, at_b)):
        asked = await at_a.call("two")
        heartbeat = a.attached.runtime.heartbeat
        heartbeat.address = gone
        heartbeat.announce(LIVE)
        await until(lambda: b.attached.runtime.peers.mint() and _address_of(b, "a") == gone, "the address to spread")
        waiting = asyncio.create_task(answered(at_b, asked))
        await until(lambda: b._relay.outages.is_watched(gone), "the wait")
        await heartbeat.close()
        assert (await waiting).messages == ["two"]
    _, passed, two_ = seen.named(CALLED)
    assert told(passed)["route"] == "relay" and told(two_)["route"] == "takeover"
    wait = seen.one("framehold wait for lease")
    assert parent(wait) == at(passed)
    call = prefix(asked.token.split(".")[1])
    assert told(wait) == {"call": call, "address": gone, "result": "over"}
    assert (passed.end_time or 0) <= (wait.end_time or 0) <= (two_.start_time or 0)


def _address_of(app: Application, node: str) -> str | None:
    membership = app.attached.runtime.peers._membership
    member = membership and membership.fleet.members.get(NodeId(node))
    return member.url if member else None


async def test_a_round_that_is_not_sampled_leaves_the_token_as_it_was(seen: Traces) -> None:
    """And what the handler does is not sampled either, though the next round may be."""
    seen.sampler.on = False
    async with serving(two, keys=(KEY,)) as client:
        asked = await client.call("two")
        assert "trace" not in claims(asked.token)
        seen.sampler.on = True
        again = await answered(client, asked)
        assert claims(again.token)["trace"].startswith("00-")
    (two_,) = seen.named(CALLED)
    assert links(two_) == {} and seen.named("first") == []
    assert parent(seen.one("between")) == at(two_)


async def test_a_token_that_says_something_else_of_spans_is_read_all_the_same(seen: Traces) -> None:
    """A later release may say more; what can't be read is passed over."""
    async with serving(two, keys=(KEY,)) as client:
        for odd in ("01-what", "", 7, ["00-0-0-01"], "00-" + "0" * 32 + "-" + "0" * 16 + "-01"):
            asked = await client.call("two")
            codec, (kind, call, _) = AESGCMRequestStateCodec([KEY]), asked.token.split(".", 2)
            token = codec.seal(json.dumps({**claims(asked.token), "trace": odd, "more": 1}).encode())
            reply = await client.retry("two", f"{kind}.{call}.{token}", asked.accept(word="x"))
            assert reply.messages == ["two"], odd
            assert links(seen.named(CALLED)[-1]) == {}, odd


async def test_a_fastmcp_server_is_traced_alike(seen: Traces) -> None:
    """FastMCP makes spans of its own, which lead to each other too. It records a failure on the span of the request
    that gets it."""
    server: FastMCP[Any] = FastMCP("fails")

    @server.tool
    async def fails(ctx: FastContext) -> str:
        """Ask twice, then raise."""
        await ctx.elicit("one", Word)
        with tracer.start_as_current_span("after"):
            await ctx.elicit("two", Word)
        raise ToolError("no")

    @server.tool
    def at_once() -> str:
        """Raise."""
        raise ToolError("no")

    app = framehold.asgi(server, Settings(node_id="fast"))
    async with served(app) as url, Caller(url) as client:
        asked = await answered(client, await client.call("fails"), "fails")
        assert (await answered(client, asked, "fails")).text == "no"
        assert (await client.call("at_once")).text == "no"
    # FastMCP gives its span of a request the tool's name where the handler is entered.
    one, two_, three, alone = *seen.named("tools/call fails"), *seen.named("tools/call"), seen.one("tools/call at_once")
    assert links(two_) == {"previous round": at(one)}
    assert (told(one)["route"], told(two_)["route"]) == ("start", "resume")
    assert parent(seen.one("after")) == at(two_)
    assert [span.status.status_code for span in (one, two_)] == [StatusCode.UNSET] * 2
    for span in (three, alone):
        assert span.status.status_code is StatusCode.ERROR and (span.attributes or {})["error.type"] == "tool_error"


async def test_what_was_traced_last_is_handed_over_when_the_server_ends(
    seen: Traces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A signal ends the process before an exit handler runs. A collector that fails harms nothing."""
    waited: list[int] = []

    def flush(milliseconds: int) -> None:
        waited.append(milliseconds)
        raise OSError("the collector is away")

    monkeypatch.setattr(seen.provider, "force_flush", flush)
    async with serving(two) as client:
        await client.call("two")
        assert waited == []
    assert waited == [5000] and "it is lost" in caplog.text


async def test_where_nobody_traces_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    found: list[Any] = []

    async def looks(ctx: Context) -> str:
        """Asks once."""
        found.append(trace.get_current_span())
        word = said(await ctx.elicit("one", Word))
        found.append(trace.get_current_span())
        return word

    async with serving(looks, keys=(KEY,)) as client:
        asked = await client.call("looks")
        assert (await answered(client, asked, "looks")).text == "x"
    assert claims(asked.token).keys() == {"v", "iat", "exp", "m", "t", "a", "aud", "s"}
    assert found == [trace.INVALID_SPAN, trace.INVALID_SPAN]


def claims(token: str) -> dict[str, Any]:
    """What is sealed in a token."""
    found: dict[str, Any] = json.loads(AESGCMRequestStateCodec([KEY]).unseal(token.split(".", 2)[2]))
    return found

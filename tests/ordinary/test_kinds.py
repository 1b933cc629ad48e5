"""What a review found to differ between the two paths, each kind by itself: what handlers do with their request, what
authors do with their server while it runs, and what happens beside a request."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError

import framehold
from framehold.http.ordinary_rounds import OrdinaryRequest
from framehold.json_text import weight
from tests.kit.cycles import cycles
from tests.ordinary.conversations import FORM, Conversation
from tests.ordinary.equality import both, played
from tests.ordinary.tools import Units

pytestmark = pytest.mark.anyio
WEATHER = Conversation("weather", {"location": "Oslo"}, [FORM])


async def test_a_request_that_is_answered_is_no_garbage_cycle() -> None:
    known = list[weakref.ref[Any]]()
    made = OrdinaryRequest.__init__

    def noted(request: Any, *args: Any) -> None:
        made(request, *args)
        known.append(weakref.ref(request))

    with cycles():
        async with both() as (short, _):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(OrdinaryRequest, "__init__", noted)
                for _ in range(3):
                    await Conversation("looks", {}, [FORM]).hold(short)
            short.message = {}
        assert known and not [request for request in known if request() is not None]


async def test_marks_that_are_set_late_count() -> None:
    async with both() as pair:

        async def waits(ctx: Context) -> str:
            return (await ctx.elicit("ok?", Units)).action

        for side in pair:
            side.app.server.add_tool(waits)
        talk = Conversation("waits", {}, [FORM])
        await played(pair, [talk, talk])
        framehold.options(ttl=30)(framehold.reentrant(waits))
        await played(pair, [Conversation("waits", {}, [])])
        for side in pair:
            (slot,) = side.app.attached.runtime.table
            assert (slot.call.reentrant, slot.call.ttl) == (True, 30.0)


@pytest.mark.parametrize("place", [0, 1])
async def test_a_boundary_of_the_author_is_asked(place: int) -> None:
    """It may be a class of the author's, or a second one."""

    class Denies(RequestStateBoundary):
        async def __call__(self, ctx: Any, call_next: Any) -> Any:
            raise MCPError(-32001, "denied")

    async with both() as pair:
        await played(pair, [WEATHER, WEATHER])
        for side in pair:
            denies = Denies(RequestStateSecurity.ephemeral(), default_audience=None)
            side.app.attached.server.middleware.insert(place * 9, denies)
        tally = await played(pair, [WEATHER])
        assert not tally.differences and not tally.taken and pair[0].message["error"]["message"] == "denied"


@pytest.mark.parametrize("name", ["convert_result", "validate_arguments"])
async def test_a_patched_layer_of_the_sdk_is_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with both() as pair:
        await played(pair, [WEATHER, WEATHER])
        layer = getattr(FuncMetadata, name)
        called = list[str]()

        def patched(metadata: Any, value: Any) -> Any:
            called.append(name)
            return layer(metadata, value)

        monkeypatch.setattr(FuncMetadata, name, patched)
        tally = await played(pair, [WEATHER])
        assert not tally.differences and called == [name, name]


async def test_a_response_that_can_t_be_sent_is_begun_once() -> None:
    class Broken(Exception):
        pass

    begun: dict[bool, list[str]] = {}
    async with both() as pair:
        for is_short, side in enumerate(reversed(pair)):
            await WEATHER.hold(side)
            sent = begun[bool(is_short)] = []
            request = Conversation("plain", {"text": "x"}, [])
            await request.hold(side)

            async def breaks(message: Any, sent: list[str] = sent) -> None:
                sent.append(message["type"])
                if message["type"] == "http.response.body":
                    raise Broken

            with pytest.raises(Broken):
                await side.give(request.sent(side), breaks)
        assert begun == {True: ["http.response.start", "http.response.body"]} | {False: begun[True]}


async def test_a_retry_whose_frame_goes_to_make_room_for_it_is_carried_on() -> None:
    """To charge its bytes may evict the frame that it is for."""
    async with both() as (short, _):
        talk = Conversation("marked", {}, [FORM])
        await talk.hold(short)
        seen = await Conversation("marked", {}, []).hold(short)
        assert "input_required" in seen[0].body
        runtime = short.app.attached.runtime
        (slot,) = runtime.table
        large = {**FORM, "_meta": {"more": ["x"] * 100}}
        retry = Conversation("marked", {}, [large]).retry(short, large)
        assert len(retry.data) > 1024 and sum(weight(retry.data, 1 << 20)) > 4096
        charged = runtime.eviction.room

        def evicts() -> float | None:
            runtime.eviction._evict(1, "memory")
            return charged()

        runtime.eviction.room = evicts
        reply = await short.send(retry)
        assert '"isError":false' in reply.body and "accept" in reply.body, reply
        assert slot.place == slot.call.id


async def test_a_value_that_is_too_heavy_is_refused_as_on_the_long_path() -> None:
    heavy = {**FORM, "_meta": {"more": [{}] * 60}}
    async with both(max_body=2000) as pair:
        for side in pair:
            await WEATHER.hold(side)
            await Conversation("weather", {"location": "Oslo"}, []).hold(side)
        one, other = [await side.send(WEATHER.retry(side, heavy)) for side in pair]
        assert one == other and one.status == 413


@pytest.mark.parametrize(("name", "argument"), [("weather", "location"), ("greeting", "name")])
async def test_a_parked_call_of_a_heavy_request_keeps_little_of_it(name: str, argument: str) -> None:
    async with both(keys=("k" * 32,)) as pair:
        kept = list[Any]()
        for side in pair:
            for value in ("Oslo", "y" * 40_000):
                await Conversation(name, {argument: value}, []).hold(side)
            *_, slot = side.app.attached.runtime.table
            handler: Any = slot.handler
            kept.append((handler.describe(), handler._raw, handler.weight))
            assert not getattr(handler, "given_arguments", b"")
    assert kept[0] == kept[1] and kept[0][1] == {"name": name} and kept[0][2] > 40_000

"""The patient client: which requests it retries, for how long, and the messages when the retries fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from framehold_cli.client import patient
from framehold_cli.client.patient import PatientClient

pytestmark = pytest.mark.anyio

FIRST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}
ROUND: dict[str, Any] = {**FIRST, "params": {"name": "t", "requestState": "h1.x"}}
WAITS = "if its node is still there, the call waits on it until its token expires"


class Torn(httpx2.AsyncByteStream):
    """A response body that breaks off."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: "
        raise httpx2.ReadError("")


def streamed(error: dict[str, Any]) -> httpx2.Response:
    """A response that had begun to stream before its error was known."""
    events = [{"method": "notifications/progress", "params": {"progress": 1}}, {"id": 1, "error": error}]
    lines = "".join(f"event: message\r\ndata: {json.dumps(event)}\r\n\r\n" for event in events)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=f": ping\r\n\r\n{lines}")


Act = type[Exception] | httpx2.Response | Callable[[], httpx2.Response]


class Server:
    """Handles each request with the next of the given actions, and repeats the last one without end."""

    def __init__(self, *acts: Act) -> None:
        self._acts = acts
        self.asked = 0
        self.noticed: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        act = self._acts[min(self.asked, len(self._acts) - 1)]
        self.asked += 1
        if isinstance(act, httpx2.Response):
            return act
        if not isinstance(act, type):
            return act()
        raise act("told to fail")

    def client(self, patience: float = 15.0) -> PatientClient:
        return PatientClient(self.noticed.append, patience, transport=httpx2.MockTransport(self))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The list of pauses in seconds. A fake clock passes them at once."""
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(patient, "now", lambda: sum(slept))
    return slept


@pytest.mark.parametrize(
    "act",
    [
        *(httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ReadError, httpx2.RemoteProtocolError, httpx2.ReadTimeout),
        *(httpx2.Response(status) for status in (502, 503, 504)),
        lambda: httpx2.Response(200, stream=Torn()),
        lambda: streamed({"code": -32603, "message": "no store", "data": {"retryAfter": 0}}),
    ],
)
async def test_a_round_is_tried_again(act: Act) -> None:
    """A retry of a round is sent again after any failure, because the server runs it once. One notice is printed."""
    server = Server(act, act, httpx2.Response(200, json={"fine": 1}))
    async with server.client() as client:
        response = await client.post("http://x/mcp", json=ROUND)
    assert response.json() == {"fine": 1} and server.asked == 3
    assert server.noticed == ["the server can't be reached; trying again for 15 s ..."]
    assert client.trouble == ""


@pytest.mark.parametrize("act", [httpx2.ConnectError, httpx2.ConnectTimeout])
async def test_what_was_not_sent_is_tried_again(act: type[Exception]) -> None:
    """A first round that was not sent is retried too, if the server answered before."""
    server = Server(httpx2.Response(200, json={}), act, httpx2.Response(200, json={}))
    async with server.client() as client:
        await client.post("http://x/mcp", json=FIRST)
        await client.post("http://x/mcp", json=FIRST)
    assert server.asked == 3


async def test_who_never_answered_is_not_waited_for() -> None:
    """A server that never answered is most likely a wrong address, so the request fails at once."""
    server = Server(httpx2.ConnectError)
    async with server.client() as client:
        with pytest.raises(httpx2.ConnectError):
            await client.post("http://x/mcp", json=FIRST)
    assert server.asked == 1 and server.noticed == []


@pytest.mark.parametrize("act", [httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError, httpx2.ReadTimeout])
async def test_what_may_have_been_sent_is_not(act: type[Exception]) -> None:
    """A request without a requestState would run twice."""
    server = Server(act)
    async with server.client() as client:
        with pytest.raises(act):
            await client.post("http://x/mcp", json=FIRST)
    assert server.asked == 1 and server.noticed == []
    assert client.trouble.endswith("; whether it ran is not known")


@pytest.mark.parametrize("act", [httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError, httpx2.ReadTimeout])
async def test_what_may_have_been_sent_is_not_where_the_server_answered_before(act: type[Exception]) -> None:
    """That it is known to be there makes no difference: the call may have begun."""
    server = Server(httpx2.Response(200, json={}), act)
    async with server.client() as client:
        await client.post("http://x/mcp", json=FIRST)
        with pytest.raises(act):
            await client.post("http://x/mcp", json=FIRST)
    assert server.asked == 2


async def test_a_first_round_that_was_answered_is_not_tried_again() -> None:
    """A 502 is no reason for a retry: the request may have run."""
    server = Server(httpx2.Response(502), httpx2.Response(200))
    async with server.client() as client:
        assert (await client.post("http://x/mcp", json=FIRST)).status_code == 502
    assert server.asked == 1


async def test_the_pauses_grow_and_end(pauses: list[float]) -> None:
    """Retries end 15 s after the first failure."""
    server = Server(httpx2.ConnectError)
    async with server.client() as client:
        with pytest.raises(httpx2.ConnectError):
            await client.post("http://x/mcp", json=ROUND)
    assert sum(pauses) == pytest.approx(15)
    assert pauses[:-1] == sorted(pauses[:-1]) and pauses[0] < 0.5 and max(pauses) == 2
    assert client.trouble == f"the server can't be reached; nothing was sent; {WAITS}"


async def test_nobody_is_waited_for_twice(pauses: list[float]) -> None:
    """After a request has failed for good, later requests fail at once."""
    server = Server(httpx2.Response(200, json={}), httpx2.ConnectError)
    async with server.client() as client:
        await client.post("http://x/mcp", json=FIRST)
        for _ in range(3):
            with pytest.raises(httpx2.ConnectError):
                await client.post("http://x/mcp", json=FIRST)
    assert sum(pauses) == pytest.approx(15) and len(server.noticed) == 1


async def test_retry_after_is_kept(pauses: list[float]) -> None:
    """If Retry-After is longer than the time that is left, the request fails at once."""
    server = Server(httpx2.Response(503, headers={"retry-after": "4"}), httpx2.Response(200))
    async with server.client() as client:
        assert (await client.post("http://x/mcp", json=ROUND)).status_code == 200
    assert pauses == [4]
    error = {"error": {"message": "No node is there."}}
    server = Server(httpx2.Response(503, headers={"retry-after": "60"}, json=error))
    async with server.client() as client:
        assert (await client.post("http://x/mcp", json=ROUND)).status_code == 503
    assert pauses == [4] and server.asked == 1
    assert client.trouble == f"No node is there; if it didn't run, {WAITS}"


async def test_a_stream_says_in_its_error_when_to_come_again(pauses: list[float]) -> None:
    """Its `retryAfter` is kept as a Retry-After is. An error without one is the answer."""
    soon, late = (streamed({"message": "no store", "data": {"retryAfter": seconds}}) for seconds in (4, 60))
    server = Server(soon, httpx2.Response(200))
    async with server.client() as client:
        assert (await client.post("http://x/mcp", json=ROUND)).text == ""
    assert pauses == [4]
    for act, trouble in ((late, f"no store; if it didn't run, {WAITS}"), (streamed({"message": "other"}), "")):
        server = Server(act)
        async with server.client() as client:
            assert "error" in (await client.post("http://x/mcp", json=ROUND)).text
        assert pauses == [4] and server.asked == 1
        assert client.trouble == trouble


@pytest.mark.parametrize(
    ("acts", "body", "says"),
    [
        ((httpx2.ConnectError,), FIRST, "the server can't be reached; nothing was sent"),
        (
            (httpx2.ReadError, httpx2.ConnectError),
            ROUND,
            f"the server can't be reached; whether it ran is not known; if it didn't, {WAITS}",
        ),
        (
            (httpx2.ReadTimeout,),
            ROUND,
            f"the server didn't answer in time; whether it ran is not known; if it didn't, {WAITS}",
        ),
        ((httpx2.Response(502),), ROUND, f"the server answers 502; if it didn't run, {WAITS}"),
    ],
)
async def test_what_is_said_when_it_was_in_vain(acts: Any, body: dict[str, Any], says: str) -> None:
    """The text says what was sent, what may have run and what waits, without names of exceptions."""
    async with Server(*acts).client() as client:
        try:
            await client.post("http://x/mcp", json=body)
        except httpx2.TransportError:
            pass
    assert client.trouble == says


async def test_an_answer_of_the_tool_is_read_as_it_comes() -> None:
    """The response to a first round is returned before its body has arrived."""
    server = Server(lambda: httpx2.Response(200, stream=Torn()))
    async with server.client() as client, client.stream("POST", "http://x/mcp", json=FIRST) as response:
        assert not response.is_stream_consumed


def _never(line: str) -> None:
    raise AssertionError(line)


async def test_after_a_while_without_an_answer_the_user_hears_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once in a call. A round that may be held back for a lease is one with a token."""
    monkeypatch.setattr(patient, "SILENCE", 0.0)
    noticed: list[str] = []

    async def slow(request: httpx2.Request) -> httpx2.Response:
        # The notice is due, and comes in the next turn of the loop.
        for _ in range(3):
            await asyncio.get_running_loop().run_in_executor(None, bool)
        return httpx2.Response(200, json={})

    transport = httpx2.MockTransport(slow)
    async with PatientClient(_never, silent=noticed.append, transport=transport) as client:
        for body in (FIRST, ROUND, ROUND):
            await client.post("http://x/mcp", json=body)
    [line] = noticed
    assert "no answer yet" in line and "when the lease has run out" in line


async def test_a_fleet_that_has_ended_is_not_waited_for(pauses: list[float]) -> None:
    server = Server(httpx2.ConnectError)
    async with PatientClient(server.noticed.append, 15, lambda: True, transport=httpx2.MockTransport(server)) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.post("http://x/mcp", json=ROUND)
    assert pauses == [] and server.asked == 1
    assert client.trouble == "the framehold up that served it has ended; nothing was sent"


async def test_the_state_of_the_last_response_is_known() -> None:
    """A caller that stops at a question has sent no `requestState` yet."""
    asks = httpx2.Response(200, json={"result": {"requestState": "h1.y"}})
    async with Server(asks, httpx2.Response(200, json={"result": {}})).client() as client:
        await client.post("http://x/mcp", json=FIRST)
        assert client.state == "h1.y"
        await client.post("http://x/mcp", json=ROUND)
        assert client.state == "h1.x"

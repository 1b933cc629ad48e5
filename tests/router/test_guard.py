"""What every page of a router checks first: the name that it was asked by, and how often a token was wrong."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from framehold_fleet.guard import guesses
from framehold_fleet.guard.guesses import FIRST_DELAY, FORGET, MAX_DELAY, WRONG_TOKENS, Guesses
from framehold_fleet.guard.hosts import is_answered
from framehold_router.api.routes import BASE, OPEN_PAGES, ROUTES
from framehold_router.api.signature import sign
from framehold_router.app import is_exposed
from tests.router.cast import SOON, Cast, Client
from tests.router.metered import series, stand

TOKEN = "correct-horse-battery-staple"
WAYS = [("GET", path) for path in OPEN_PAGES] + [(route.method, BASE + route.path) for route in ROUTES]
ANSWERED = [
    "", "localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080", "10.1.2.3:1", "[::1]", "[2001:db8::7]:8080",
    "0.0.0.0:80", "fleet.example", "fleet.example:8081", "FLEET.EXAMPLE:", "any.port.example:1", "any.port.example",
    "one.below.example:5", " fleet.example ",
]  # fmt: skip
REFUSED = [
    "evil.example", "evil.example:8080", "localhost.evil.example", "evil-localhost", "127.0.0.1.evil.example",
    "127.0.0.1@evil.example", "[::1].evil.example", "[::1", "::1", "[evil.example]", "[]", "fleet.example.evil.example",
    "evil.example/127.0.0.1", "localhost evil.example", "localhost:80:90", "10.1.2", "fleet_example", "\u00e4.example",
    "localhost,evil.example",
]  # fmt: skip
ALLOWED = ("fleet.example:443", "any.port.example:*", "*.below.example", "[::1]:*", "", "[broken")


@pytest.mark.parametrize(("hosts", "answered"), [(ANSWERED, True), (REFUSED, False)], ids=["answered", "refused"])
def test_which_names_are_answered(hosts: list[str], answered: bool) -> None:
    assert [host for host in hosts if is_answered(host, ALLOWED) is not answered] == []


async def status(client: Client, way: tuple[str, str], **headers: str) -> int:
    url = way[1].format(node_id="a", call_id="0" * 32, page="nodes", path="app.js")
    async with client.request(way[0], url, headers=headers, json={"token": "t"}) as response:
        if response.status == 421:
            assert "FRAMEHOLD_ALLOWED_HOSTS" in await response.text()
        return response.status


async def test_no_page_answers_to_a_name_that_was_re_bound(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    """Not a single one, with the right token too; the log names the setting once. An allowed name is answered."""
    cast.token, cast.guard = TOKEN, {"hosts": ("fleet.example",)}
    client = await cast.client()
    shown = {"Authorization": f"Bearer {TOKEN}"}
    for way in [*WAYS, ("GET", "/nowhere"), ("GET", "/")]:
        for host in ("evil.example", "evil.example:8080"):
            assert await status(client, way, Host=host, **shown) == 421, way
        assert await status(client, way, Host="fleet.example:8081", **shown) != 421, way
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1 and "'evil.example'" in lines[0] and "FRAMEHOLD_ALLOWED_HOSTS" in lines[0]


@pytest.mark.parametrize("setting", [{}, {"admin_port": 1}], ids=["one port", "an admin port"])
async def test_a_whole_router_checks_the_name(monkeypatch: pytest.MonkeyPatch, setting: dict[str, Any]) -> None:
    """Also where the target of the request has it. Calls are not its own: their node checks them."""
    async with stand(monkeypatch, allowed_hosts="fleet.example", **setting) as it:
        await it.node()

        async def asked(target: str, host: str, version: str = "1.1") -> int:
            lines = [f"GET {target} HTTP/{version}", *([f"Host: {host}"] if host else []), "", ""]
            return (await it.ask("\r\n".join(lines).encode())).status

        for path in ("/metrics", "/api/v1/nodes", "/healthz", "/readyz", "/dashboard"):
            assert await asked(path, "evil.example") == 421, path
            assert await asked(f"http://evil.example{path}", "127.0.0.1") == 421, path
            assert await asked(path, "", "1.0") == await asked(path, "fleet.example:80") == 200, path
        assert await asked("/mcp", "evil.example") == 200, "it was relayed"


@pytest.mark.parametrize(
    ("addresses", "exposed"),
    [
        (["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1", "/run/framehold.sock"], False),
        (["0.0.0.0", "::", "10.1.2.3", "192.168.0.1", "fe80::1%2", "::ffff:10.0.0.1", "2001:db8::1"], True),
    ],
)
def test_who_may_connect_to_a_socket(addresses: list[str], exposed: bool) -> None:
    for address in addresses:
        unix = address.startswith("/")
        family = socket.AF_UNIX if unix else socket.AF_INET6 if ":" in address else socket.AF_INET
        bound: Any = SimpleNamespace(family=family, getsockname=lambda: address if unix else (address, 8080))  # noqa: B023
        assert is_exposed(bound) is exposed, address


@pytest.mark.parametrize("token", [None, TOKEN, "reader"])
async def test_a_router_that_others_reach_says_at_its_start_that_its_api_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, token: str | None
) -> None:
    monkeypatch.setattr("framehold_router.app.is_exposed", lambda listening: True)
    tokens = {None: {}, TOKEN: {"admin_token": TOKEN}, "reader": {"read_token": TOKEN}}[token]
    async with stand(monkeypatch, **tokens) as it:
        asked = b"GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\n\r\n"
        reply = await it.ask(asked % TOKEN.encode())
        assert reply.status == (200 if token else 403)
        reply = await it.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (reply.status, reply.one(b"content-type")) == (200, b"text/plain; version=0.0.4; charset=utf-8")
    lines = [text for text in caplog.messages if "its API is closed" in text]
    assert len(lines) == (0 if token else 1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def slow(clock: Clock, counts: Counter[str]) -> Guesses:
    return Guesses(logging.getLogger("guesses"), counts, lambda: clock.now, clock.pause)


async def test_each_wrong_token_of_a_peer_waits_twice_as_long(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a limit, until the peer has been good for a while. The first line is logged, the others are counted. IPv6
    gives everybody 2**64 addresses: they are one peer. IPv4 in the form of IPv6 is IPv4."""
    # By default a process in a hundred gives two of these peers one place.
    monkeypatch.setattr(guesses, "PLACES", 2**22)
    counts: Counter[str] = Counter()
    at = slow(clock, counts)
    for _ in range(12):
        await at.wrong("10.0.0.1")
    assert clock.pauses[:4] == [FIRST_DELAY * factor for factor in (1, 2, 4, 8)]
    assert clock.pauses[-3:] == [MAX_DELAY] * 3
    await at.wrong("10.0.0.2")
    clock.now += FORGET + 1
    await at.wrong("10.0.0.1")
    assert clock.pauses[-2:] == [FIRST_DELAY] * 2
    assert counts[WRONG_TOKENS] == 14
    assert [text for text in caplog.messages if "10.0.0." in text] == [
        "a wrong token was shown by '10.0.0.1': nothing was returned or done"
    ]
    for peer in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1", "::ffff:10.0.0.9", "10.0.0.9", "", "a proxy"):
        await at.wrong(peer)
    assert clock.pauses[-7:] == [FIRST_DELAY * factor for factor in (1, 2, 1, 1, 2, 1, 1)]


async def test_what_guesses_can_take_is_bounded(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """No peer is remembered by its name, and beyond the limit an answer does not wait."""
    monkeypatch.setattr(guesses, "MAX_WAITING", 3)
    waiting = asyncio.Event()

    async def wait(seconds: float) -> None:
        clock.pauses.append(seconds)
        await waiting.wait()

    at = Guesses(logging.getLogger("guesses"), Counter(), lambda: clock.now, wait)
    tasks = [asyncio.create_task(at.wrong(f"10.0.{number}.1")) for number in range(3)]
    while len(clock.pauses) < 3:
        await asyncio.sleep(0)
    await asyncio.wait_for(at.wrong("10.9.9.9"), SOON)
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    tasks.append(asyncio.create_task(at.wrong("10.8.8.8")))
    while len(clock.pauses) < 4:
        await asyncio.sleep(0)
    waiting.set()
    await asyncio.wait(tasks)
    for number in range(5000):
        await at.wrong(f"10.1.{number // 250}.{number % 250}")
    assert len(at._last) == guesses.PLACES


async def test_a_wrong_token_waits_and_a_right_one_never_does(clock: Clock) -> None:
    """On every page that tells whether a token is right; who shows none does not guess."""
    counts: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        cast = Cast(stack)
        cast.token, cast.guard = TOKEN, {"read": "a-token-that-reads", "guesses": slow(clock, counts)}
        client = await cast.client()
        for route in ROUTES:
            way = (route.method, BASE + route.path)
            before = counts[WRONG_TOKENS]
            for right in ("", f"Bearer {TOKEN}", "Bearer a-token-that-reads", "Digest x", "Basic ???"):
                await status(client, way, **({"Authorization": right} if right else {}))
            assert counts[WRONG_TOKENS] == before, way
            signature = sign("wrong", *way, b"").authorization
            for wrong in ("Bearer wrong", "Basic eDp3cm9uZw==", signature):
                await status(client, way, Authorization=wrong)
            assert counts[WRONG_TOKENS] == before + (3 if route.path != "openapi.json" else 0), way
        for path in OPEN_PAGES:
            await status(client, ("GET", path), Authorization="Bearer wrong")
    assert counts[WRONG_TOKENS] == len(clock.pauses) == 3 * (len(ROUTES) - 1)


async def test_a_request_that_is_signed_with_the_read_token_reads_and_does_not_act(cast: Cast) -> None:
    cast.token, cast.guard = TOKEN, {"read": "a-token-that-reads"}
    client = await cast.client()
    for way, wanted in ((("GET", f"{BASE}nodes"), 200), (("POST", f"{BASE}nodes/a/drain"), 403)):
        signed = sign("a-token-that-reads", *way, b"").authorization
        async with client.request(*way, headers={"Authorization": signed}) as response:
            assert response.status == wanted


async def test_guesses_are_slow_by_peer_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(guesses, "FIRST_DELAY", 0.001)
    async with stand(monkeypatch, admin_token=TOKEN) as it:
        async with it.moves("framehold_router_wrong_tokens") as moved:
            for number in range(3):
                head = f"Authorization: Bearer guess-{number}\r\nX-Forwarded-For: 10.0.0.{number}"
                asked = f"GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n"
                assert (await it.ask(asked.encode())).status == 401
        assert moved == {series("router_wrong_tokens_total"): 3.0}
    assert [text for text in caplog.messages if "wrong token" in text] == [
        "a wrong token was shown by '127.0.0.1': nothing was returned or done"
    ]
    assert "guess-" not in caplog.text

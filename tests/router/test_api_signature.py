"""Signed requests: what a signature opens, and what it proves to whom."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from framehold_router.api.access import Need
from framehold_router.api.routes import BASE
from framehold_router.api.signature import PROOF, WINDOW, Signatures, Signed, sign
from framehold_router.config import RouterSettings
from framehold_router.pages import serve_pages
from tests.router.cast import Cast, Client, guarded, saying
from tests.router.test_api_access import CALL, IDS, LISTED, TOKEN, WAYS

OTHER = "battery-staple-correct-horse"
NOW = 1_790_000_000.0


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        cast = Cast(stack)
        cast.token = TOKEN
        yield await cast.client()


class Seen(NamedTuple):
    """A response: its status, its error, and what proves the router."""

    status: int
    error: str
    proof: str | None


async def sent(client: Client, way: tuple[str, str], signed: Signed, body: bytes = b"") -> Seen:
    headers = {"Authorization": signed.authorization, "Content-Type": "application/json"}
    async with client.request(*way, data=body, headers=headers) as response:
        text = "" if response.content_type == "text/event-stream" else await response.text()
        return Seen(response.status, text, response.headers.get(PROOF))


def asked_for(way: tuple[str, str]) -> tuple[tuple[str, str], bytes]:
    method, path = way
    body = json.dumps({"token": "t"}).encode() if path.endswith("/lookup") else b""
    return (method, path.format(node_id="a", call_id=CALL, page="nodes", path="app.js")), body


@pytest.mark.parametrize("way", WAYS, ids=IDS)
async def test_a_signature_opens_what_the_token_opens(client: Client, way: tuple[str, str]) -> None:
    """And its response has the router's proof. A signature by another token opens nothing, and gets no proof: whoever
    lacks the token learns nothing that it could be guessed by."""
    asked, body = asked_for(way)
    right, wrong = sign(TOKEN, *asked, body), sign(OTHER, *asked, body)
    found = await sent(client, asked, right, body)
    assert found.status not in (401, 403)
    assert found.proof == (None if way[1] == f"{BASE}stream" else right.proof)
    refused = await sent(client, asked, wrong, body)
    assert refused.proof is None and (refused.status == 401) is (LISTED[way] is not Need.OPEN)


@pytest.mark.parametrize("truth", [True, False])
async def test_a_signature_is_for_one_request(client: Client, truth: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the truth of a response is: in aiohttp 3.11 one without items of its own is false, as a mapping is."""
    monkeypatch.setattr(web.StreamResponse, "__bool__", lambda response: truth)
    drain, leave, pause = (("POST", f"{BASE}{path}") for path in ("nodes/a/drain", "nodes/b/drain", "tools/pause"))
    mine, yours = (json.dumps({"tool": tool}).encode() for tool in ("mine", "yours"))
    others = (leave, b"", b""), (("GET", f"{BASE}nodes"), b"", b""), (("POST", f"{drain[1]}?x=1"), b"", b"")
    for way, body, said in (*others, (drain, b"{}", b""), (pause, yours, mine)):
        found = await sent(client, way, sign(TOKEN, *(pause if said else drain), said), body)
        assert found.status == 401, way
    assert "another one than was signed; nothing was returned or done" in found.error
    signed = sign(TOKEN, *drain, b"")
    assert (await sent(client, drain, signed)).status == 404, "there is no such node"
    again = await sent(client, drain, signed)
    assert again.status == 401 and "was taken before; nothing was returned or done" in again.error


def judged_at(store: float, own: float, signed: Signed, signatures: Signatures | None = None) -> str:
    """The fault of a signature, `store` and `own` seconds after it was made on the two clocks."""
    at = float(signed.authorization.partition(" ")[2].partition(".")[0])
    judge = signatures or Signatures([OTHER, TOKEN])
    judge._store, judge._own = (lambda: at + store), (lambda: at + own)
    verified = judge.read("GET", "/", signed.authorization)
    assert verified is not None
    return verified.fault


@pytest.mark.parametrize("ahead", [WINDOW + 1, -WINDOW - 1, 1200, -1200])
def test_one_clock_that_agrees_is_enough(ahead: float) -> None:
    """That of the router's machine, while the store's is wrong; or the store's, while this machine's is wrong."""
    assert judged_at(ahead, WINDOW - 1, sign(TOKEN, "GET", "/", b"")) == ""
    assert judged_at(WINDOW - 1, ahead, sign(TOKEN, "GET", "/", b"")) == ""


@pytest.mark.parametrize(("ahead", "off"), [(WINDOW + 1, "61 s behind"), (-WINDOW - 1, "61 s ahead of")])
def test_clocks_that_differ_are_told_to_who_has_the_token(ahead: float, off: str) -> None:
    signed = sign(TOKEN, "GET", "/", b"")
    fault = judged_at(20 * ahead, ahead, signed)
    assert f"client's machine is {off} that of the router's, and 1220 s {off[5:]} the store's" in fault
    assert Signatures([OTHER]).read("GET", "/", signed.authorization) is None


@pytest.mark.parametrize("wrong", [1200, -1200])
def test_a_signature_is_good_once_whatever_the_clocks_do(wrong: float) -> None:
    """Not again by the other clock, nor when a clock is set back."""
    signatures, signed = Signatures([TOKEN]), sign(TOKEN, "GET", "/", b"")
    assert judged_at(wrong, 0, signed, signatures) == ""
    for store, own in ((wrong, 30), (0, 1200), (0, -wrong), (1200, 1200), (30, 1230), (0, 0)):
        assert judged_at(store, own, signed, signatures) != ""


def test_a_signature_that_is_forgotten_is_not_good_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They don't pile up: the oldest are forgotten, and none that is not newer is taken."""
    monkeypatch.setattr("framehold_router.api.signature.KEPT", 3)
    made = [NOW]
    monkeypatch.setattr("framehold_router.api.signature.time.time", lambda: made[0])
    signatures, signed = Signatures([TOKEN]), []
    for made[0] in (NOW, NOW + 1, NOW + 2, NOW + 3, NOW + 4):
        signed.append(sign(TOKEN, "GET", "/", b""))
        assert judged_at(0, 0, signed[-1], signatures) == ""
    assert len(signatures._taken) == 3
    faults = [judged_at(0, 0, one, signatures) for one in signed]
    assert ["not known any more" in fault for fault in faults] == [True, True, False, False, False]
    assert all("taken before" in fault for fault in faults[2:])


@pytest.mark.parametrize("text", ["", ".", "...", "x.y.z.s", "1.2.3", "1.2.3.4.5", "\u0661.n.d.s", "1.\udcff.d.s"])
def test_no_text_is_taken_for_a_signature(text: str) -> None:
    for scheme in ("Framehold ", "Framehold", "", "Bearer "):
        assert Signatures([TOKEN]).read("GET", "/", scheme + text) is None
    assert Signatures([]).read("GET", "/", sign("", "GET", "/", b"").authorization) is None


async def test_it_goes_through_the_socket_of_the_pages(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        cast = Cast(stack)
        app = guarded(await cast.sources(), TOKEN, saying(""))
        await stack.enter_async_context(serve_pages(app, str(tmp_path / "s"), RouterSettings().limits))
        connector = aiohttp.UnixConnector(path=str(tmp_path / "s"))
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        target = f"{BASE}leases?tool=a%2Fb&limit=3"
        signed = sign(TOKEN, "GET", target, b"")
        headers = {"Authorization": signed.authorization}
        async with http.get(URL(f"http://localhost{target}", encoded=True), headers=headers) as response:
            assert (response.status, response.headers[PROOF]) == (200, signed.proof)

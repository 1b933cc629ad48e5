"""Who is let in, for every route that the pages have: a new one is tested here without being named."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from framehold_router.api.access import Access, Need
from framehold_router.api.routes import BASE, OPEN_PAGES, ROUTES
from tests.router.cast import Cast, Client, get, guarded, saying

TOKEN = "correct-horse-battery-staple"
READER = "a-token-that-reads"
CALL = "0123456789abcdef0123456789abcdef"
LISTED = {(route.method, BASE + route.path): route.need for route in ROUTES}
LISTED |= {("GET", path): Need.OPEN for path in OPEN_PAGES}
WAYS = sorted(LISTED)
IDS = [f"{method} {path}" for method, path in WAYS]


def basic(password: str, user: str = "anyone") -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


RIGHT = {"bearer": f"Bearer {TOKEN}", "basic": basic(TOKEN), "basic without a user": basic(TOKEN, "")}
READS = {"bearer": f"Bearer {READER}", "basic": basic(READER)}
WRONG = {
    "none": "",
    "wrong bearer": "Bearer correct-horse-battery-stapler",
    "half of it": f"Bearer {TOKEN[:10]}",
    "wrong basic": basic("no"),
    "the token as the user": basic("", TOKEN),
    "no base64": "Basic ???",
    "no colon": "Basic " + b64encode(TOKEN.encode()).decode(),
    "another scheme": f"Digest {TOKEN}",
    "the token alone": TOKEN,
    "no ASCII": "Bearer \u00e4\u00f6\u00fc",
}


class Doors(NamedTuple):
    """The pages of four routers: with both tokens, without any, and each on a socket that other machines reach or with
    the read token alone."""

    closed: Client
    free: Client
    exposed: Client
    readable: Client

    async def knock(
        self, way: tuple[str, str], shown: str, client: Client | None = None, **more: str
    ) -> tuple[int, list[str]]:
        """The status of a request with these credentials, and its challenges."""
        method, path = way
        client = client or self.closed
        body = {"token": "t"} if path.endswith("/lookup") else None
        url = path.format(node_id="a", call_id=CALL, page="nodes", path="app.js")
        headers = more | ({"Authorization": shown} if shown else {})
        async with client.request(method, url, json=body, headers=headers) as response:
            return response.status, response.headers.getall("WWW-Authenticate", [])


LET_IN = 0
SHOWN = {
    "nobody": list(WRONG.values()),
    "admin": [RIGHT["bearer"]],
    "admin by basic": [shown for name, shown in RIGHT.items() if name != "bearer"],
    "reader": [READS["bearer"]],
    "reader by basic": [READS["basic"]],
}
STATUS: dict[str, dict[str, tuple[int, int]]] = {
    "closed": {
        "nobody": (401, 401), "admin": (LET_IN, LET_IN), "admin by basic": (LET_IN, 401), "reader": (LET_IN, 403),
        "reader by basic": (LET_IN, 401),
    },
    "free": dict.fromkeys(SHOWN, (LET_IN, 403)),
    "exposed": dict.fromkeys(SHOWN, (403, 403)),
    "readable": dict.fromkeys(SHOWN, (401, 403)) | dict.fromkeys(("reader", "reader by basic"), (LET_IN, 403)),
}  # fmt: skip
"""What each router answers to whom: to a read, and to an action. Open pages answer everybody."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def doors() -> AsyncIterator[Doors]:
    async with AsyncExitStack() as stack:
        found = []
        for token, more in ((TOKEN, {"read": READER}), (None, {}), (None, {"exposed": True}), (None, {"read": READER})):
            cast = Cast(stack)
            cast.token, cast.guard = token, more
            found.append(await cast.client())
        yield Doors(*found)


async def test_every_route_is_listed() -> None:
    async with AsyncExitStack() as stack:
        app = guarded(await Cast(stack).sources(), None, saying(""))
        there = {
            (route.method, route.resource.canonical)
            for route in app.router.routes()
            if route.method != "HEAD" and route.resource is not None
        }
    assert there == set(LISTED)


def test_what_changes_something_is_an_action() -> None:
    for route in ROUTES:
        assert (route.need is Need.ACTION) == (route.method == "POST" and route.path != "lookup")
        assert (route.need is Need.OPEN) == (route.path in ("openapi.json", "access"))


@pytest.mark.parametrize("router", STATUS)
@pytest.mark.parametrize("way", WAYS, ids=IDS)
async def test_who_is_let_in(doors: Doors, way: tuple[str, str], router: str) -> None:
    need = LISTED[way]
    for who, (read, action) in STATUS[router].items():
        wanted = {Need.READ: read, Need.ACTION: action}.get(need, LET_IN)
        for shown in SHOWN[who]:
            status, challenges = await doors.knock(way, shown, getattr(doors, router))
            assert status == wanted if wanted else status not in (401, 403), (who, shown)
            schemes = [] if wanted != 401 else ["Basic", "Bearer"] if need is Need.READ else ["Bearer"]
            assert [challenge.split(" ")[0] for challenge in challenges] == schemes
            assert all('realm="framehold"' in challenge for challenge in challenges)


@pytest.mark.parametrize("way", WAYS, ids=IDS)
async def test_a_script_that_asks_for_itself_is_not_offered_basic(doors: Doors, way: tuple[str, str]) -> None:
    """A browser would ask its user for a password behind the page's back. Its header lets nobody in."""
    for text in ("XMLHttpRequest", "anything", ""):
        for shown in ("", WRONG["wrong bearer"]):
            status, challenges = await doors.knock(way, shown, None, **{"x-requested-with": text})
            assert (status == 401) is (LISTED[way] is not Need.OPEN)
            assert challenges == ([] if LISTED[way] is Need.OPEN else ['Bearer realm="framehold"'])
    status, _ = await doors.knock(way, RIGHT["bearer"], None, **{"X-Requested-With": "x"})
    assert status not in (401, 403)


async def access(client: Client, shown: str) -> tuple[bool, bool, bool]:
    body = await get(client, f"{BASE}access", 200, **({"Authorization": shown} if shown else {}))
    assert set(body) == {"token_set", "token_right", "may_read", "credential", "playground"}
    return body["token_set"], body["token_right"], body["may_read"]


async def test_who_asks_is_told_whether_the_token_is_right(doors: Doors) -> None:
    for name, shown in {**RIGHT, **WRONG}.items():
        assert await access(doors.closed, shown) == (True, name == "bearer", name in RIGHT), name
        assert await access(doors.free, shown) == (False, False, True), name
        assert await access(doors.exposed, shown) == (False, False, False), name
    for shown in READS.values():
        assert await access(doors.closed, shown) == (True, False, True)
        assert await access(doors.readable, shown) == (True, False, True)


def test_the_token_is_compared_by_one_function_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who guesses tokens learns as much from `access` as from a read, and no faster."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(shown: bytes, token: bytes) -> bool:
        compared.append((shown, token))
        return False

    monkeypatch.setattr("framehold_router.api.access.hmac.compare_digest", compare)
    at, headers = Access(TOKEN, READER, credential="3f9a20c1"), {"Authorization": f"Bearer {TOKEN}"}
    assert at.refusal(Need.READ, headers) is not None and at.refusal(Need.ACTION, headers) is not None
    view = at.view(headers)
    assert (view.token_right, view.may_read, view.credential) == (False, False, "")
    assert at.is_guess(headers)
    assert compared == [(TOKEN.encode(), token.encode()) for token in (TOKEN, READER)] * 5


def test_whoever_has_the_token_is_told_how_events_name_it() -> None:
    shown = {"Authorization": f"Bearer {TOKEN}"}
    at = Access(TOKEN, READER, credential="3f9a20c1", playground="kill")
    assert (at.view(shown).credential, at.view(shown).playground) == ("3f9a20c1", "kill")
    for other in ({}, {"Authorization": READS["bearer"]}):
        assert (at.view(other).credential, at.view(other).playground) == ("", "off")
    assert Access().view(shown).credential == ""


@pytest.mark.parametrize("way", [way for way in WAYS if way[0] == "GET"], ids=lambda way: way[1])
async def test_head_is_no_way_round(doors: Doors, way: tuple[str, str]) -> None:
    status, _ = await doors.knock(("HEAD", way[1]), "")
    assert status in ((401, 405) if LISTED[way] is Need.READ else (200, 404, 405, 503))


async def test_a_route_that_nobody_listed_is_closed() -> None:

    async def forgotten(_: web.Request) -> web.Response:
        return web.Response(text="told")

    for token, shown, status in ((None, "", 403), (TOKEN, "", 401), (TOKEN, RIGHT["basic"], 401)):
        async with AsyncExitStack() as stack:
            app = guarded(await Cast(stack).sources(), token)
            app.router.add_get("/forgotten", forgotten)
            client = await stack.enter_async_context(TestClient(TestServer(app)))
            async with client.get("/forgotten", headers={"Authorization": shown}) as response:
                assert (response.status, "told" in await response.text()) == (status, False)


def test_refusals_say_what_to_do() -> None:
    action = Access(None).refusal(Need.ACTION, {})
    assert action is not None and "set FRAMEHOLD_ADMIN_TOKEN" in action.text and "nothing was done" in action.text
    wrong = Access(TOKEN).refusal(Need.ACTION, {"Authorization": basic(TOKEN)})
    assert wrong is not None and "Bearer" in wrong.text and TOKEN not in wrong.text
    reads = Access(TOKEN, READER).refusal(Need.ACTION, {"Authorization": READS["bearer"]})
    assert reads is not None and "read token" in reads.text and "nothing was done" in reads.text
    closed = Access(is_exposed=True).refusal(Need.READ, {})
    assert closed is not None and "FRAMEHOLD_READ_TOKEN" in closed.text and "bind it to 127.0.0.1" in closed.text
    assert Access("", "").refusal(Need.READ, {}) is None, "an empty token is none"

"""The admin token in a browser: where it is taken from, where it stays, and what is left when it is gone."""

from __future__ import annotations

import pytest

from tests.dashboard.conftest import Screens
from tests.dashboard.line import Line, later, line, says, until
from tests.kit.browser import Screen
from tests.kit.operators import TOKEN

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

_wrong = {"authorization": "Bearer old"}


async def sign_in(page: Screen, token: str) -> None:
    await page.page.locator("main").get_by_role("button", name="Sign in").click()
    await shows(page, token)


async def shows(page: Screen, token: str) -> None:
    """Type it into the dialog that is open."""
    await page.page.get_by_label("Token", exact=True).fill(token)
    await page.page.get_by_role("dialog").get_by_role("button", name="Sign in").click()


async def back_in(page: Screen) -> None:
    """With the right token all is there again."""
    await shows(page, TOKEN)
    await says(page, "Live")
    await page.sees("harbour")


async def test_a_token_of_a_link_is_taken_and_stays_nowhere(way: Line, page: Screen) -> None:
    """Neither in the address, nor among where one has been, nor in anything but one header of what is asked."""
    await page.open("")
    await says(page, "Live")
    assert page.page.url == f"{way.root}/dashboard"
    await page.page.get_by_role("link", name="Ring").first.click()
    await page.page.go_back()
    assert page.page.url == f"{way.root}/dashboard"
    for one in way.asked:
        shown = one.headers.get("Authorization")
        assert shown == (f"Bearer {TOKEN}" if one.path.startswith("/api/") else None), one.path
        rest = [value for name, value in one.headers.items() if name != "Authorization"]
        assert not [text for text in (str(one.url), *rest) if TOKEN in text]
        assert "Referer" not in one.headers or one.headers["Referer"].endswith(("/dashboard", ".js", ".css", ".mjs"))
    assert await page.page.evaluate("() => [document.cookie, localStorage.length]") == ["", 0]


async def test_a_token_of_a_link_is_taken_by_a_tab_that_is_open(way: Line, page: Screen) -> None:
    """The tab loads nothing anew for it. A wrong one changes nothing; neither stays in the address or the history."""
    await page.open("/nodes", signed_in=False)
    await says(page, "Signed out")
    address = page.page.url
    for token in (TOKEN, "wrong"):
        await page.page.goto(f"{address}#token={token}")
        await page.page.wait_for_url(address)
        await says(page, "Live")
        await page.sees("harbour")
    assert await page.page.evaluate("() => Object.values(sessionStorage)") == [TOKEN]
    await page.page.go_back()
    assert page.page.url == address
    assert [one.path for one in way.asked].count("/dashboard/nodes") == 1


async def test_a_token_that_is_no_longer_right_is_asked_for_again(way: Line, page: Screen) -> None:
    """Of what was shown nothing stays; the wrong one is refused in words, and with the right one all is back."""
    await page.open("/nodes")
    await says(page, "Live")
    await page.page.route("**/api/v1/**", lambda route: route.continue_(headers={**route.request.headers, **_wrong}))
    way.cut("open")
    await says(page, "Signed out")
    await page.sees("no longer takes the admin token of this tab", "Sign in")
    assert "harbour" not in await page.shown()
    await sign_in(page, "wrong")
    await page.text("That is not this router's admin token").wait_for()
    await page.page.unroute("**/api/v1/**")
    await back_in(page)


@pytest.mark.parametrize("token", ["wrong", "wröng ☂", "a\tb"])
async def test_who_signs_out_sees_nothing_until_signed_in(way: Line, page: Screen, token: str) -> None:
    """No stream is left open, and no letter that a header can't carry is taken for a router that is gone."""
    await page.open("/nodes")
    await says(page, "Live")
    await page.page.get_by_role("button", name="Sign out").click()
    await says(page, "Signed out")
    await until(lambda: not way.now)
    assert "harbour" not in await page.shown()
    assert await page.page.evaluate("() => sessionStorage.length") == 0
    asked = len(way.asked)
    await later(page, 60)
    assert way.paths(asked) == []
    await sign_in(page, token)
    await page.text("That is not this router's admin token").wait_for()
    await back_in(page)


READER = "a-token-that-reads"


async def test_the_read_token_shows_all_and_does_nothing(screens: Screens) -> None:
    """An action asks for the admin token, and refuses the read token in words; with the right one it goes on."""
    async with line(read=READER) as way, screens(way.root) as page:
        page.expects("/api/v1/")
        await page.open("/nodes", signed_in=False)
        await sign_in(page, READER)
        await says(page, "Live")
        await page.sees("harbour")
        await page.page.get_by_role("button", name="Drain harbour").click()
        dialog = page.page.get_by_role("dialog")
        await dialog.get_by_text("show the admin token first").wait_for()
        for token, answer in ((READER, "That is this router's read token"), ("wrong", "not this router's admin token")):
            await page.page.get_by_label("Token", exact=True).fill(token)
            await dialog.get_by_role("button", name="Sign in").click()
            await page.text(answer).wait_for()
        await page.page.get_by_label("Token", exact=True).fill(TOKEN)
        await dialog.get_by_role("button", name="Sign in").click()
        await dialog.get_by_role("button", name="Drain", exact=True).wait_for()
        assert [one.method for one in way.asked if one.method != "GET"] == []


async def test_a_router_that_is_closed_says_why(screens: Screens) -> None:
    """It listens beyond its machine and has no token: nothing is shown, and no token is asked for."""
    async with line(None, exposed=True) as way, screens(way.root) as page:
        page.expects("/api/v1/")
        await page.open("", signed_in=False)
        await page.sees("This router shows its fleet to nobody", "FRAMEHOLD_READ_TOKEN")
        assert "harbour" not in await page.shown()
        assert await page.page.get_by_role("button", name="Sign in").count() == 0

"""The one live connection of a page: whatever happens to it, the page says so, shows what it has, and mends itself."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Route, expect

from tests.dashboard.line import HIDE, STREAM, Line, comes_to_say, later, parked, says, until
from tests.kit.browser import Screen
from tests.kit.operators import TOKEN

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def test_a_stream_that_is_refused_is_polled_for_and_taken_when_it_comes(way: Line, page: Screen) -> None:
    """The numbers go on changing meanwhile."""
    way.stream = "refused"
    await page.open("")
    await says(page, "Polling")
    await parked(page, 7)
    way.parked = 8
    await asyncio.sleep(0.5)  # For so long a router's look at its nodes stands.
    await later(page, 2)
    await parked(page, 8)
    assert STREAM in way.paths()
    way.mend()
    await later(page, 16)
    await says(page, "Live")
    way.parked = 9
    await parked(page, 9)


async def test_a_stream_that_breaks_is_asked_for_again_at_once(way: Line, page: Screen) -> None:
    """One router of several was replaced: nobody needs to see it. By its header the router knows that it may end it."""
    await page.open("")
    await says(page, "Live")
    await until(lambda: len(way.now) == 1)
    assert {one.headers["Accept"] for one in way.asked if one.path == STREAM} == {"text/event-stream"}
    way.cut("open")
    await until(lambda: way.paths().count(STREAM) == 2)
    way.parked = 8
    await parked(page, 8)
    await says(page, "Live")


async def test_a_stream_that_opens_and_says_nothing_is_given_up(way: Line, page: Screen) -> None:
    """Something between keeps what is sent until it has much of it."""
    way.stream = "silent"
    await page.page.goto(f"{way.root}/dashboard#token={TOKEN}")
    await says(page, "Connecting")
    await until(lambda: len(way.now) == 1)
    await later(page, 4.1)
    await says(page, "Polling")
    await parked(page, 7)
    await until(lambda: not way.now)


@pytest.mark.parametrize("how", ["cut", "stopped"])
async def test_a_router_that_goes_away_is_told_of_and_comes_back(way: Line, page: Screen, how: str) -> None:
    """What was shown stays, and there is no reload: whether it refuses, or takes what is asked and never answers."""
    await page.open("")
    await says(page, "Live")
    await parked(page, 7)
    await page.page.evaluate("() => { window.before = true }")
    way.cut(how)
    await comes_to_say(page, "Disconnected")
    await parked(page, 7)
    way.mend()
    way.parked = 8
    await comes_to_say(page, "Live")
    await parked(page, 8)
    assert await page.page.evaluate("() => window.before")


async def test_the_age_of_what_is_shown_is_that_of_the_last_answer(way: Line, page: Screen) -> None:
    """And not that of the loss: a page that was hidden for a night finds the router gone in the morning."""
    await page.page.clock.set_fixed_time("2026-11-30T21:00:00Z")
    await page.open("")
    await parked(page, 7)
    await page.page.evaluate(HIDE, True)
    await page.page.clock.set_fixed_time("2026-12-01T05:00:00Z")
    way.cut()
    await page.page.evaluate(HIDE, False)
    await comes_to_say(page, "Disconnected")
    await page.sees("it was so until 2026-11-30 21:00:00")


async def test_a_router_that_never_answers_is_not_waited_for_at_the_start(way: Line, page: Screen) -> None:
    """It may hang before the page has learnt anything of it."""
    await page.open("/no-such-page")
    way.cut("stopped")
    await page.page.evaluate(HIDE, True)
    await page.page.evaluate(HIDE, False)
    await says(page, "Connecting")
    await comes_to_say(page, "Disconnected")


@pytest.mark.parametrize("stream", ["comes", "refused"])
async def test_a_hidden_page_asks_for_nothing(way: Line, page: Screen, stream: str) -> None:
    """Its stream is closed, and stays so; seen again, it is live again at once."""
    way.stream = stream
    await page.open("/nodes/harbour")
    await says(page, "Live" if stream == "comes" else "Polling")
    await page.page.evaluate(HIDE, True)
    await says(page, "Paused")
    await until(lambda: not way.now)
    asked = len(way.asked)
    for _ in range(3):
        await asyncio.sleep(0.2)
        await later(page, 20)
    await asyncio.sleep(0.2)
    assert way.paths(asked) == []
    await says(page, "Paused")
    way.mend()
    await page.page.evaluate(HIDE, False)
    await says(page, "Live")
    assert way.paths(asked).count(STREAM) == 1


async def test_a_page_that_is_hidden_and_seen_again_has_one_stream(way: Line, page: Screen) -> None:
    """However often: a browser has six connections to a router, for all its tabs."""
    await page.open("")
    await says(page, "Live")
    for _ in range(8):
        await page.page.evaluate(HIDE, True)
        await page.page.evaluate(HIDE, False)
    await says(page, "Live")
    await asyncio.sleep(0.7)  # After half a second a stream that broke is asked for again.
    await until(lambda: len(way.now) == 1)
    way.parked = 8
    await parked(page, 8)


async def test_a_read_that_is_asked_for_again_takes_the_place_of_the_one_before(way: Line, page: Screen) -> None:
    """However often while no answer comes: one is under way, and afterwards it is read as often as before."""
    own = "/api/v1/nodes/harbour"
    way.slow = own
    await page.page.goto(f"{way.root}/dashboard/nodes/harbour#token={TOKEN}")
    await says(page, "Live")
    await until(lambda: own in way.paths())
    for _ in range(5):
        await page.page.evaluate(HIDE, True)
        await page.page.evaluate(HIDE, False)
    await until(lambda: way.paths().count(own) == 6)
    way.mend()
    await page.sees("Where its memory goes")
    await asyncio.sleep(0.2)
    asked = len(way.asked)
    await later(page, 2.1)
    await until(lambda: own in way.paths(asked))
    await asyncio.sleep(0.2)
    assert way.paths(asked).count(own) == 1


_AGAIN_WHEN_GONE = """async (path) => {
  const { render, html, useEffect } = await import("/dashboard/assets/lib/html.js");
  const { useRead } = await import("/dashboard/assets/lib/api.js");
  const [place, asked, { fetch }] = [document.createElement("p"), [], window];
  window.fetch = (url, ...more) => asked.push(String(url)) && fetch(url, ...more);
  let again;
  await new Promise((gone) => {
    const Reader = () => {
      const found = useRead(path, {}, { every: 1000 });
      again = found.again;
      useEffect(() => gone, []);
      useEffect(() => found.data && render(null, place), [found.data]);
    };
    render(html`<${Reader} />`, place);
  });
  again();
  return asked.filter((url) => url.endsWith(path)).length;
}"""


async def test_what_is_no_longer_shown_is_not_read_again(page: Screen) -> None:
    """An action that ends after its page was left asks for that; nobody would end the polling that begins so."""
    await page.open("/nodes")
    assert await page.page.evaluate(_AGAIN_WHEN_GONE, "capacity") == 1


@pytest.mark.parametrize("button", ["Previous page", "Next page", "First page", "Try again"])
async def test_a_page_that_could_not_be_turned_is_told_of_until_one_acts(page: Screen, button: str) -> None:
    """Each button goes on, and takes the trouble away."""
    broken = True

    async def answer(route: Route) -> None:
        if broken and "descending=true" in route.request.url:
            await route.abort()
        else:
            await route.fulfill(json={"items": [], "total": 0, "next": "further", "missing": []})

    await page.page.route("**/api/v1/leases?*", answer)
    await page.open("/leases?after=there&from=101")
    await page.page.get_by_role("button", name="Previous page").click()
    trouble = page.page.get_by_role("alert")
    await expect(trouble).to_have_count(1)
    broken = False
    await page.page.get_by_role("button", name=button, exact=True).click()
    await expect(trouble).to_have_count(0)
    await expect(page.page).not_to_have_url(re.compile("after=there"))

"""What was: figures over time on every page that has charts, whenever it was opened, and each tool by itself."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Screens
from tests.dashboard.line import later
from tests.dashboard.past import past
from tests.kit.browser import LOOKS, Look, Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGES = {"overview": "", "node": "/nodes/a", "tools": "/tools", "tool": "/tools/refund", "capacity": "/capacity"}
CHARTS = ("overview", "node", "tool")
_DRAWN = """() => [...document.querySelectorAll('.chart canvas')].map((one) => {
  const ink = one.getContext('2d').getImageData(0, 0, one.width, one.height).data;
  return ink.some((value, n) => n % 4 === 3 && value > 0);
})"""
"""Whether anything is drawn in each chart."""


@pytest.fixture(scope="module")
async def root() -> AsyncIterator[str]:
    async with past() as made:
        yield made


@pytest.fixture
async def at_past(screens: Screens, root: str) -> AsyncIterator[Screen]:
    async with screens(root) as opened:
        yield opened


@pytest.mark.parametrize(
    "look", [LOOKS[0], *(pytest.param(look, marks=pytest.mark.nightly) for look in LOOKS[1:])], ids=str
)
@pytest.mark.parametrize("page", PAGES)
async def test_each_page_loads_and_can_be_used_by_all(root: str, screens: Screens, page: str, look: Look) -> None:
    async with screens(root, look) as screen:
        if page == "node":
            screen.expects("/api/v1/nodes/a")  # this node has no profile
        await screen.open(PAGES[page])
        await screen.sees("Over time" if page in CHARTS else "refund")
        wide, window = await screen.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window
        assert await screen.findings() == []
        if page in CHARTS:
            await screen.page.locator(".chart canvas").first.wait_for()
            drawn = await screen.page.evaluate(_DRAWN)
            assert len(drawn) >= 3 and all(drawn)


async def test_a_range_is_chosen_and_kept_in_the_address(at_past: Screen) -> None:
    """Charts begin where it begins: a page that was opened just now shows a day."""
    await at_past.open("")
    assert await at_past.page.get_by_role("button", name="1 h", exact=True).get_attribute("aria-pressed") == "true"
    async with at_past.page.expect_response(re.compile(r"/api/v1/history\?range=24h")) as asked:
        await at_past.page.get_by_role("button", name="24 h", exact=True).click()
    result = await (await asked.value).json()
    assert result["step"] == 60 and len(result["series"]["rounds"]) == 1440
    assert at_past.page.url.endswith("?range=24h")
    await at_past.page.go_back()
    assert await at_past.page.get_by_role("button", name="1 h", exact=True).get_attribute("aria-pressed") == "true"


async def test_a_mark_opens_what_happened(at_past: Screen) -> None:
    """A loss by its event, a deploy by what changed; by the keyboard too."""
    await at_past.open("")
    lost = at_past.page.get_by_role("button", name=re.compile("^node lost, .* ago$"))
    await lost.focus()
    await at_past.page.keyboard.press("Enter")
    await at_past.sees("The lease of b ran out.")
    await at_past.page.get_by_role("button", name=re.compile("^deployed")).click()
    await at_past.sees("The nodes serve 1.1 bbbbbbbb now, before it was 1.0 aaaaaaaa.")
    assert await at_past.text("The lease of b ran out.").locator("visible=true").count() <= 1


async def test_tools_are_sorted_and_lead_to_their_pages(at_past: Screen) -> None:
    await at_past.open("/tools")
    rows = at_past.page.locator("tbody th")
    assert [name.strip() for name in await rows.all_inner_texts()] == ["book_trip", "refund", "sign_contract"]
    await at_past.page.get_by_role("button", name="Failed").click()
    await at_past.until("() => document.querySelector('tbody th').innerText.trim() === 'refund'")
    assert "sort=failed" in at_past.page.url
    share = re.search(r"(\d+)[.]\d %", await at_past.page.locator("tbody tr").first.inner_text())
    assert share is not None and 38 <= int(share[1]) <= 42
    await at_past.page.get_by_role("link", name="refund").click()
    await at_past.sees("Round p99", "Thinking time", "Whole call p99")
    assert await at_past.page.locator("h1").inner_text() == "refund"


READ = {"": 1, "/capacity": 2, "/failovers": 1, "/ring": 1, "/tools": 1, "/tools/refund": 2}
"""Pages, and how many reads of its own each has. Each shows a table, a chart or a figure: the selector below waits for
one of them."""


@pytest.mark.parametrize("page", READ)
async def test_numbers_that_are_no_longer_read_are_said_to_be_old(at_past: Screen, page: str) -> None:
    """They stay, and what was read last is said of each; until it is read again."""
    at_past.expects("/api/v1/")
    reads = re.compile(r"/api/v1/(capacity|failovers|history|ring|tools|waiting)\b")
    await at_past.page.clock.install()
    await at_past.open(page)
    shown = at_past.page.locator("main :is(table, canvas, .stat)").first
    await shown.wait_for()
    old = at_past.page.get_by_role("alert").filter(has_text="What is shown is its last answer")
    await at_past.page.route(reads, lambda route: route.abort())
    await later(at_past, 31)
    await expect(old).to_have_count(READ[page])
    assert await shown.is_visible()
    await at_past.page.unroute(reads)
    await later(at_past, 31)
    await expect(old).to_have_count(0)

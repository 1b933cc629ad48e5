"""All of it by keyboard: the way to the page, the pages, a table's order, and what is done by hand."""

from __future__ import annotations

import pytest

from tests.dashboard.stage import Stage
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

_FOCUSED = "() => document.activeElement.innerText || document.activeElement.getAttribute('aria-label') || ''"
_RING = """() => { const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== 'none'; }"""
NAMES = ("Overview", "Ring", "Nodes", "Leases", "Calls", "Tools", "Capacity", "Failovers")


async def press(screen: Screen, *keys: str) -> str:
    """What has the focus after these keys."""
    for key in keys:
        await screen.page.keyboard.press(key)
    text: str = await screen.page.evaluate(_FOCUSED)
    return text


async def test_the_first_stop_skips_to_the_page(at_fleet: Screen) -> None:
    """Past the navigation, at the page itself."""
    await at_fleet.open("/nodes")
    assert "skip" in (await press(at_fleet, "Tab")).lower()
    await press(at_fleet, "Enter")
    assert await at_fleet.page.evaluate("() => document.activeElement.id") == "main"
    await press(at_fleet, "Tab")
    assert await at_fleet.page.evaluate("() => document.activeElement.closest('main') !== null")


async def test_tab_goes_through_all_pages(at_fleet: Screen) -> None:
    """In order, each stop to be seen; the page that one goes to says its name first."""
    await at_fleet.open("")
    await press(at_fleet, "Tab")
    assert (await press(at_fleet, "Tab")).startswith("Find")
    for name in NAMES:
        assert await press(at_fleet, "Tab") == name
        assert await at_fleet.page.evaluate(_RING), f"the focus on {name} can't be seen"
    await press(at_fleet, "Enter")
    await at_fleet.page.wait_for_url("**/dashboard/failovers")
    await at_fleet.until("() => document.activeElement.tagName === 'H1'")
    assert await at_fleet.page.locator("nav [aria-current=page]").inner_text() == "Failovers"
    assert (await at_fleet.page.title()).startswith("Failovers")
    await at_fleet.page.go_back()
    await at_fleet.until("() => document.title.startsWith('Overview')")


async def test_a_table_is_ordered_and_the_address_has_it(at_fleet: Screen) -> None:
    """Enter on a head; and the same order comes with the link."""
    await at_fleet.open("/leases")
    await at_fleet.page.locator("main th", has_text="Expires in").get_by_role("button").focus()
    await press(at_fleet, "Enter")
    await at_fleet.page.locator("th[aria-sort]", has_text="Expires in").wait_for()
    assert "sort=expires" in at_fleet.page.url
    await at_fleet.page.reload()
    await at_fleet.page.locator("th[aria-sort]", has_text="Expires in").wait_for()


async def test_a_dialog_keeps_the_focus(at_fleet: Screen, fleet: Stage) -> None:
    """Inside, until it is left; axe finds nothing serious in it."""
    await at_fleet.open("/nodes")
    await at_fleet.page.get_by_role("button", name="Drain").first.focus()
    await press(at_fleet, "Enter")
    dialog = at_fleet.page.get_by_role("dialog")
    await dialog.wait_for()
    assert await at_fleet.findings() == []
    for _ in range(5):
        await press(at_fleet, "Tab")
        inside = "() => document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
        assert await at_fleet.page.evaluate(inside)
    assert "Drain" in await press(at_fleet, "Escape")
    assert await dialog.count() == 0

"""Whoever can write to the store can name a node or a tool as they like. A name is a text, and nothing else."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.dashboard.crowd import HOSTILE, Crowd
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGES = (
    "",
    "/ring",
    "/nodes",
    "/leases",
    "/failovers",
    f"/nodes/{quote(HOSTILE[0], safe='')}",
    "/nodes/one",
)
NAMES = [HOSTILE[0], *(pytest.param(name, marks=pytest.mark.nightly) for name in HOSTILE[1:])]
"""All of them are on the pages above in each `make test`; one by one, most are asked for at night."""
_TEXT = "() => document.body.textContent"
_MADE = """() => document.querySelectorAll(
  "main script, main iframe, main object, main svg[onload], main [onerror], main img[src=x]").length"""


async def harmless(screen: Screen) -> None:
    """Nothing of a name has become part of the page, or was run."""
    assert await screen.page.evaluate(_MADE) == 0
    assert await screen.page.title() != "taken"
    wide, window = await screen.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window, "a long name has made the page wide"


@pytest.mark.parametrize("path", PAGES)
async def test_names_are_shown_as_text(at_crowd: Screen, path: str) -> None:
    """Wherever they are: no element is made of them, nothing is run, and the page is no wider for them."""
    # A node that only a lease names can't be asked for more.
    at_crowd.expects("404 GET", "502 GET")
    await at_crowd.open(path)
    await at_crowd.page.locator("nav").wait_for()
    if path in ("", "/ring", "/nodes"):
        await at_crowd.until("() => document.querySelectorAll('main tbody tr').length > 5")
        text = await at_crowd.page.evaluate(_TEXT)
        assert [name for name in HOSTILE if name not in text] == []
    await harmless(at_crowd)


@pytest.mark.parametrize("tool", NAMES)
async def test_a_tool_of_any_name_is_found(at_crowd: Screen, many: Crowd, tool: str) -> None:
    """By its name in the address, and each row shows it in full to those who point at it."""
    await at_crowd.open(f"/leases?tool={quote(tool)}")
    await at_crowd.until("() => document.querySelectorAll('main tbody td[data-name=Tool]').length === 100")
    shown = await at_crowd.page.locator("main tbody td[data-name=Tool]").all_text_contents()
    assert set(shown) == {tool}
    await harmless(at_crowd)


@pytest.mark.parametrize("name", NAMES)
async def test_a_link_with_any_name_leads_to_a_page(at_crowd: Screen, name: str) -> None:
    """Whoever sends an operator a link names nodes and calls at will: the page shows the name, and says what it has."""
    at_crowd.expects("404 GET", "502 GET")
    for place in ("nodes", "calls"):
        await at_crowd.open(f"/{place}/{quote(name, safe='')}?q={quote(name)}")
        assert await at_crowd.page.locator("h1").count() == 1
        await harmless(at_crowd)

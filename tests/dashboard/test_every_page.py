"""What holds for each page: it loads without an error, fits, has its names, and can be used without a mouse or eyes."""

from __future__ import annotations

import re

import pytest

from framehold_router.dashboard import ASSETS
from tests.dashboard.conftest import Views
from tests.dashboard.stage import NODES, Stage
from tests.dashboard.view import SCHEMES, SIZES
from tests.kit.operators import call_of

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGES = {
    "overview": "",
    "ring": "/ring",
    "nodes": "/nodes",
    "node": f"/nodes/{NODES[0]}",
    "leases": "/leases",
    "calls": "/calls",
    "capacity": "/capacity",
    "tools": "/tools",
    "tool": "/tools/refund",
    "call": "/calls/{call}",
    "failovers": "/failovers",
    "unknown": "/no/such/page",
}


def test_each_page_of_the_sidebar_is_looked_at() -> None:
    """A page that is not in PAGES is loaded by no test; one of two pages with the same key is never reached."""
    text = (ASSETS / "app.js").read_text("utf-8")
    paths, keys = re.findall(r'\{ path: \[(?:"(\w+)")?\]', text), re.findall(r'\bkey: "(\w)"', text)
    left = {f"/{path}" if path else "" for path in paths} - {*PAGES.values(), "/playground"}
    others = "NAMES in test_keyboard.py, PAGES in test_hostile_names.py, and docs/dashboard.md"
    assert not left, f"{left}: add it to PAGES here, {others}"
    assert len(paths) == len(set(keys)) == len(keys), f"a key opens one page: {keys}"


_CUT = """() => [...document.querySelectorAll('.stat dt, .stat .figure')]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)"""
"""Numbers, and their names, that are wider than their place."""


def address(fleet: Stage, page: str) -> str:
    return PAGES[page].format(call=call_of(fleet.calls[0][1].token))


WINDOWS = (
    ("chromium", "light"),
    pytest.param("chromium", "dark", marks=pytest.mark.nightly),
    *(pytest.param("firefox", scheme, marks=(pytest.mark.firefox, pytest.mark.nightly)) for scheme in SCHEMES),
)
"""Browsers and colour schemes. A page that is well in the first of them seldom is not in the others."""


@pytest.mark.parametrize(("browser_name", "scheme"), WINDOWS)
@pytest.mark.parametrize("page", PAGES)
async def test_it_loads(fleet: Stage, views: Views, browser_name: str, page: str, scheme: str) -> None:
    """Without an error; in a window of each size nothing is wider than its place, and axe finds nothing serious."""
    async with views(browser_name, scheme, fleet.root) as view:
        await view.open(address(fleet, page))
        await view.until("() => document.querySelector('.link [role=status]').textContent === 'Live'")
        assert (await view.evaluate("() => document.title")).endswith("Framehold")
        for size in SIZES:
            await view.resize(*size)
            # Charts take their new width with the next frame.
            await view.until(f"() => innerWidth === {size[0]} && document.documentElement.scrollWidth <= innerWidth")
            assert await view.evaluate(_CUT) == []
            [heading] = await view.evaluate("() => [...document.querySelectorAll('h1')].map((one) => one.innerText)")
            assert heading.strip()
            assert await view.findings() == []

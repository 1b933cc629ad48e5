"""What holds for each page: it loads without an error, fits, has its names, and can be used without a mouse or eyes."""

from __future__ import annotations

import pytest

from tests.dashboard.conftest import Screens
from tests.dashboard.screen import LOOKS, Look
from tests.dashboard.stage import NODES, Stage
from tests.node.operating import call_of

pytestmark = pytest.mark.anyio

PAGES = {
    "overview": "",
    "ring": "/ring",
    "nodes": "/nodes",
    "node": f"/nodes/{NODES[0]}",
    "leases": "/leases",
    "calls": "/calls",
    "call": "/calls/{call}",
    "failovers": "/failovers",
    "trade-off": "/tradeoff",
    "unknown": "/no/such/page",
}

_CUT = """() => [...document.querySelectorAll('.stat dt, .stat .figure')]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)"""
"""Numbers, and their names, that are wider than their place."""


def address(fleet: Stage, page: str) -> str:
    return PAGES[page].format(call=call_of(fleet.calls[0][1].token))


@pytest.mark.parametrize("look", LOOKS, ids=str)
@pytest.mark.parametrize("page", PAGES)
async def test_it_loads(fleet: Stage, screens: Screens, page: str, look: Look) -> None:
    """Without an error, in either scheme; nothing is wider than its place; and axe finds nothing serious."""
    async with screens(fleet.root, look) as screen:
        await screen.open(address(fleet, page))
        await screen.page.locator("nav").get_by_text("Live").or_(screen.text("Live", exact=True)).first.wait_for()
        sizes = "() => [document.documentElement.scrollWidth, innerWidth]"
        wide, window = await screen.page.evaluate(sizes)
        assert wide <= window
        assert await screen.page.evaluate(_CUT) == []
        assert await screen.page.locator("h1").count() == 1
        assert (await screen.page.locator("h1").inner_text()).strip()
        assert (await screen.page.title()).endswith("Framehold")
        assert await screen.findings() == []

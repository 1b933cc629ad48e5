"""A node that dies is seen by whoever watches, without a reload."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.dashboard.conftest import Screens
from tests.dashboard.stage import LEASE_TTL, Stage
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.alone]

LIMIT = LEASE_TTL + 2.0
"""Seconds from its death until it is seen."""


def gone(name: str) -> str:
    """A row of this node says that it doesn't answer or is lost."""
    return f"""() => [...document.querySelectorAll("main tr")].some(
        (row) => row.querySelector("th")?.innerText.includes("{name}") && /unreachable|lost/.test(row.innerText))"""


async def seen(screen: Screen, name: str, start: float) -> float:
    """Seconds until the page says that this node is gone; it is the page that was there before."""
    await screen.until(gone(name), within=LIMIT + 3)
    spent = time.monotonic() - start
    assert await screen.page.evaluate("() => window.before"), "the page was loaded anew"
    return spent


async def test_it_is_seen_at_once_and_told_as_lost(fleet: Stage, screens: Screens) -> None:
    """On the overview and among the nodes, within the lease's time and two seconds; the node's own page says it too."""
    async with (
        fleet.another_node() as (name, node),
        screens(fleet.root) as overview,
        screens(fleet.root) as nodes,
        screens(fleet.root) as own,
    ):
        call, _ = await fleet.parked_at(name)
        for screen, path in ((overview, ""), (nodes, "/nodes"), (own, f"/nodes/{name}")):
            await screen.open(path)
            await screen.sees(name)
            await screen.page.evaluate("() => { window.before = true }")
        own.expects(f"/api/v1/nodes/{name}")
        assert not await nodes.page.evaluate(gone(name))
        start = time.monotonic()
        node.kill()
        on_overview, on_nodes = await asyncio.gather(seen(overview, name, start), seen(nodes, name, start))
        print(f"seen on the overview after {on_overview:.2f} s, among the nodes after {on_nodes:.2f} s")
        assert max(on_overview, on_nodes) < LIMIT
        lost = nodes.page.locator("tr", has_text=name).filter(has_text="lost")
        await lost.first.wait_for()
        await overview.sees("node lost")
        await own.until("() => /unreachable|lost|no node lease|not found|gone/i.test(document.body.innerText)")
        await nodes.page.locator("nav").get_by_text("Failovers").click()
        await nodes.settled()
        await fleet.until(
            "leases?state=orphaned", lambda result: any(one["call_id"] == call for one in result["items"])
        )

"""What whoever is woken sees first: what is wrong, and whether what is shown is the present. Answers are made up."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.async_api import Route

from tests.dashboard.screen import Screen
from tests.dashboard.stage import NODES, Stage

pytestmark = pytest.mark.anyio

STORE = f"{NODES[0]}, {NODES[1]}: the store does not answer: look at the store"
_SAID = "() => document.querySelector('.attention [role=status]').textContent"
_NOTED = """() => { window.said = [];
  const region = document.querySelector('.attention [role=status]');
  const note = () => window.said.push(region.textContent);
  new MutationObserver(note).observe(region, { childList: true, characterData: true, subtree: true }); }"""


class Told:
    """The fleet as it is, with changes; polled, since its stream doesn't come through."""

    def __init__(self, overview: dict[str, Any], nodes: dict[str, Any]) -> None:
        self.overview, self.nodes, self.silent = overview, nodes, False
        self._looks = 0

    async def answer(self, route: Route) -> None:
        path = route.request.url.partition("/api/v1/")[2]
        if self.silent:
            await route.abort()
        elif path == "stream":
            await route.fulfill(status=200, content_type="text/html", body="")
        elif path == "overview":
            await route.fulfill(json={**self.overview, "at": time.time(), "attention": self.attention()})
        elif path == "nodes":
            await route.fulfill(json=self.nodes)
        else:
            await route.continue_()

    def attention(self) -> list[str]:
        """Ages that grow."""
        self._looks += 1
        if not self.overview["attention"]:
            return []
        return [
            *(f"{name} has not renewed its node lease for {20 + self._looks}s: look at it" for name in NODES),
            STORE,
        ]


async def told(screen: Screen, fleet: Stage, attention: bool = False) -> Told:
    made = Told({**await fleet.get("overview"), "attention": attention, "orphaned": 0}, await fleet.get("nodes"))
    made.nodes["departed"] = []
    made.overview["events"] = []
    await screen.page.route("**/api/v1/**", made.answer)
    return made


async def test_one_cause_is_one_box_and_is_told_aloud_once(at_fleet: Screen, fleet: Stage) -> None:
    """The store before what follows from it; what holds of all nodes is said once; ages grow without a word."""
    await told(at_fleet, fleet, attention=True)
    await at_fleet.open("")
    await at_fleet.sees("the store does not answer")
    lines = await at_fleet.page.locator(".attention li").all_inner_texts()
    assert len(lines) == 2
    assert lines[0] == STORE
    assert lines[1].startswith(NODES[0])
    assert lines[1].endswith("The same holds of 2 other nodes.")
    await at_fleet.until(f"() => ({_SAID})() !== ''")
    await at_fleet.page.evaluate(_NOTED)
    before = lines[1]
    await at_fleet.until(f"() => document.querySelectorAll('.attention li')[1].innerText !== {before!r}")
    assert await at_fleet.page.evaluate("() => window.said") == []
    assert "Nothing needs you" not in await at_fleet.shown()


async def test_a_silent_router_is_said_on_the_page_and_nothing_is_well(at_fleet: Screen, fleet: Stage) -> None:
    """What stands there stays, and is said to be old, until it is new."""
    at_fleet.expects("failed: GET")
    made = await told(at_fleet, fleet)
    await at_fleet.open("")
    await at_fleet.sees("Nothing needs you.")
    made.silent = True
    await at_fleet.sees("This router doesn't answer", "What is shown is old")
    assert "Nothing needs you" not in await at_fleet.shown()
    assert NODES[0] in await at_fleet.shown()
    made.silent = False
    await at_fleet.sees("Nothing needs you.")
    await at_fleet.text("What is shown is old").wait_for(state="detached")


async def test_a_node_that_went_twice_is_one_node(at_fleet: Screen, fleet: Stage) -> None:
    """And one whose lease is there is not gone, whatever the list of departed nodes says."""
    made = await told(at_fleet, fleet)
    now = time.time()
    end = {"how": "lost", "last_heartbeat": now - 9, "detected": now - 4, "calls": 3}
    made.nodes["departed"] = [
        {**end, "node_id": "quarry", "boot": "b2"},
        {**end, "node_id": "quarry", "boot": "b1"},
        {**end, "node_id": NODES[0], "boot": "b0"},
    ]
    await at_fleet.open("")
    await at_fleet.sees("quarry was lost within the last hour and is not back")
    rows = await at_fleet.page.locator("main tbody tr").all_inner_texts()
    assert len(rows) == len(NODES) + 1
    assert sum("lost" in row for row in rows) == 1
    assert "1 lost" in await at_fleet.shown()
    assert "Nothing needs you" not in await at_fleet.shown()


async def test_a_blocked_loop_is_said_with_its_node(at_fleet: Screen, fleet: Stage) -> None:
    """On the overview, where it is and where to look."""
    made = await told(at_fleet, fleet)
    made.nodes["nodes"][1]["loop_lag_p99"] = 2.5
    await at_fleet.open("")
    await at_fleet.sees("its event loop was late by 2.50 s")
    await at_fleet.page.locator(".attention").get_by_role("link", name=NODES[1]).click()
    await at_fleet.page.wait_for_url(f"**/nodes/{NODES[1]}")


async def test_a_token_that_is_refused_is_told_from_signing_out(at_fleet: Screen, fleet: Stage) -> None:
    """A router that was started with another one says so; who leaves knows why."""
    at_fleet.expects("refused: 401")
    await at_fleet.open("/nodes")
    await at_fleet.page.get_by_role("button", name="Sign out").click()
    await at_fleet.sees("shows its fleet to those who have its admin token")
    await at_fleet.page.evaluate("() => sessionStorage.setItem('framehold-admin-token', 'the one of yesterday')")
    await at_fleet.page.reload()
    await at_fleet.sees("no longer takes the admin token of this tab")

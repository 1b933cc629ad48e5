"""What whoever is woken sees first: what is wrong, and whether what is shown is the present. Answers are made up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Route

from tests.dashboard.stage import NODES, Stage
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

STORE = {
    "severity": "harm",
    "kind": "store_silent",
    "node": "",
    "tool": "",
    "text": f"the store does not answer {NODES[0]}, {NODES[1]}: rounds wait for it",
    "next": "look at the store",
    "link": "docs/runbook.md#frameholdstoreerrors",
}


def of_node(node: str, kind: str, text: str, severity: str = "risk", tool: str = "") -> dict[str, Any]:
    """A problem of one node, as a router reports it."""
    named = {"severity": severity, "kind": kind, "node": node, "tool": tool, "text": f"{node} {text}"}
    return {**named, "next": "look at it", "link": f"/dashboard/nodes/{node}"}


_SAID = "() => document.querySelector('.attention [role=status]').textContent"
_NOTED = """() => { window.said = [];
  const region = document.querySelector('.attention [role=status]');
  const note = () => window.said.push(region.textContent);
  new MutationObserver(note).observe(region, { childList: true, characterData: true, subtree: true }); }"""


class Told:
    """The fleet as it is, with changes; polled, since its stream doesn't come through. `problems` says what the router
    reports at its n-th look."""

    def __init__(self, overview: dict[str, Any], nodes: dict[str, Any]) -> None:
        self.overview, self.nodes, self.silent = overview, nodes, False
        self.problems: Callable[[int], list[dict[str, Any]]] = lambda look: []
        self._looks = 0

    async def answer(self, route: Route) -> None:
        path = route.request.url.partition("/api/v1/")[2]
        if self.silent:
            await route.abort()
        elif path == "stream":
            await route.fulfill(status=200, content_type="text/html", body="")
        elif path == "overview":
            self._looks += 1
            problems = self.problems(self._looks)
            await route.fulfill(json={**self.overview, "at": time.time(), "problems": problems})
        elif path == "nodes":
            await route.fulfill(json=self.nodes)
        else:
            await route.continue_()


async def told(screen: Screen, fleet: Stage) -> Told:
    overview = await fleet.get("overview")
    overview["open"]["orphaned"] |= {"count": 0, "text": "none of 12 records, looked up 3s ago"}
    made = Told(overview, await fleet.get("nodes"))
    made.nodes["departed"] = []
    made.overview["events"] = []
    await screen.page.route("**/api/v1/**", made.answer)
    return made


async def test_one_cause_is_one_box_and_is_told_aloud_once(at_fleet: Screen, fleet: Stage) -> None:
    """The store before what follows from it; what holds of all nodes is said once; ages grow without a word."""
    made = await told(at_fleet, fleet)
    late = "has not renewed its node lease for"
    made.problems = lambda look: [STORE, *(of_node(name, "heartbeat_late", f"{late} {20 + look}s") for name in NODES)]
    await at_fleet.open("")
    await at_fleet.sees("the store does not answer")
    lines = await at_fleet.page.locator(".attention li").all_inner_texts()
    assert len(lines) == 2
    assert lines[0] == (
        f"The store does not answer {NODES[0]}, {NODES[1]}: rounds wait for it. Look at the store. "
        "docs/runbook.md#frameholdstoreerrors"
    )
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


async def test_all_open_calls_are_in_one_account(at_fleet: Screen, fleet: Stage) -> None:
    """Each figure with how and since when it is known, as the router words it for `framehold status` too."""
    made = await told(at_fleet, fleet)
    waits = "about 3 (looked up 4s ago): their nodes are gone; each goes on elsewhere when its client comes back"
    account = made.overview["open"]
    account["lost_last_hour"] = 7
    await at_fleet.open("")
    rows = at_fleet.page.get_by_role("region", name="Where open calls are").locator("tbody tr")
    assert await rows.locator("th").all_inner_texts() == ["held", "asleep", "handed off", "orphaned", "lost"]
    assert await rows.locator("td").first.inner_text() == account["held"]["text"]
    await at_fleet.sees("none of 12 records", "7 in the last hour, with their process or with a cancelled round")
    account["orphaned"] |= {"count": 3, "text": waits}
    await at_fleet.sees(f"Orphaned calls: {waits}.")
    assert await at_fleet.page.locator(".stat.warn").get_by_text("Orphaned", exact=True).count() == 1


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
    await at_fleet.sees("1 lost")
    table = at_fleet.page.get_by_role("region", name="Nodes", exact=True)
    rows = await table.locator("tbody tr").all_inner_texts()
    assert len(rows) == len(NODES) + 1
    assert sum("lost" in row for row in rows) == 1


STOOD = "stood for 12.0 s in tool 'refund', at shop:charge:42"
PROBLEMS = {
    "harm": (of_node(NODES[1], "loop_stood", STOOD, "harm", "refund"), STOOD, "bad", NODES[1], f"nodes/{NODES[1]}"),
    "risk": (
        {**of_node("quarry", "node_lost", "was lost"), "link": "/dashboard/failovers"},
        "quarry was lost. Look at it.",
        "warn",
        "Show failovers",
        "failovers",
    ),
}


@pytest.mark.parametrize(("problem", "words", "kind", "link", "path"), PROBLEMS.values(), ids=PROBLEMS)
async def test_a_risk_is_told_from_harm_and_links_to_where_there_is_more(
    at_fleet: Screen, fleet: Stage, problem: dict[str, Any], words: str, kind: str, link: str, path: str
) -> None:
    """By its colour and mark; a page of the dashboard is a link that loads nothing anew."""
    made = await told(at_fleet, fleet)
    made.problems = lambda look: [problem]
    await at_fleet.open("")
    await at_fleet.sees(words)
    assert await at_fleet.page.locator(f".attention .callout.{kind}").count() == 1
    assert "Nothing needs you" not in await at_fleet.shown()
    await at_fleet.page.locator(".attention").get_by_role("link", name=link).click()
    await at_fleet.page.wait_for_url(f"**/dashboard/{path}")


async def test_a_silent_store_shows_no_good_figures(at_fleet: Screen, fleet: Stage) -> None:
    """Its tile is red and has no old time of a write; a node that could not renew its lease is not green."""
    made = await told(at_fleet, fleet)
    made.overview |= {"store": "silent", "store_seconds": 0.00053}
    made.nodes["nodes"][0] |= {"state": "lapsed", "heartbeat_age": 48.0}
    made.nodes["nodes"][1] |= {"heartbeat_age": 48.0}
    await at_fleet.open("/nodes")
    await at_fleet.sees("lapsed", "late")
    states = [
        await row.locator(".state").get_attribute("class") for row in await at_fleet.page.locator("tbody tr").all()
    ]
    assert states == ["state bad", "state warn", "state good"]
    await at_fleet.open("")
    tile = at_fleet.page.locator(".stat.bad", has_text="Store")
    await tile.wait_for()
    assert "silent" in await tile.inner_text() and "0.53 ms" not in await at_fleet.shown()

"""What is done by hand: drain and undo it, cancel, evict, pause, resume. Each asks first, and needs the admin token."""

from __future__ import annotations

import asyncio
import random

import pytest
from playwright.async_api import Route, expect

from tests.dashboard.conftest import Screens
from tests.dashboard.crowd import rows_of
from tests.dashboard.line import until
from tests.dashboard.stage import NODES, Stage
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

DONE = {"Evict": "Evicted", "Cancel": "Cancelled"}
FOCUSED = "(name) => document.activeElement.getAttribute('aria-label') === name"
"""The page gives the focus back in the frame after the one that takes the dialog off."""
LEASES = "**/api/v1/leases?*"


async def ask_for(screen: Screen, what: str, call: str) -> None:
    """Open the dialog of an action on a call, from the list of leases."""
    await screen.page.get_by_role("button", name=f"{what.capitalize()} call {call[:8]}").click()
    await screen.page.get_by_role("dialog").wait_for()


async def agree(screen: Screen, label: str) -> None:
    dialog = screen.page.get_by_role("dialog")
    await dialog.get_by_role("button", name=label, exact=True).click()
    await dialog.wait_for(state="detached")


async def test_a_call_is_evicted(at_fleet: Screen, fleet: Stage) -> None:
    """Its frame goes; the page says what was done, and the call goes on when its client answers."""
    call, reply = await fleet.parked_at(NODES[0])
    await at_fleet.open(f"/leases?call={call}")
    await ask_for(at_fleet, "evict", call)
    await agree(at_fleet, "Evict")
    await at_fleet.sees("frame was dropped")
    assert (await fleet.get(f"leases/{call}"))["live"] is None
    await fleet.answer("refund", reply)
    assert (await fleet.get(f"leases/{call}"))["live"]["replayed"]


async def test_a_call_is_cancelled(at_fleet: Screen, fleet: Stage) -> None:
    """From its own page: it ends for good, and the page says so."""
    call, reply = await fleet.parked_at(NODES[1], "sign_contract")
    await at_fleet.open(f"/calls/{call}")
    await at_fleet.page.locator("main").get_by_role("button", name="Cancel").click()
    await agree(at_fleet, "Cancel the call")
    await at_fleet.sees("cancelled")
    assert (await fleet.get(f"leases/{call}"))["cause"] == "cancelled"
    assert "cancelled" in (await fleet.answer("sign_contract", reply)).text


async def test_a_node_is_drained(at_fleet: Screen, fleet: Stage) -> None:
    """Its state changes before one's eyes, and its calls are handed off."""
    async with fleet.another_node() as (name, _):
        call, _ = await fleet.parked_at(name)
        await at_fleet.open("/nodes")
        await at_fleet.page.get_by_role("button", name=f"Drain {name}").click()
        await at_fleet.page.get_by_role("dialog").get_by_text("1 parked call", exact=False).wait_for()
        await agree(at_fleet, "Drain")
        await at_fleet.sees("This node drains")
        row = at_fleet.page.locator("tr", has_text=name).first
        await row.get_by_text("draining").or_(row.get_by_text("left")).first.wait_for()
        await fleet.until(f"leases/{call}", lambda result: result["record"] == "released")


async def test_a_drain_is_taken_back(at_fleet: Screen, fleet: Stage) -> None:
    async with fleet.another_node() as (name, _):
        await at_fleet.open("/nodes")
        await at_fleet.page.get_by_role("button", name=f"Drain {name}").click()
        await agree(at_fleet, "Drain")
        await at_fleet.page.get_by_role("button", name=f"Undo the drain of {name}").click()
        await agree(at_fleet, "Undo drain")
        await at_fleet.sees("This node takes calls again")
        await at_fleet.page.get_by_role("button", name=f"Drain {name}").wait_for()
        assert await at_fleet.findings() == []


async def test_a_tool_is_paused_and_resumed(at_fleet: Screen, fleet: Stage) -> None:
    """From the page of one of its calls; the overview says which are paused, and has the way back."""
    call, reply = await fleet.parked_at(NODES[1], "sign_contract")
    await at_fleet.open(f"/calls/{call}")
    await at_fleet.page.get_by_role("button", name="Pause tool").click()
    await at_fleet.page.get_by_role("dialog").get_by_text("refuse new calls").wait_for()
    await agree(at_fleet, "Pause the tool")
    await at_fleet.page.get_by_role("button", name="Resume tool").wait_for()
    await fleet.until("nodes", lambda result: all(node["paused"] for node in result["nodes"]))
    assert (await fleet.call("sign_contract")).result["isError"] is True
    await at_fleet.open("/")
    await at_fleet.sees("tool sign_contract is paused by an operator", "Paused tools")
    assert await at_fleet.findings() == []
    await at_fleet.page.get_by_role("button", name="Resume sign_contract").click()
    await agree(at_fleet, "Resume the tool")
    await at_fleet.sees("takes calls again")
    await fleet.until("nodes", lambda result: not any(node["paused"] for node in result["nodes"]))
    assert not (await fleet.answer("sign_contract", reply)).result.get("isError")


async def frozen(screen: Screen, call: str) -> None:
    """Answers each look at the leases as the first one that shows `call`. A node that is silent for one look, on a busy
    machine, would take the row away, and the focus with it."""
    kept: list[bytes] = []

    async def answer(route: Route) -> None:
        if not kept:
            reply = await route.fetch()
            body = await reply.body()
            if call.encode() in body:
                kept.append(body)
            await route.fulfill(response=reply, body=body)
        else:
            await route.fulfill(status=200, content_type="application/json", body=kept[0])

    async with screen.page.expect_response(LEASES):
        await screen.page.route(LEASES, answer)
    await screen.page.locator("tr", has_text=call[:8]).wait_for()


async def test_who_says_no_does_nothing(at_fleet: Screen, fleet: Stage) -> None:
    """By the button, or by Escape; and the focus is back where it was."""
    call, _ = await fleet.parked_at(NODES[2])
    posted: list[str] = []
    at_fleet.page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
    await at_fleet.open(f"/leases?call={call}")
    await frozen(at_fleet, call)
    for what, leave in (("evict", "button"), ("cancel", "escape")):
        await ask_for(at_fleet, what, call)
        if leave == "button":
            await at_fleet.page.get_by_role("button", name="Keep as it is").click()
        else:
            await at_fleet.page.keyboard.press("Escape")
        await at_fleet.page.get_by_role("dialog").wait_for(state="detached")
        await at_fleet.page.wait_for_function(FOCUSED, arg=f"{what.capitalize()} call {call[:8]}")
    assert posted == []
    assert (await fleet.get(f"leases/{call}"))["live"]["state"] == "parked"


async def test_a_router_without_an_admin_token_does_nothing(fleet: Stage, screens: Screens) -> None:
    """It shows all, and says of each action why nobody may do it."""
    call, _ = await fleet.parked_at(NODES[0])
    posted: list[str] = []
    async with screens(await fleet.open_root()) as screen:
        screen.page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
        await screen.open(f"/leases?call={call}", signed_in=False)
        await ask_for(screen, "evict", call)
        await screen.page.get_by_role("dialog").get_by_text("FRAMEHOLD_ADMIN_TOKEN").wait_for()
        assert await screen.findings() == []
        await screen.page.get_by_role("dialog").get_by_role("button", name="Close").click()
    assert posted == []
    assert (await fleet.get(f"leases/{call}"))["live"]["state"] == "parked"


async def test_all_calls_that_the_filters_let_through_are_evicted_or_cancelled(at_fleet: Screen, fleet: Stage) -> None:
    """After their number was typed. Calls that can't be evicted are counted, and left alone."""
    calls = [(await fleet.parked_at(NODES[0], tool))[0] for tool in ("refund", "refund", "sign_contract")]
    page, dialog = at_fleet.page, at_fleet.page.get_by_role("dialog")
    await at_fleet.open("/leases")
    assert await page.get_by_role("button", name="Cancel all").count() == 0, "without a filter nothing is done to all"
    for what, tool, left in (("Evict", "refund", calls[2]), ("Cancel", "sign_contract", calls[0])):
        count = (await fleet.get(f"leases?tool={tool}&node={NODES[0]}&state=parked"))["total"]
        await at_fleet.open(f"/leases?tool={tool}&node={NODES[0]}&state=parked")
        await page.get_by_role("button", name=f"{what} all {count}").click()
        await dialog.get_by_text(f"{count} of {tool}").wait_for()
        act = dialog.get_by_role("button", name=f"{what} {count} call")
        await dialog.get_by_label("Type").fill(str(count + 1))
        assert await act.is_disabled()
        await dialog.get_by_label("Type").fill(str(count))
        await act.click()
        await dialog.wait_for(state="detached")
        await at_fleet.sees(f"{DONE[what]} {count} of {count} call")
        assert (await fleet.get(f"leases/{left}"))["record"] in ("open", "released")
    assert (await fleet.get(f"leases/{calls[2]}"))["cause"] == "cancelled"
    assert (await fleet.get(f"leases/{calls[0]}"))["live"] is None


class Held:
    """Actions that the router has not answered yet: each waits until `ends` says how."""

    def __init__(self) -> None:
        self.asked = self.answered = 0
        self.ends: asyncio.Future[str] = asyncio.Future()

    async def answer(self, route: Route) -> None:
        self.asked += 1
        if await self.ends == "done":
            await route.fulfill(json={"done": "it was cancelled"})
        else:
            await route.abort()
        self.answered += 1


CALLS = 20
AT_ONCE = 8


async def cancelling(page: Screen, button: str) -> Held:
    """The dialog of this button, where its action is under way."""
    held = Held()
    items = [row.view() for row in rows_of("harbour", CALLS, random.Random("held"))]
    await page.page.route(LEASES, lambda route: route.fulfill(json={"items": items, "total": CALLS, "next": None}))
    await page.page.route("**/api/v1/leases/*/cancel", held.answer)
    await page.open("/leases?node=harbour")
    await page.page.get_by_role("button", name=button).first.click()
    dialog = page.page.get_by_role("dialog")
    if button == "Cancel all":
        await dialog.get_by_label("Type").fill(str(CALLS))
    await dialog.get_by_role("button", name="Cancel").click()
    await until(lambda: held.asked == (AT_ONCE if button == "Cancel all" else 1))
    return held


@pytest.mark.parametrize("end", ["done", "unknown"])
async def test_a_dialog_stays_until_what_came_of_its_action_is_shown(page: Screen, end: str) -> None:
    """Neither Escape, however often, nor its button closes it before: the answer would go unseen."""
    held = await cancelling(page, "Cancel call")
    dialog = page.page.get_by_role("dialog")
    for _ in range(3):
        await page.page.keyboard.press("Escape")
    await expect(dialog).to_be_visible()
    await expect(dialog.get_by_role("button", name="Keep as it is")).to_be_disabled()
    held.ends.set_result(end)
    if end == "done":
        await dialog.wait_for(state="detached")
        await page.sees("it was cancelled")
    else:
        await dialog.get_by_text("Whether it was done is not known").wait_for()
        await page.page.keyboard.press("Escape")
        await dialog.wait_for(state="detached")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("done", "Cancelled 8 of 20 calls; 12 calls were left alone: you stopped."),
        ("unknown", "Cancelled 0 of 20 calls; of 8 calls it is not known; 12 calls were left alone: you stopped."),
    ],
)
async def test_cancelling_all_can_be_stopped(page: Screen, end: str, words: str) -> None:
    """No further call is asked for, and what came of each is told."""
    held = await cancelling(page, "Cancel all")
    dialog = page.page.get_by_role("dialog")
    stop = dialog.get_by_role("button", name="Stop")
    await stop.click()
    await expect(stop).to_be_disabled()
    held.ends.set_result(end)
    await dialog.wait_for(state="detached")
    await page.sees(words)
    assert held.asked == AT_ONCE


async def test_who_leaves_the_page_stops_what_is_done_to_all(page: Screen) -> None:
    """As by the browser's own Back: nobody would see what is cancelled after that."""
    held = await cancelling(page, "Cancel all")
    await page.page.evaluate("async () => (await import('/dashboard/assets/lib/address.js')).go(['nodes'])")
    await page.page.get_by_role("dialog").wait_for(state="detached")
    held.ends.set_result("done")
    await until(lambda: held.answered == AT_ONCE)
    await page.page.evaluate("async () => (await fetch('/api/v1/access')).text()")
    assert held.asked == AT_ONCE

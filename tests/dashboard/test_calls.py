"""Calls that ended: in a list with what went wrong, on their own pages, and on the overview."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tests.dashboard.stage import Stage
from tests.kit.browser import Screen
from tests.kit.operators import call_of
from tests.kit.processes import DEADLINE

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def listed(fleet: Stage, query: str) -> list[dict[str, Any]]:
    """The ended calls that match the query, as soon as there are any: a node writes them a moment after their end."""
    async with asyncio.timeout(DEADLINE):
        while not (items := (await fleet.get(f"calls?{query}"))["items"]):
            await asyncio.sleep(0.05)
    return list(items)


async def failed(fleet: Stage) -> str:
    """A call that asked, and failed: its id."""
    reply = await fleet.ask("pay_invoice")
    assert (await fleet.answer("pay_invoice", reply)).result["isError"]
    await listed(fleet, f"call={call_of(reply.token)}")
    return call_of(reply.token)


async def completed(fleet: Stage) -> str:
    reply = await fleet.ask("sign_contract")
    assert (await fleet.answer("sign_contract", reply)).text == "yes"
    return call_of(reply.token)


async def test_what_failed_is_found_among_what_ended(at_fleet: Screen, fleet: Stage) -> None:
    """With the class of the exception and the line that raised it, and never with its text."""
    good, bad = await completed(fleet), await failed(fleet)
    await at_fleet.open("/calls")
    rows = at_fleet.page.locator("main tbody tr")
    await at_fleet.sees(good[:8], bad[:8])
    row = rows.filter(has_text=bad[:8])
    assert "tool error" in await row.inner_text() and "CardExpired" in await row.inner_text()
    assert "pay_invoice:" in await row.locator("[data-name='Raised at']").inner_text()
    assert "yes" not in await row.inner_text(), "what the client said is the text of the exception"
    await at_fleet.page.get_by_role("button", name=re.compile("^Failed [1-9]")).click()
    await at_fleet.page.wait_for_url("**/calls?failed=true")
    await rows.filter(has_text=good[:8]).wait_for(state="detached")
    assert await rows.filter(has_text=bad[:8]).count() == 1
    await at_fleet.page.get_by_role("button", name="Expired").click()
    await at_fleet.sees("No call ended like that in the last hour")
    await at_fleet.page.get_by_role("button", name="Drop the filters").click()
    await at_fleet.sees(good[:8])


async def test_the_page_of_a_call_that_failed_says_so_before_all_else(at_fleet: Screen, fleet: Stage) -> None:
    """The box is red, and so is the end of its timeline; nothing of it is green."""
    call = await failed(fleet)
    await at_fleet.open(f"/calls/{call}")
    box = at_fleet.page.locator("main .callout.bad")
    await box.wait_for()
    result = await box.inner_text()
    assert "It ended: tool error" in result and "CardExpired" in result and "pay_invoice:" in result
    assert await at_fleet.page.locator(".timeline .round.failed").count() == 1
    assert await at_fleet.page.locator("main .good, main .finished").count() == 0
    assert "Ended: tool error" in await at_fleet.page.locator("main table").first.inner_text()

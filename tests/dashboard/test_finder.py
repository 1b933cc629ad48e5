"""Finding by name: pages, tools, nodes, calls and tokens; and the keys that lead there."""

from __future__ import annotations

import re

import pytest

from tests.dashboard.screen import Screen
from tests.dashboard.stage import Stage
from tests.node.operating import call_of

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def find(screen: Screen, text: str) -> None:
    """Open the dialog with its key, and type."""
    await screen.page.keyboard.press("/")
    field = screen.page.get_by_role("combobox", name="A call, a token")
    await field.wait_for()
    await screen.until("() => document.activeElement.getAttribute('role') === 'combobox'")
    await field.fill(text)


async def test_a_letter_after_g_opens_a_page(at_fleet: Screen) -> None:
    await at_fleet.open("")
    for key, path in (("n", "nodes"), ("c", "calls"), ("a", "capacity"), ("o", "dashboard")):
        await at_fleet.page.keyboard.press("g")
        await at_fleet.page.keyboard.press(key)
        await at_fleet.page.wait_for_url(f"**/{path}")


async def test_the_keys_are_shown(at_fleet: Screen) -> None:
    """`?` opens them, Escape closes them, and a key in a dialog does nothing else."""
    await at_fleet.open("/nodes")
    await at_fleet.page.keyboard.press("?")
    keys = at_fleet.page.get_by_role("dialog", name="Keys")
    await keys.wait_for()
    assert "g then l\nLeases" in await keys.inner_text()
    await at_fleet.page.keyboard.press("/")
    assert await at_fleet.page.get_by_role("dialog").count() == 1
    await at_fleet.page.keyboard.press("Escape")
    await keys.wait_for(state="detached")


async def test_keys_that_are_typed_into_a_field_stay_there(at_fleet: Screen) -> None:
    await at_fleet.open("/calls")
    field = at_fleet.page.get_by_label("Call, its first letters")
    await field.press_sequentially("g/?n")
    assert await field.input_value() == "g/?n" and await at_fleet.page.get_by_role("dialog").count() == 0
    assert "/calls" in at_fleet.page.url


async def test_a_tool_a_node_and_a_page_are_found_by_a_part_of_their_names(at_fleet: Screen, fleet: Stage) -> None:
    await fleet.ask("pay_invoice")
    await at_fleet.open("")
    for text, kind, path in (("INVOICE", "Tool", "tools/pay_invoice"), ("fail", "Page", "failovers")):
        await find(at_fleet, text)
        option = at_fleet.page.get_by_role("option", selected=True)
        await option.filter(has_text=kind).wait_for()
        await at_fleet.page.keyboard.press("Enter")
        await at_fleet.page.wait_for_url(f"**/{path}")
    name = (await fleet.get("nodes"))["nodes"][1]["node_id"]
    await find(at_fleet, name)
    await at_fleet.page.get_by_role("option").filter(has_text="Node").click()
    await at_fleet.page.wait_for_url(f"**/nodes/{name}")


async def test_a_call_is_found_while_it_is_held_and_after_its_end(at_fleet: Screen, fleet: Stage) -> None:
    reply = await fleet.ask("sign_contract")
    call = call_of(reply.token)
    await at_fleet.open("/ring")
    for state in ("parked", "completed"):
        await find(at_fleet, call[:6])
        await at_fleet.page.get_by_role("option").filter(has_text=state).filter(has_text=call[:8]).wait_for()
        await at_fleet.page.keyboard.press("Enter")
        await at_fleet.page.wait_for_url(f"**/calls/{call}")
        await at_fleet.page.keyboard.press("g")
        await at_fleet.page.keyboard.press("r")
        await at_fleet.page.wait_for_url("**/ring")
        if state == "parked":
            await fleet.answer("sign_contract", reply)


async def test_a_token_leads_to_its_call_and_is_in_no_address(at_fleet: Screen, fleet: Stage) -> None:
    reply = await fleet.ask("sign_contract")
    await at_fleet.open("")
    await find(at_fleet, reply.token)
    await at_fleet.page.get_by_role("option", name="Find the call of this token").wait_for()
    assert not await at_fleet.page.locator("dialog input").evaluate("(field) => field.spellcheck")
    assert reply.token[:20] not in at_fleet.page.url
    await at_fleet.page.keyboard.press("Enter")
    await at_fleet.page.wait_for_url(f"**/calls/{call_of(reply.token)}")


@pytest.mark.parametrize(
    ("text", "told"),
    [("zz-no-such-thing", "Nothing is called so"), ("h1.nonsense", "not a token of a Framehold fleet")],
)
async def test_what_is_not_found_is_said(at_fleet: Screen, text: str, told: str) -> None:
    await at_fleet.open("")
    await find(at_fleet, text)
    await at_fleet.page.keyboard.press("Enter")
    await at_fleet.page.get_by_role("status").filter(has_text=re.compile(told)).wait_for()
    assert await at_fleet.page.get_by_role("dialog").count() == 1

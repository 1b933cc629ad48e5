"""Finding by name: pages, tools, nodes, calls and tokens; the keys that lead there; and where a token goes."""

from __future__ import annotations

import re

import pytest

from tests.dashboard.stage import NODES, Stage
from tests.kit.browser import Screen
from tests.kit.operators import call_of

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


async def look_up(screen: Screen, token: str) -> None:
    await screen.page.locator("textarea").fill(token)
    await screen.page.get_by_role("button", name="Look it up").click()


async def test_a_token_leads_to_its_node(at_fleet: Screen, fleet: Stage) -> None:
    """And to its call, which the page links to."""
    call, reply = await fleet.parked_at(NODES[0], "sign_contract")
    await at_fleet.open("/ring")
    for _ in range(5):
        async with at_fleet.page.expect_response("**/api/v1/lookup") as answered:
            await look_up(at_fleet, f"  {reply.token}\n")
        # On a busy machine a node may answer too late, and the page says so.
        if not (await (await answered.value).json())["silent"]:
            break
        await at_fleet.sees("that node did not answer")
    await at_fleet.sees(call[:8], "parked")
    found = at_fleet.page.locator(".facts")
    text = await found.inner_text()
    assert reply.headers["framehold-node"] in text
    assert "sign_contract" in text and "parked" in text
    await found.get_by_role("link", name=call[:8]).click()
    await at_fleet.page.wait_for_url(f"**/dashboard/calls/{call}")
    await at_fleet.settled()


async def test_a_token_stays_where_it_was_pasted(at_fleet: Screen, fleet: Stage) -> None:
    """It is in no address, no title, no storage, no history and no request but the body of one."""
    token = fleet.calls[0][1].token
    secret = token.split(".")[-1]
    addresses: list[str] = []
    bodies: list[str] = []
    at_fleet.page.on("request", lambda request: addresses.append(request.url))
    at_fleet.page.on("request", lambda request: bodies.append(request.post_data or ""))
    await at_fleet.open("/ring")
    await look_up(at_fleet, token)
    await at_fleet.sees(call_of(token)[:8])
    kept = await at_fleet.page.evaluate(
        """() => [location.href, document.title, JSON.stringify(history.state), document.cookie,
                  JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join(" ")"""
    )
    assert secret not in kept
    assert not [one for one in addresses if secret in one]
    assert sum(secret in one for one in bodies) == 1
    await at_fleet.page.reload()
    await at_fleet.settled()
    assert await at_fleet.page.locator("textarea").input_value() == ""


@pytest.mark.parametrize("token", ["nonsense", "h1." + "x" * 5000])
async def test_what_is_no_token_is_said_to_be_none(at_fleet: Screen, token: str) -> None:
    """Whatever it is, it is answered in a sentence."""
    await at_fleet.open("/ring")
    await look_up(at_fleet, token)
    await at_fleet.sees("Not a token of a Framehold fleet")

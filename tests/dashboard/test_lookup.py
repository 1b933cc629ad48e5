"""Where does this token go? The page tells, and keeps the token to itself."""

from __future__ import annotations

import pytest

from tests.dashboard.screen import Screen
from tests.dashboard.stage import NODES, Stage
from tests.node.operating import call_of

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


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


@pytest.mark.parametrize("token", ["nonsense", "h1.short", "<script>alert(1)</script>", "h1." + "x" * 5000])
async def test_what_is_no_token_is_said_to_be_none(at_fleet: Screen, token: str) -> None:
    """Whatever it is, it is answered in a sentence."""
    await at_fleet.open("/ring")
    await look_up(at_fleet, token)
    await at_fleet.sees("Not a token of a Framehold fleet")


async def test_nothing_is_asked_for_nothing(at_fleet: Screen) -> None:
    """Without a token there is nothing to look up."""
    posted: list[str] = []
    at_fleet.page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
    await at_fleet.open("/ring")
    await look_up(at_fleet, "  ")
    await at_fleet.sees("There is no token")
    assert posted == []

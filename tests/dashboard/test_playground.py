"""The playground: each way to answer, tools that fail or tell, a node that is killed, texts that mean harm."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Route

from tests.cli.processes import Up
from tests.dashboard.asking import HOSTILE
from tests.dashboard.conftest import Screens
from tests.dashboard.player import Player, playground
from tests.kit.browser import LOOKS, Look

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@pytest.mark.parametrize(("button", "text"), [("Decline", "from decline"), ("Cancel", "from cancel")])
async def test_a_question_is_declined_or_cancelled(player: Player, button: str, text: str) -> None:
    """The tool is told which of the two it was, and goes on."""
    await player.call("trip")
    await player.asks("Where from?")
    await player.button(button).click()
    await player.accept("Where to?", "Oslo")
    assert f"{text} to Oslo" in await player.ended()
    await player.screen.sees("Where from? declined" if button == "Decline" else "Where from? cancelled")


async def test_each_round_names_its_node_and_what_went_over_the_wire(player: Player) -> None:
    """The call's journal grows, and stays when the call has ended; its whole story is one link away."""
    await player.call("trip")
    await player.accept("Where from?", "Rome")
    await player.asks("Where to?")
    assert all(re.match(r"Round \d asked node-\d \d", line) for line in await player.rounds())
    journal = player.page.locator("section[aria-label=Journal] tbody tr")
    await journal.nth(2).wait_for()
    await player.page.locator("summary", has_text="On the wire").nth(1).click()
    sent = player.page.locator(".steps pre")
    await sent.first.wait_for()
    wire = await sent.all_inner_texts()
    assert '"inputResponses"' in wire[0] and '"requestState": "h1.' in wire[0] and "characters)" in wire[0]
    assert '"resultType": "input_required"' in wire[1]
    await player.accept("Where to?", "Oslo")
    assert "from Rome to Oslo" in await player.ended()
    assert await journal.count() == 3
    call = await player.page.locator(".now .where a.mono").get_attribute("title")
    await player.page.get_by_role("link", name="Its timeline").click()
    await player.page.wait_for_url(f"**/dashboard/calls/{call}")
    await player.screen.sees("completed")
    await player.page.get_by_role("link", name="Playground").click()
    assert "from Rome to Oslo" in await player.ended()


async def test_the_admin_token_is_not_sent_to_tools(player: Player) -> None:
    """Nothing of the dashboard's own goes to the server of the tools."""
    sent: list[dict[str, str]] = []
    player.page.on("request", lambda one: sent.append(one.headers) if one.url.endswith("/mcp") else None)
    await player.call("trip")
    await player.asks("Where from?")
    assert len(sent) >= 5
    assert not any({"authorization", "cookie", "x-requested-with"} & set(headers) for headers in sent)
    assert {headers["mcp-protocol-version"] for headers in sent} == {"2026-07-28"}


async def test_several_questions_leave_together(player: Player) -> None:
    """One may be answered anew while the others wait; the focus stays at the questions."""
    await player.call("both")
    await player.accept("Which drink?", "tea")
    await player.screen.sees("1 of 2 still to answer")
    focused = "() => document.activeElement.innerText"
    assert await player.page.evaluate(focused) == "Change"
    await player.page.keyboard.press("Enter")
    await player.screen.sees("2 of 2 still to answer")
    assert await player.page.evaluate("() => document.activeElement.tagName") == "INPUT"
    await player.accept("Which drink?", "water")
    assert len(await player.rounds()) == 1
    await player.accept("Which meal?", "soup")
    assert "water and soup" in await player.ended()
    assert len(await player.rounds()) == 2


async def test_an_address_to_visit_is_a_link_that_is_not_opened(player: Player) -> None:
    """In a tab of its own, which learns nothing of this one."""
    await player.call("pay")
    link = player.page.locator("a.address")
    await link.wait_for()
    result = [await link.get_attribute(name) for name in ("href", "target", "rel")]
    assert result == ["https://bank.example/pay?order=7", "_blank", "noopener noreferrer"]
    assert await player.screen.findings() == []
    await player.button("Accept").click()
    assert "payment: accept" in await player.ended()
    assert len(player.page.context.pages) == 1


async def test_an_address_that_is_none_of_the_web_is_no_link(player: Player) -> None:
    async def evil(route: Route) -> None:
        answer = await route.fetch()
        text = (await answer.text()).replace("https://bank.example/pay?order=7", "javascript:window.harmed=1")
        await route.fulfill(response=answer, body=text)

    await player.page.route("**/mcp", evil)
    await player.call("pay")
    await player.asks("Pay at your bank")
    await player.page.locator("code.address").get_by_text("javascript:window.harmed=1").wait_for()
    assert await player.page.locator("a.address").count() == 0


async def test_a_tool_that_fails(player: Player) -> None:
    """Its error is shown, and where it was raised, which its client isn't told."""
    await player.call("fails")
    await player.accept("Which one?", "plum")
    text = await player.ended("The tool failed")
    assert "Error executing tool fails" in text
    await player.screen.sees("ValueError")
    assert "raised at asking:fails:" in await player.page.locator(".now").inner_text()
    assert (await player.rounds())[-1].startswith("Round 2 failed node-")
    assert await player.screen.findings() == []


async def test_progress_and_logs_of_each_round(player: Player) -> None:
    """With the round that they belong to, in order."""
    await player.call("talks")
    await player.asks("What else goes in?")
    lines = player.page.locator(".message-lines li")
    assert [" ".join(one.split()) for one in await lines.all_inner_texts()] == [
        "progress 1 of 4: packing",
        "info the suitcase is open",
    ]
    await player.accept("What else goes in?", "socks")
    await player.ended()
    assert [" ".join(one.split()) for one in await lines.all_inner_texts()][2:] == [
        "progress 3 of 4: socks is in",
        'warning scales: {"weight":23}',
    ]


async def test_a_round_that_does_not_end_is_given_up(player: Player) -> None:
    """Its progress is seen while it runs, and its request is cancelled."""
    await player.call("waits")
    await player.page.get_by_role("progressbar", name="Progress").wait_for()
    await player.screen.sees("1 of 9: working")
    assert await player.screen.findings() == []
    await player.button("Stop waiting").click()
    assert "You stopped it." in await player.ended("The call came to no result")
    assert (await player.rounds())[0].startswith("Round 1 stopped")
    await player.button("Clear").click()
    await player.screen.sees("Nothing is called yet")
    assert await player.page.evaluate("() => document.activeElement.id") == "call"


async def test_texts_of_a_server_are_text(player: Player) -> None:
    """In its description, its log, its question and its result; none of them runs."""
    await player.call("hostile")
    await player.asks(HOSTILE)
    shown = await player.page.locator("main").inner_text()
    assert shown.count(HOSTILE) == 3
    await player.accept(HOSTILE, HOSTILE)
    assert HOSTILE + HOSTILE in await player.ended()
    assert await player.page.evaluate(
        "() => [window.harmed, document.querySelectorAll('main img, main script').length]"
    ) == [None, 0]


async def test_what_is_kept_is_bounded(player: Player) -> None:
    """Messages of a round, steps of a call and long texts: the newest, and how many there were."""
    events = [
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": f"line {n}"}}
        for n in range(500)
    ]
    long = {"resultType": "complete", "content": [{"type": "text", "text": "x" * 50_000}] * 60}

    async def flood(route: Route) -> None:
        request = route.request.post_data_json
        if request["method"] != "tools/call":
            await route.continue_()
            return
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": long}
        body = "".join(f"data: {json.dumps(one)}\n\n" for one in [*events, reply])
        await route.fulfill(status=200, content_type="text/event-stream", body=body)

    await player.page.route("**/mcp", flood)
    await player.call("trip")
    text = await player.ended()
    assert "30,000 more characters are not shown" in text and "10 more parts not shown" in text
    lines = await player.page.locator(".message-lines li").all_inner_texts()
    assert (len(lines), lines[0]) == (201, "300 earlier messages no longer kept here")
    assert lines[-1].split()[-1] == "499"


@pytest.fixture
async def killable(tmp_path: Path) -> AsyncIterator[Up]:
    """A fleet of this test alone: it kills a node of it."""
    async with playground(tmp_path) as running:
        yield running


async def test_a_node_is_killed_between_two_rounds_and_the_call_goes_on(killable: Up, screens: Screens) -> None:
    """Another node, or the new process, takes it over; the supervisor starts the killed node again."""
    async with screens(killable.url) as screen:
        player = Player(screen)
        await player.call("trip")
        await player.accept("Where from?", "Rome")
        await player.asks("Where to?")
        node = await player.kill()
        await killable.hears(f"{node} died (SIGKILL)")
        assert await player.button(f"Kill {node}").get_attribute("aria-disabled") == "true"
        assert await screen.findings() == []
        await player.accept("Where to?", "Oslo")
        assert "from Rome to Oslo" in await player.ended(within=30)
        rounds = await player.rounds()
        assert rounds[2].startswith(f"You killed {node}")
        assert re.match(r"Round 3 ended node-\d takeover ", rounds[3])
        await killable.hears(f"{node} is back")
        await player.button("Call").click()
        await player.asks("Where from?")


async def test_a_server_that_is_away_for_a_moment_is_tried_again(player: Player) -> None:
    """A round with a token is sent again, as one and the same; the page says so."""
    await player.call("trip")
    await player.asks("Where from?")
    sent: list[str] = []

    async def away(route: Route) -> None:
        sent.append(route.request.post_data or "")
        if len(sent) == 1:
            await route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "away"})
        elif len(sent) == 2:
            await route.abort()
        else:
            await route.continue_()

    player.screen.expects("503", "net::ERR_FAILED", "ERR_FAILED")
    await player.page.route("**/mcp", away)
    await player.accept("Where from?", "Rome")
    await player.asks("Where to?")
    await player.screen.sees("The same request was sent again 2 times.")
    assert len(sent) == 3
    bodies = [re.sub(r'"(id|progressToken)":\d+', "", one) for one in sent]
    assert len(set(bodies)) == 1


async def test_a_journal_that_can_not_be_read_again_is_said_to_be_old(player: Player) -> None:
    """What is shown is what was read before."""
    await player.call("trip")
    await player.accept("Where from?", "Rome")
    journal = player.page.locator("section[aria-label=Journal] tbody tr")
    await journal.nth(2).wait_for()

    async def away(route: Route) -> None:
        await route.fulfill(status=503, json={"error": "the store did not answer"})

    player.screen.expects("503")
    await player.page.route("**/api/v1/leases/*", away)
    await player.screen.sees("What is shown is its last answer")
    assert await journal.count() == 3


async def test_a_first_round_is_not_sent_twice(player: Player) -> None:
    """Whether it ran is not known: the error says that it broke."""
    await player.open("tool", "trip")
    tried: list[str] = []

    async def broken(route: Route) -> None:
        tried.append(route.request.url)
        await route.abort()

    player.screen.expects("ERR_FAILED")
    await player.page.route("**/mcp", broken)
    await player.button("Call").click()
    assert "The connection broke before the answer was there" in await player.ended("The call came to no result")
    assert len(tried) == 1


async def test_a_server_that_wants_its_users_is_told_as_such(player: Player) -> None:
    """The page can't sign in there, and says so instead of a list."""
    player.screen.expects("401")
    await player.page.route("**/mcp", lambda route: route.fulfill(status=401, body=""))
    await player.screen.open("/playground")
    await player.screen.sees("What is served can't be listed", "The server refuses this page (401)")
    await player.page.unroute("**/mcp")
    await player.button("Try again").click()
    await player.button("Call").wait_for()


async def test_by_keyboard_alone(player: Player) -> None:
    """From the choice to the end: Tab, arrows, Enter and Space; the focus comes to what is asked."""
    await player.open("tool", "add")
    page = player.page
    press = page.keyboard.press
    await page.get_by_label("Tool", exact=True).focus()
    await page.keyboard.type("tr")
    await page.wait_for_url("**name=trip")
    await press("Tab")
    assert await page.evaluate("() => document.activeElement.id") == "call"
    await press("Enter")
    await player.asks("Where from?")
    heading = "() => document.activeElement.tagName === 'H2' && document.activeElement.innerText === 'It asks'"
    await player.screen.until(heading)
    await press("Tab")
    await page.keyboard.type("Rome")
    await press("Enter")
    await player.asks("Where to?")
    await player.screen.until(heading)
    await press("Tab")
    for name in ("Accept", "Decline"):
        await press("Tab")
        assert await page.evaluate("() => document.activeElement.innerText") == name
    await press("Space")
    assert "from Rome to decline" in await player.ended()
    await player.screen.until("() => document.activeElement.innerText === 'The call has ended'")


@pytest.mark.parametrize(
    "look",
    [LOOKS[0], *(pytest.param(look, marks=pytest.mark.nightly) for look in (*LOOKS[1:], Look("light", 700, 900)))],
    ids=str,
)
async def test_it_fits_and_axe_finds_nothing(played: Up, screens: Screens, look: Look) -> None:
    """With arguments, with a form that has all kinds of fields, with faults in it, and at the end; in each scheme."""
    async with screens(played.url, look) as screen:
        player = Player(screen)
        await player.open("tool", "add")
        await player.button("Call").click()
        await player.screen.sees("It is required.")
        assert await screen.findings() == []
        await player.call("dinner")
        await player.asks("All about your dinner")
        await player.page.locator("section[aria-label=Journal] td").first.wait_for()
        await player.button("Accept").click()
        await player.screen.sees("Choose 1 to 2.")
        assert await screen.findings() == []
        wide, window = await player.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window
        await player.button("Decline").click()
        await player.ended()
        assert await screen.findings() == []


async def test_a_page_of_another_site_gets_nothing(played: Up) -> None:
    """It may neither kill a node, for it has no token, nor call a tool, for its origin is not allowed."""
    async with httpx2.AsyncClient(base_url=played.url) as http:
        killed = await http.post("/api/v1/nodes/node-1/kill", headers={"Origin": "https://evil.example"})
        assert killed.status_code == 401
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        called = await http.post("/mcp", json=body, headers={"Origin": "https://evil.example"})
        assert called.status_code == 403
    assert "died" not in played.said

"""What comes over the live connection: in whatever pieces, from whatever release, at whatever hour."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from playwright.async_api import Route

from tests.dashboard.line import STREAM, Line, parked, says, until
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


def message(name: str, **fields: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def told(text: str) -> bytes:
    """A fleet with one node, and one event of these words."""
    one = {"id": "b-1", "at": 1.0, "node_id": "harbour", "kind": "odd kind", "text": text}
    counts = {"parked": 5, "in_flight": 0, "orphaned": 0, "stuck": 0, "failovers_last_hour": 0}
    overview = message("overview", at=1.0, version="1", nodes={"live": 1}, events=[one], **counts)
    return overview + message("nodes", nodes=[{"node_id": "harbour", "boot": "b", "state": "live"}], departed=[])


async def pieces(way: Line, page: Screen, sent: list[bytes]) -> None:
    way.stream, way.pieces = "pieces", sent
    await page.open("")
    await says(page, "Live")
    await parked(page, 5)


async def test_a_message_may_come_in_pieces(way: Line, page: Screen) -> None:
    """Cut within a letter too, and several in one piece, with comments and lines that end otherwise between."""
    whole = told("Grüße 🦭 né")
    cuts = [0, 3, *(place + 2 for place in range(len(whole)) if whole[place] == 0xF0), len(whole) - 1, len(whole)]
    cut = [whole[one:other] for one, other in itertools.pairwise(cuts)]
    await pieces(way, page, [b"retry: 2000\n\n: a comment\n\n", *cut, message("unknown", a=1)])
    await page.sees("Grüße 🦭 né")


async def test_lines_may_end_as_the_form_allows(way: Line, page: Screen) -> None:
    """With CR and LF, also where a piece ends between the two; and without a blank after the colon."""
    whole = told("as windows does").replace(b"\n", b"\r\n").replace(b"event: ", b"event:")
    place = whole.index(b"\r") + 1
    await pieces(way, page, [b": x\r\n\r\n" + whole[:place], whole[place:]])
    await page.sees("as windows does")


async def test_a_message_that_cannot_be_read_harms_no_other(way: Line, page: Screen) -> None:
    """A router of another release may say more, less, or what is no JSON."""
    odd = b"event: nodes\ndata: {no json\n\n" + message("event") + message("nodes") + message("overview", at=None)
    await pieces(way, page, [odd + told("still here")])
    await page.sees("still here")
    assert "NaN" not in await page.shown()
    await until(lambda: way.paths().count(STREAM) == 1)


async def test_a_flood_of_events_is_drawn_as_it_comes_and_not_kept(way: Line, page: Screen) -> None:
    """An hour's events at once: the last are shown, within seconds, and no more than so many stay in memory."""
    each = {"node_id": "harbour", "kind": "stuck"}
    many = [message("event", id=f"b-{one:05}", at=float(one), text=f"event {one}", **each) for one in range(2, 10_002)]
    flood = [b"".join(many[one : one + 500]) for one in range(0, len(many), 500)]
    started = time.monotonic()
    await pieces(way, page, [told("first"), *flood])
    await page.sees("event 10001")
    assert time.monotonic() - started < 8
    kept = await page.page.evaluate("""async () => {
      const { render, html } = await import("/dashboard/assets/lib/html.js");
      const { useLive } = await import("/dashboard/assets/lib/live.js");
      return new Promise((done) => {
        const Count = () => done(useLive().events.length);
        render(html`<${Count} />`, document.createElement("p"));
      });
    }""")
    assert kept == 200


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_browser_whose_clock_is_wrong_shows_the_right_ages(way: Line, page: Screen, hours: int) -> None:
    """How long ago something was is told by the router's clock, also where nothing has changed there for long."""
    await page.page.clock.set_system_time(time.time() + hours * 3600)
    await page.open("")
    await says(page, "Live")
    ahead = await page.page.evaluate("""async () => {
      const { now } = await import("/dashboard/assets/lib/live.js");
      return now() - Date.now() / 1000;
    }""")
    assert abs(ahead + hours * 3600) < 2


async def test_a_page_that_cannot_be_drawn_leaves_the_others(page: Screen) -> None:
    """It says so; one goes on to another page, and back when the answer is mended."""
    page.expects("null", "undefined")

    async def odd(route: Route) -> None:
        await route.fulfill(json={"failovers": [None], "fenced": 0})

    await page.page.route("**/api/v1/failovers*", odd)
    await page.open("/failovers")
    await page.sees("A fault in this page", "The fleet is not harmed")
    await page.page.get_by_role("link", name="Overview", exact=True).click()
    await page.until("() => document.querySelector('h1').innerText === 'Overview'")
    await page.page.unroute("**/api/v1/failovers*", odd)
    await page.page.get_by_role("link", name="Failovers", exact=True).click()
    await page.sees("From a node's last heartbeat")


_LINKED = """async (cases) => {
  const { render, html } = await import("/dashboard/assets/lib/html.js");
  const { Named } = await import("/dashboard/assets/parts/sentence.js");
  return cases.map(([text, node]) => {
    const whole = document.createElement("p");
    render(html`<${Named} text=${text} node=${node} />`, whole);
    for (const link of whole.querySelectorAll("a")) link.textContent = `[${link.textContent}]`;
    return whole.textContent;
  });
}"""
NAMED = {
    ("node node-10 is gone; it goes on here", "node-1"): "Node node-10 is gone; it goes on here",
    ("node-10 is gone; node-1's lease holds", "node-1"): "Node-10 is gone; [node-1]'s lease holds",
    ("a-node-1, my_node-1, node-1_b and node-1", "node-1"): "A-node-1, my_node-1, node-1_b and [node-1]",
    ("node-1: gone", "node-1"): "[node-1]: gone",
    ("the fleet is whole", ""): "The fleet is whole",
}
"""Texts and the node that each is about, and what is shown, links in brackets."""


async def test_a_node_is_not_found_within_the_name_of_another(page: Screen) -> None:
    await page.open("")
    found = await page.page.evaluate(_LINKED, [*NAMED])
    assert dict(zip(NAMED, found, strict=True)) == NAMED

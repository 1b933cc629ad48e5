"""100,000 calls, and 10,000 that have ended: whatever one does with them is painted within 300 ms of the input.

The law: the worst of a kind counts. Where it is too slow all of the kind is measured again, twice at most: another
process may have had the cores, and a page that is slow is slow each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

import pytest

from framehold_store.base import MAX_EVENTS
from tests.dashboard.crowd import CALLS, Crowd
from tests.dashboard.screen import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.alone, pytest.mark.nightly]

LIMIT = 300.0
"""Milliseconds."""
ROUNDS = 3
ATTEMPTS = 3

_FIRST = """() => document.querySelector("main tbody th a")?.href ?? ''"""
_ANOTHER = """() => {
  const first = document.querySelector("main tbody th a")?.href;
  return first !== undefined && first !== %r && !document.querySelector("main [aria-busy=true]");
}"""
_OF_TOOL = """() => {
  const names = [...document.querySelectorAll("main tbody td[data-name=Tool]")].map((cell) => cell.innerText);
  return names.length > 0 && names.every((name) => name === %r) && !document.querySelector("main [aria-busy=true]");
}"""
_CALL = """() => document.querySelector("h1").innerText.includes(location.pathname.split("/").pop().slice(0, 8))
  && !document.querySelector("main .empty[role=status]")"""

_LONGEST = """async () => {
  let [worst, last] = [0, performance.now()];
  const end = last + 2500;
  while (performance.now() < end) {
    await new Promise((go) => setTimeout(go));
    worst = Math.max(worst, performance.now() - last);
    last = performance.now();
  }
  return worst;
}"""

Act = Callable[[], Awaitable[None]]


async def measured(screen: Screen, act: Act, done: str) -> float:
    """Milliseconds from the input that `act` makes until the page shows what is wanted."""
    painting = await screen.times(done)
    await act()
    return await painting.took()


async def moved(screen: Screen, act: Act) -> float:
    """The same until other calls are listed."""
    return await measured(screen, act, _ANOTHER % await screen.page.evaluate(_FIRST))


async def holds(name: str, measure: Callable[[], Awaitable[list[float]]]) -> None:
    """Whether the worst of what `measure` gives is within the limit."""
    for _ in range(ATTEMPTS):
        spent = await measure()
        print(f"{name}: median {median(spent):.0f} ms, worst {max(spent):.0f} ms")
        if max(spent) < LIMIT:
            return
    pytest.fail(f"{name}: {max(spent):.0f} ms")


def click(screen: Screen, role: str, name: str) -> Act:
    act: Act = screen.page.get_by_role(role, name=name, exact=True).first.click
    return act


async def test_all_are_counted_and_a_page_is_drawn(at_crowd: Screen) -> None:
    """The document stays small, however many there are."""
    await at_crowd.open("/leases")
    await at_crowd.sees(f"{CALLS:,}")
    assert await at_crowd.page.locator("main tbody tr").count() == 100
    assert await at_crowd.page.evaluate("() => document.querySelectorAll('*').length") < 5000


async def test_pages_are_turned(at_crowd: Screen) -> None:
    """On and back, and what comes back is what was there."""

    async def turned(name: str) -> list[float]:
        return [await moved(at_crowd, click(at_crowd, "button", name)) for _ in range(ROUNDS)]

    await at_crowd.open("/leases")
    there = await at_crowd.page.evaluate(_FIRST)
    for name in ("Next page", "Previous page"):
        await turned(name)
    assert await at_crowd.page.evaluate(_FIRST) == there
    await holds("next page", lambda: turned("Next page"))
    for _ in range(ROUNDS):
        await turned("Next page")
    await holds("previous page", lambda: turned("Previous page"))


async def test_they_are_sorted(at_crowd: Screen) -> None:
    """By each order that there is, both ways."""

    async def sorted_anew() -> list[float]:
        await at_crowd.open("/leases")
        spent = []
        for name in ("Age", "Expires in", "Journal"):
            head = at_crowd.page.locator("main th", has_text=name).get_by_role("button")
            spent += [await moved(at_crowd, head.click), await moved(at_crowd, head.click)]
        return spent

    await holds("sort", sorted_anew)


async def test_they_are_filtered_by_a_button(at_crowd: Screen) -> None:
    """The rows are those of that kind."""

    async def filtered() -> list[float]:
        await at_crowd.open("/leases")
        return [
            await moved(at_crowd, click(at_crowd, "button", name))
            for name in ("Running", "All states", "Replayed", "Replayed")
        ]

    await holds("filter by a button", filtered)


async def test_they_are_filtered_by_typing(at_crowd: Screen, many: Crowd) -> None:
    """The rows are those that were asked for, and the address has it; the pause that ends typing counts too."""

    async def typed() -> list[float]:
        await at_crowd.open("/leases")
        field = at_crowd.page.get_by_label("Tool, a part of its name")
        spent = []
        for tool in ("refund", "deploy", "review"):
            spent.append(await measured(at_crowd, partial(field.fill, tool), _OF_TOOL % tool))
            assert f"tool={tool}" in at_crowd.page.url
        return spent

    await holds("filter by typing", typed)
    wanted = sum(row.tool == "review" for rows in many.rows.values() for row in rows)
    await at_crowd.sees(f"{wanted:,}")


async def test_a_call_is_opened(at_crowd: Screen) -> None:
    """And one is back at the list, as it was."""

    async def opened() -> list[float]:
        await at_crowd.open("/leases?sort=began")
        first = await at_crowd.page.evaluate(_FIRST)
        spent = []
        for row in range(ROUNDS):
            link = at_crowd.page.locator("main tbody th a").nth(row)
            spent.append(await measured(at_crowd, link.click, _CALL))
            await at_crowd.page.go_back()
            await at_crowd.settled()
            await at_crowd.until(f"() => ({_FIRST})() === {first!r}")
        return spent

    await holds("open a call", opened)


async def test_it_stays_prompt_while_it_is_followed(at_crowd: Screen) -> None:
    """The overview, with all that it is told each second, blocks no input for long."""
    await at_crowd.open("")

    async def silent() -> list[float]:
        return [await at_crowd.page.evaluate(_LONGEST)]

    await holds("the longest that the overview did not listen", silent)


async def test_ended_calls_are_filtered_sorted_and_turned(at_crowd: Screen) -> None:
    """10,000 of them, each filter with its counts."""

    async def worked_with() -> list[float]:
        await at_crowd.open("/calls")
        field = at_crowd.page.get_by_label("Tool, a part of its name")
        buttons = at_crowd.page.get_by_role("button")
        spent = [await moved(at_crowd, buttons.filter(has_text=name).first.click) for name in ("Failed", "All")]
        spent += [await moved(at_crowd, at_crowd.page.get_by_role("button", name="Next page").first.click)]
        spent += [await moved(at_crowd, buttons.filter(has_text="Took").click)]
        return [*spent, await measured(at_crowd, partial(field.fill, "refund"), _OF_TOOL % "refund")]

    await at_crowd.open("/calls")
    await at_crowd.sees(f"{2 * MAX_EVENTS:,}")
    await holds("ended calls", worked_with)

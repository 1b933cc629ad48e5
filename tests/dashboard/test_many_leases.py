"""100,000 calls, and 10,000 that have ended: whatever one does with them is painted within 300 ms of the input.

The law: the worst of a kind counts. Where it is too slow all of the kind is measured again, twice at most: another
process may have had the cores, and a page that is slow is slow each time.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

import pytest

from framehold_store.base import MAX_EVENTS
from tests.dashboard.crowd import CALLS, Crowd
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.alone, pytest.mark.nightly]

LIMIT = 300.0
"""Milliseconds."""
ROUNDS = 3
ATTEMPTS = 3
FIELD = "Tool, a part of its name"

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


async def moved(screen: Screen, *names: str) -> list[float]:
    """The same of each button in turn, until other calls are listed."""
    spent = []
    for name in names:
        button = screen.page.get_by_role("button", name=re.compile(f"^{name}")).first
        spent.append(await measured(screen, button.click, _ANOTHER % await screen.page.evaluate(_FIRST)))
    return spent


async def typed(screen: Screen, tool: str) -> float:
    """The same of a name of a tool; the pause that ends typing counts too."""
    return await measured(screen, partial(screen.page.get_by_label(FIELD).fill, tool), _OF_TOOL % tool)


async def turned(screen: Screen) -> list[float]:
    return await moved(screen, *["Next page"] * ROUNDS, *["Previous page"] * ROUNDS)


async def sorted_anew(screen: Screen) -> list[float]:
    """By each order that there is, both ways."""
    return await moved(screen, "Age", "Age", "Expires in", "Expires in", "Journal", "Journal")


async def filtered(screen: Screen) -> list[float]:
    spent = await moved(screen, "Running", "All states", "Replayed", "Replayed")
    for tool in ("refund", "deploy", "review"):
        spent.append(await typed(screen, tool))
        assert f"tool={tool}" in screen.page.url
    return spent


async def opened(screen: Screen) -> list[float]:
    """And one is back at the list, as it was."""
    first = await screen.page.evaluate(_FIRST)
    spent = []
    for row in range(ROUNDS):
        spent.append(await measured(screen, screen.page.locator("main tbody th a").nth(row).click, _CALL))
        await screen.page.go_back()
        await screen.settled()
        await screen.until(f"() => ({_FIRST})() === {first!r}")
    return spent


async def worked_with(screen: Screen) -> list[float]:
    """Calls that have ended, each filter with its counts."""
    return [*await moved(screen, "Failed", "All", "Next page", "Took"), await typed(screen, "refund")]


async def followed(screen: Screen) -> list[float]:
    """How long the overview blocks input, with all that it is told each second."""
    return [await screen.page.evaluate(_LONGEST)]


@pytest.mark.parametrize(
    ("path", "act"),
    [
        ("/leases", turned),
        ("/leases", sorted_anew),
        ("/leases", filtered),
        ("/leases?sort=began", opened),
        ("/calls", worked_with),
        ("", followed),
    ],
)
async def test_it_is_painted_in_time(
    at_crowd: Screen, path: str, act: Callable[[Screen], Awaitable[list[float]]]
) -> None:
    for _ in range(ATTEMPTS):
        await at_crowd.open(path)
        spent = await act(at_crowd)
        print(f"{act.__name__}: median {median(spent):.0f} ms, worst {max(spent):.0f} ms")
        if max(spent) < LIMIT:
            return
    pytest.fail(f"{act.__name__}: {max(spent):.0f} ms")


async def test_all_are_counted_and_a_page_is_drawn(at_crowd: Screen, many: Crowd) -> None:
    """The document stays small, however many there are; a filter counts what it lets through."""
    await at_crowd.open("/leases")
    await at_crowd.sees(f"{CALLS:,}")
    assert await at_crowd.page.locator("main tbody tr").count() == 100
    assert await at_crowd.page.evaluate("() => document.querySelectorAll('*').length") < 5000
    await at_crowd.open("/leases?tool=review")
    await at_crowd.sees(f"{sum(row.tool == 'review' for rows in many.rows.values() for row in rows):,}")
    await at_crowd.open("/calls")
    await at_crowd.sees(f"{2 * MAX_EVENTS:,}")

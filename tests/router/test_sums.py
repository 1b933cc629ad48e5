"""Sums over what nodes, leases and the store say: each number is within the bounds of its model, and so is the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framehold_fleet.models.fields import MAX_NUMBER, summed
from framehold_fleet.models.history import Figures, Sample
from framehold_fleet.models.tools import ToolFigures
from framehold_router.collect.departures import _sum
from framehold_router.collect.fleet_log import LostCalls
from framehold_router.collect.open_calls import account
from framehold_router.collect.samples import added, of_fleet, of_several
from tests.router.cast import cast_of, get, said, saying
from tests.router.test_open_calls import NOW, end, logged, node

MOST = MAX_NUMBER


def of_calls(*nodes: Any, **log: Any) -> Any:
    return account(nodes, logged(*log.pop("ends", ()), **log), NOW)


IN_SLOT = Sample(tools={"t": ToolFigures(asked=MOST, took=(MOST,))})
ENDS = (end("b", NOW, orphaned=MOST), end("c", NOW, orphaned=MOST), end("d", NOW, left=True, released=MOST))
LOSSES = tuple(LostCalls(NOW, MOST, boot, "died") for boot in ("b-b", "b-c"))
BUSY = {"parked": MOST, "in_flight": MOST, "asleep": MOST, "released": MOST, "lost_here": MOST}
SUMS: dict[str, Callable[[], Any]] = {
    "held": lambda: of_calls(node("a", **BUSY)).held.count,
    "asleep": lambda: of_calls(node("a", **BUSY), node("b", **BUSY)).asleep.count,
    "handed off": lambda: of_calls(node("a", **BUSY), ends=ENDS).handed_off.count,
    "orphaned": lambda: of_calls(ends=ENDS).orphaned.count,
    "open": lambda: of_calls(ends=ENDS).total,
    "lost": lambda: of_calls(losses=LOSSES).lost_last_hour,
    "lost here": lambda: of_calls(node("a", **BUSY), losses=LOSSES).lost_last_hour,
    "a life's last lease": lambda: _sum(MOST, MOST),
    "parked in a slot": lambda: of_fleet([Figures(parked=MOST)] * 2).parked,
    "rounds in a slot": lambda: of_fleet([Figures(rounds=float(MOST))] * 2).rounds,
    "a tool in several slots": lambda: of_several([IN_SLOT, IN_SLOT]).tools["t"].asked,
    "durations in several slots": lambda: of_several([IN_SLOT, IN_SLOT]).tools["t"].took[0],
    "parked calls of a tool": lambda: added([ToolFigures(parked=MOST)] * 2, summed).parked,
}


@pytest.mark.parametrize("of", SUMS.values(), ids=SUMS)
def test_a_sum_stays_within_the_bounds_of_its_model(of: Callable[[], Any]) -> None:
    assert of() == MOST


TOOL = {"tool": "t", "parked": MOST, "journal": MOST, "oldest": 1.0, "took": [MOST], "expiring": [MOST]}
OF_TOOL = {**TOOL, **dict.fromkeys(("asked", "ended", "failed", "refused", "replays", "diverged"), MOST)}
TOOLS = {"tools": [OF_TOOL], "holders": [{"who": "u", "calls": MOST}], "over_limit": MOST, "boot": "b"}
STATUS = {**BUSY, **dict.fromkeys(("frames", "max_parked", "rss", "memory_limit", "orphaned", "stuck", "fenced"), MOST)}
FAILING = {"ended": MOST, "failed": MOST, "failing": [{"tool": "t", "ended": MOST, "failed": MOST}]}


async def test_every_page_is_shown_where_two_nodes_have_as_much_as_a_number_can_say() -> None:
    async with cast_of() as cast:
        for name in "ab":
            more = {"tools": {**TOOLS, "node_id": name}, "leases": {"items": [], "total": MOST}}
            answers = {f"GET /admin/{path}": saying(answer) for path, answer in more.items()}
            await cast.node(name, saying(said(name, **STATUS, **FAILING)), answers)
        client = await cast.client()
        pages = ("overview", "tools", "waiting", "leases", "capacity", "failovers", "history", "nodes")
        shown = {page: await get(client, f"/api/v1/{page}") for page in pages}
    assert shown["overview"]["parked"] == shown["overview"]["failing"][0]["failed"] == shown["leases"]["total"] == MOST
    assert shown["tools"]["tools"][0]["parked"] == shown["waiting"]["holders"][0]["calls"] == MOST
    assert shown["waiting"]["over_limit"] == shown["failovers"]["fenced"] == MOST

"""A day of operation: after each event `framehold status`, the API, the dashboard, the metrics and the alerts report
what the table of `scenes` wants, and they agree; after the mend they report that all is well."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.fleet.day import alerts
from tests.fleet.day.metrics import Scrape
from tests.fleet.day.scenes import SCENES, Scene, nothing
from tests.fleet.day.stage import SOON, Day
from tests.fleet.day.voices import Voices

# `make test` holds each voice by itself: tests/cli/operate/test_status.py, tests/router/test_attention.py,
# tests/dashboard/test_first_glance.py, tests/router/test_metrics.py and tests/helm/test_alerts.py.
pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.alone, pytest.mark.chart, pytest.mark.nightly]

WELL = Scene("all is well", nothing, nothing)


async def all_report(day: Day, scene: Scene) -> None:
    """Wait until all voices at each router report what a scene wants, at the same moment."""

    def so(one: Voices) -> bool:
        return one.agree and (one.found, one.api.nodes, one.api.store) == (scene.problems, scene.nodes, scene.store)

    end = time.monotonic() + SOON
    while not all(map(so, found := await day.voices())):
        assert time.monotonic() < end, "\n\n".join([scene.name, *map(str, found)])
        await asyncio.sleep(0.2)


async def counted(day: Day, scene: Scene, before: Scrape) -> tuple[Scrape, list[str]]:
    """The metrics of all processes when they count what a scene wants, and what is wrong with them in the end. A router
    reads the store's memory from time to time."""
    end = time.monotonic() + SOON
    while True:
        found = await day.scrape()
        wrong = [each for metric in scene.metrics for each in metric.wrong(before, found)]
        if not wrong or time.monotonic() > end:
            return found, wrong
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
async def test_all_voices_agree(day: Day, scene: Scene, tmp_path: Path) -> None:
    """While it lasts, and when it is mended. Nothing else is reported meanwhile."""
    met = day.traffic.figures
    before = await day.scrape()
    async with day.watched() as seen:
        try:
            await scene.strike(day)
            await all_report(day, scene)
            during, wrong = await counted(day, scene, before)
        finally:
            await scene.mend(day)
            await all_report(day, WELL)
    assert wrong == []
    others = {problem for problem in seen - scene.problems if problem.kind not in scene.passing}
    assert others == set()
    assert not scene.harmless or day.traffic.figures.refused == met.refused
    scrapes = alerts.Scene(before, during, await day.scrape(), scene.lasts)
    found = alerts.wrong(scrapes, scene.alerts, scene.besides, tmp_path)
    assert not found, found

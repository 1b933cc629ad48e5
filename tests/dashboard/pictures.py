"""Takes the pictures of `docs/dashboard.md`: `python -m tests.dashboard.pictures [FOLDER]`.

The law: what is shown is a real fleet as the tests have it, after half a minute of traffic in which a node was killed
and its calls were carried on; by the same browser, with the same checks. The playground is that of `framehold up` with
the booking example, after a kill.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.dashboard.player import Player, playground
from tests.dashboard.stage import LEASE_TTL, NODES, Stage, stage
from tests.kit.browser import Look, Screen, chromium, screen
from tests.kit.processes import ROOT
from tests.kit.redis_server import RedisServer

FOLDER = ROOT / "docs" / "dashboard"
SCHEMES = ("light", "dark")
LARGEST = 150 * 1024
"""Bytes of a picture."""
TRAFFIC = 30.0
"""Seconds of calls before the first picture: charts need something to draw."""

_GO = "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"


async def pictures(made: Stage, folder: Path, traffic: float = TRAFFIC) -> list[Path]:
    """A picture of each page in each scheme."""
    taken: list[Path] = []
    async with chromium() as browser, AsyncExitStack() as stack:
        # What a page draws over time it has gathered since it was opened; a node's page on its own.
        watched = f"/nodes/{NODES[1]}"
        screens: dict[tuple[str, bool], Screen] = {}
        for scheme in SCHEMES:
            for on_node in (False, True):
                opened = await stack.enter_async_context(screen(browser, made.root, Look(scheme)))
                await opened.open(watched if on_node else "")
                screens[scheme, on_node] = opened
        async with busy(made):
            await asyncio.sleep(traffic)
            call = await failover(made)
            pages = {
                "overview": "",
                "ring": "/ring",
                "nodes": "/nodes",
                "node": watched,
                "leases": "/leases",
                "calls": "/calls",
                "tools": "/tools",
                "tool": "/tools/book_trip",
                "capacity": "/capacity",
                "call": f"/calls/{call}",
                "failovers": "/failovers",
            }
            for name, path in pages.items():
                for scheme in SCHEMES:
                    one = screens[scheme, name == "node"]
                    taken.append(await picture(one, path, folder / f"{name}-{scheme}.png"))
    return taken


async def picture(one: Screen, path: str, file: Path) -> Path:
    """Show a page, and keep what is seen of it."""
    if one.page.url != f"{one.root}/dashboard{path}":
        # As one comes there: what was gathered so far stays.
        await one.page.evaluate(_GO, f"/dashboard{path}")
        await one.settled()
    await one.page.screenshot(path=file, animations="disabled", caret="hide")
    assert file.stat().st_size < LARGEST, f"{file} has {file.stat().st_size} bytes"
    return file


async def failover(made: Stage) -> str:
    """Kill a node that holds calls, have their clients come back, and give one of those calls."""
    async with made.another_node() as (name, node):
        held = [await made.parked_at(name, tool) for tool in ("book_trip", "refund", "refund", "sign_contract")]
        first = held[0][0]
        again = [await made.answer("book_trip", held[0][1]), held[1][1]]
        # Its lease says how many calls it has; it is renewed each third of its time.
        await asyncio.sleep(LEASE_TTL / 2)
        node.kill()
        await made.until("ring", lambda result: name not in {one["node_id"] for one in result["nodes"]})
        await made.answer("book_trip", again[0])
        await made.answer("refund", again[1])
        await made.until("overview", lambda result: result["failovers_last_hour"])
        # Until the streams have told it.
        await asyncio.sleep(2.0)
    return first


@asynccontextmanager
async def busy(made: Stage) -> AsyncIterator[None]:
    """Calls come and go meanwhile, and some work."""

    turns = itertools.count()

    async def calls() -> None:
        while True:
            reply = await made.ask("refund")
            await made.work(0.1)
            await asyncio.sleep(0.2)
            await made.answer("refund", await made.answer("refund", reply))
            if next(turns) % 4 == 0:
                await made.answer("pay_invoice", await made.ask("pay_invoice"))
            made.calls.append(("book_trip", await made.ask("book_trip")))
            await asyncio.sleep(1.0)

    task = asyncio.create_task(calls())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def of_the_playground(logs: Path, folder: Path) -> list[Path]:
    """A call of the booking example whose node was killed while it was open, in each scheme."""
    taken: list[Path] = []
    async with chromium() as browser, playground(logs, "framehold.examples.booking") as running:
        for scheme in SCHEMES:
            async with screen(browser, running.url, Look(scheme, 1280, 1000)) as one:
                player = Player(one)
                await player.open("tool", "book")
                await one.page.get_by_label("Restaurant").fill("Luna")
                await player.button("Call").click()
                await player.button("Accept").click()
                await one.sees("there is a choice of tables")
                node = await player.kill()
                await player.button("Accept").click()
                await one.sees("Shall I book it?", within=30)
                await running.hears(f"{node} is back")
                await one.page.locator("section[aria-label=Journal] tbody tr").nth(4).wait_for()
                taken.append(
                    await picture(one, one.page.url.partition("/dashboard")[2], folder / f"playground-{scheme}.png")
                )
    return taken


async def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    redis = RedisServer()
    redis.start()
    try:
        with tempfile.TemporaryDirectory() as logs:
            async with stage(Path(logs), redis) as made:
                for file in [*await pictures(made, folder), *await of_the_playground(Path(logs), folder)]:
                    print(f"{file.stat().st_size // 1024:4d} KiB  {file}")
    finally:
        redis.remove()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("usage: python -m tests.dashboard.pictures [FOLDER]")
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))

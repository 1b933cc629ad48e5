"""`python -m tests.fleet.day [NAME ...]`: plays scenes, each as a day of its own, and writes their rows of the page."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Browser

from tests.fleet.day.night import DAY, lacks
from tests.fleet.day.page import left_out, page, row, rows
from tests.fleet.day.prometheus import prometheus
from tests.fleet.day.recorder import Recorder
from tests.fleet.day.scenes import Scene, nothing
from tests.fleet.day.stage import day, eventually
from tests.kit.browser import chromium

PAGE = Path(__file__).with_name("report.md")
LASTS, LONGER = 60.0, 3.0
"""Seconds for which a scene waits for words, and for which it listens when it has heard all of them."""


async def play(scene: Scene, folder: Path, browser: Browser) -> str:
    """Play one scene; its row."""
    async with day(folder, browser, scene.prepare) as made, prometheus(folder, made.targets()) as root:
        # Rates need something to compare with.
        await asyncio.sleep(LONGER)
        recorder = Recorder(made, scene, root)
        async with recorder.hears():
            with suppress(TimeoutError):
                async with asyncio.timeout(LASTS):
                    await scene.strike(made)
                    while recorder.silent:
                        await asyncio.sleep(1)
                        if scene.lasts:
                            await scene.strike(made)
            await asyncio.sleep(LONGER)
        met = made.traffic.figures
        if scene.mend is not nothing:
            await scene.mend(made)
            await eventually(made.is_well, "a fleet without a problem after the mend")
        return row(scene, recorder.first, recorder.expected, recorder.false, met)


async def attempt(scene: Scene, folder: Path, browser: Browser) -> str:
    """Play one scene; its row, too where it could not be played to its end."""
    try:
        return await play(scene, folder, browser)
    except Exception as error:
        print(f"{scene.name}: {error!r}", file=sys.stderr)
        return left_out(scene, f"**the scene broke off**: {str(error).partition(chr(10))[0][:160]}")


async def run(scenes: list[Scene]) -> None:
    """Play scenes, and write the page after each."""
    for scene in scenes:
        if missing := lacks(scene):
            line = left_out(scene, f"this machine lacks {missing}")
        else:
            async with chromium() as browser:
                with tempfile.TemporaryDirectory(prefix="day-") as folder:
                    line = await attempt(scene, Path(folder), browser)
        print(line, flush=True)
        known = rows(PAGE.read_text()) if PAGE.exists() else {}
        PAGE.write_text(page({**known, scene.name: line}, [one.name for one in DAY]))


def main() -> int:
    """Play what the command line names; 1 if a voice was silent or wrong."""
    names = {scene.name: scene for scene in DAY}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *names], help="which scenes; all of them without one")
    # The clients of this process would log each of their requests.
    logging.disable(logging.INFO)
    chosen = parser.parse_args().names or list(names)
    asyncio.run(run([names[name] for name in chosen]))
    text = rows(PAGE.read_text())
    return int(any("**" in text[name] for name in chosen))


if __name__ == "__main__":
    sys.exit(main())

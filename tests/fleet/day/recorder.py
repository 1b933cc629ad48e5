"""Hears all voices of a day at once: when each says the first true word, and whatever it says that is false.

What is true is what the scene has done; no voice is asked for it. A voice says the true word when it names a problem of
the scene by its kind, its node and its tool; texts (status, doctor, page) when they have the sentence of such a
problem. False is a sentence that the scene forbids, a problem that it has not, and an alert that fires without cause.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from playwright.async_api import Error as BrowserError

from tests.fleet.day.prometheus import alerts
from tests.fleet.day.scenes import Scene
from tests.fleet.day.stage import Day
from tests.fleet.day.voices import invoked, plain
from tests.kit.nodes import KEY
from tests.kit.operators import SHOWN, TOKEN

API, STATUS, DOCTOR, PAGE, ALERTS, LOGS = "API", "status", "doctor", "dashboard", "alerts", "logs"
_PAUSE = 0.3
_BOX = """() => document.querySelector(".attention")?.innerText ?? "" """


class Said(NamedTuple):
    """What a voice said, and when: seconds from the beginning of the fault."""

    at: float
    voice: str
    text: str


class Recorder:
    """Hears the voices of one scene. `after` is the time at which its fault began, on the monotonic clock."""

    def __init__(self, day: Day, scene: Scene, prometheus: str) -> None:
        self._day, self._scene, self._prometheus = day, scene, prometheus
        self._http = httpx2.AsyncClient(timeout=5)
        self.first: dict[str, float] = {}
        """The time of each voice's first true word."""
        self.false: list[Said] = []
        self._true: set[str] = set()
        """The sentences of the scene's problems, as the API has them."""
        self._read = {path: path.stat().st_size for path in self._logs()}
        self._began = time.monotonic()

    @property
    def expected(self) -> set[str]:
        """The voices that the scene wants a word from."""
        wanted = {API, STATUS, DOCTOR, PAGE} if self._scene.problems else set[str]()
        return wanted | ({ALERTS} if self._scene.alerts else set()) | ({LOGS} if self._scene.logged else set())

    @property
    def silent(self) -> set[str]:
        """Those of them that have not said it."""
        return self.expected - self.first.keys()

    @asynccontextmanager
    async def hears(self) -> AsyncIterator[None]:
        """Hear all of them meanwhile."""
        looks = (self._api, self._commands, self._pages, self._alerts, self._written)
        tasks = [asyncio.create_task(self._again(look)) for look in looks]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._http.aclose()

    async def _again(self, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            # A voice that is gone says nothing.
            with suppress(httpx2.HTTPError, BrowserError, OSError):
                await look()
            await asyncio.sleep(_PAUSE)

    def _says(self, voice: str, text: str, *, true: bool = False, false: bool = False) -> None:
        at = time.monotonic() - self._began
        if true:
            self.first.setdefault(voice, at)
        hit = re.search(self._scene.false, text) if self._scene.false else None
        if false or hit:
            said = text if hit is None else text[max(0, hit.start() - 80) : hit.end() + 80]
            if all((voice, said) != known[1:] for known in self.false):
                self.false.append(Said(at, voice, said))

    async def _api(self) -> None:
        for router in self._day.fleet.routers:
            with suppress(httpx2.HTTPError):
                response = await self._http.get(f"{router.root}/api/v1/overview", headers=SHOWN)
                if response.status_code == 200:
                    for one in response.json()["problems"]:
                        self._problem(one)

    def _problem(self, one: dict[str, Any]) -> None:
        true = any(
            (wanted.kind, wanted.tool) == (one["kind"], one["tool"]) and wanted.node in ("", one["node"])
            for wanted in self._scene.problems
        )
        if true:
            self._true.add(plain(one["text"]))
        text = f"{one['kind']}: {one['text']}; {one['next']}"
        self._says(API, text, true=true, false=not true and one["kind"] not in self._scene.passing)

    async def _commands(self) -> None:
        for voice in (STATUS, DOCTOR):
            text = await asyncio.to_thread(self._run, voice)
            self._says(voice, text, true=self._tells(text))

    def _run(self, command: str) -> str:
        env = {**self._day.fleet.common, "FRAMEHOLD_KEYS": KEY, "COLUMNS": "4000"}
        words = [command, "--url", self._day.root, "--token", TOKEN]
        return invoked(words, env).output

    async def _pages(self) -> None:
        for screen in self._day.screens:
            text = await screen.page.evaluate(_BOX)
            self._says(PAGE, text, true=self._tells(text))

    def _tells(self, text: str) -> bool:
        said = plain(text)
        return any(sentence in said for sentence in self._true)

    async def _alerts(self) -> None:
        wanted = {(f"Framehold{one.name}", one.tool, one.instance) for one in self._scene.alerts}
        may = {f"Framehold{name}" for name in self._scene.besides}
        for alert in await alerts(self._http, self._prometheus):
            name, labels = alert["labels"]["alertname"], alert["labels"]
            true = any(
                name == one and tool in ("", labels.get("tool")) and instance in ("", labels.get("instance"))
                for one, tool, instance in wanted
            )
            fires = alert["state"] == "firing" and not true and name not in may
            self._says(ALERTS, f"{name}: {' '.join(alert['annotations'].values())}", true=true, false=fires)

    async def _written(self) -> None:
        for path in self._logs():
            with path.open(errors="replace") as file:
                file.seek(self._read.get(path, 0))
                for line in file:
                    self._says(LOGS, line, true=bool(self._scene.logged and re.search(self._scene.logged, line)))
                self._read[path] = file.tell()

    def _logs(self) -> Iterator[Path]:
        return self._day.fleet.folder.glob("*.log")

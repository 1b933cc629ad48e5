"""Debian's Firefox, driven by WebDriver BiDi, which it speaks by itself: playwright drives only its own build.

The law: as in `screen`. What goes wrong in a page is no less than a failed test.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from tests.dashboard.view import BUSY, TELL_REFUSED, View
from tests.kit.operators import TOKEN
from tests.kit.processes import DEADLINE

_LISTENS = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")
_EVENTS = ("log.entryAdded", "network.responseCompleted", "network.fetchError")
_STOPPED = "NS_BINDING_ABORTED"
"""A request that the page itself gave up."""
_SETTLED = f"() => document.querySelector('h1') && !document.querySelector({json.dumps(BUSY)})"


class Bidi:
    """A session of WebDriver BiDi (https://w3c.github.io/webdriver-bidi/): commands, and events for `view`."""

    def __init__(self, wire: aiohttp.ClientWebSocketResponse) -> None:
        self._wire, self._numbers = wire, itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.view: FirefoxView | None = None
        """Who hears the events."""

    async def do(self, method: str, **params: object) -> dict[str, Any]:
        """Carry out a command, and give back its result."""
        number = next(self._numbers)
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._wire.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(DEADLINE):
            outcome = await reply
        assert outcome["type"] == "success", f"{method}: {outcome}"
        result: dict[str, Any] = outcome["result"]
        return result

    async def read(self) -> None:
        """Hand on what comes, until the browser ends."""
        async for message in self._wire:
            result = json.loads(message.data)
            if result.get("id") in self._waiting:
                self._waiting.pop(result["id"]).set_result(result)
            elif result["type"] == "event" and self.view is not None:
                self.view.heard(result["method"], result["params"])


class FirefoxView(View):
    """A tab of Firefox, at the dashboard of `root`."""

    def __init__(self, bidi: Bidi, context: str, root: str) -> None:
        super().__init__(root)
        self._bidi, self._context = bidi, context

    async def open(self, path: str) -> None:
        url = f"{self.root}/dashboard{path}#token={TOKEN}"
        await self._bidi.do("browsingContext.navigate", context=self._context, url=url, wait="complete")
        await self.until(_SETTLED)

    async def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        await self._bidi.do("browsingContext.setViewport", context=self._context, viewport=size)

    async def evaluate(self, function: str) -> Any:
        expression = f"(async () => JSON.stringify(await ({function})()) ?? 'null')()"
        target = {"context": self._context}
        result = await self._bidi.do("script.evaluate", expression=expression, target=target, awaitPromise=True)
        assert result["type"] == "success", result["exceptionDetails"]["text"]
        return json.loads(result["result"]["value"])

    async def picture(self, file: Path) -> None:
        """Keep what is seen of the page as a PNG."""
        result = await self._bidi.do("browsingContext.captureScreenshot", context=self._context)
        file.write_bytes(base64.b64decode(result["data"]))

    def heard(self, event: str, told: dict[str, Any]) -> None:
        """Note an event of this tab that is a trouble."""
        if told.get("source", told).get("context") != self._context:
            return
        if event == "log.entryAdded":
            if told["level"] in ("error", "warn"):
                self.troubles.append(f"{told['type']}: {told['text']}")
            return
        asked = f"{told['request']['method']} {told['request']['url']}"
        if event == "network.fetchError":
            if told["errorText"] != _STOPPED:
                self.troubles.append(f"failed: {asked}: {told['errorText']}")
        elif told["response"]["status"] >= 400:
            self.troubles.append(f"refused: {told['response']['status']} {asked}")


class Firefox:
    """A running Firefox."""

    def __init__(self, bidi: Bidi) -> None:
        self._bidi = bidi

    @asynccontextmanager
    async def view(self, root: str) -> AsyncIterator[FirefoxView]:
        """A new tab that has shown nothing yet; what went wrong in it is an error at the end."""
        context = (await self._bidi.do("browsingContext.create", type="tab"))["context"]
        made = self._bidi.view = FirefoxView(self._bidi, context, root)
        try:
            yield made
            assert not made.troubles, "\n".join(made.troubles)
        finally:
            self._bidi.view = None
            await self._bidi.do("browsingContext.close", context=context)


@asynccontextmanager
async def firefox(profile: Path, scheme: str) -> AsyncIterator[Firefox]:
    """A browser with a fresh profile in this folder, whose system prefers this colour scheme."""
    preferences = {
        "layout.css.prefers-color-scheme.content-override": int(scheme == "light"),
        "ui.prefersReducedMotion": 1,
    }
    lines = (f"user_pref({json.dumps(name)}, {value});\n" for name, value in preferences.items())
    (profile / "user.js").write_text("".join(lines))
    async with (
        _process(profile) as address,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{address}/session", max_msg_size=0) as wire,
    ):
        bidi = Bidi(wire)
        reading = asyncio.create_task(bidi.read())
        try:
            await bidi.do("session.new", capabilities={})
            await bidi.do("session.subscribe", events=list(_EVENTS))
            await bidi.do("script.addPreloadScript", functionDeclaration=f"() => {{ {TELL_REFUSED} }}")
            yield Firefox(bidi)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


@asynccontextmanager
async def _process(profile: Path) -> AsyncIterator[str]:
    """Firefox without a window; where it listens."""
    binary = shutil.which("firefox-esr") or shutil.which("firefox")
    assert binary, "firefox is not installed: run tests/system_packages.sh (apt-get install firefox-esr)"
    command = (binary, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0")
    # As root in a container there is no user namespace for its sandbox; it shows only pages of our own.
    own = {"HOME": str(profile), "MOZ_DISABLE_CONTENT_SANDBOX": "1"}
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    running = await asyncio.create_subprocess_exec(*command, stdout=none, stderr=pipe, env={**os.environ, **own})
    assert running.stderr is not None
    try:
        async with asyncio.timeout(DEADLINE):
            while not (found := _LISTENS.search(line := await running.stderr.readline())):
                assert line, "Firefox ended before it listened"
        # Its further lines are read and dropped: a full pipe would stop it.
        reading = asyncio.create_task(running.stderr.read())
        try:
            yield found[1].decode()
        finally:
            reading.cancel()
    finally:
        with suppress(ProcessLookupError):
            running.terminate()
        await running.wait()

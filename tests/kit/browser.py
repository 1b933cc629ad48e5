"""Debian's Chromium, and one page in it, of which nothing that goes wrong is overlooked.

The law: a page's errors, what it writes to the console as an error, what its policy refuses, requests that fail and
answers that are refusals fail the test that opened it, but for those that the test expects by name.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from playwright.async_api import Browser, ConsoleMessage, Locator, Page, Request, Response, async_playwright

from tests.dashboard.view import BUSY, SCHEMES, SIZES, TELL_REFUSED, View
from tests.kit.operators import TOKEN

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 8000.0
"""Milliseconds after which what should be shown is not."""
_STOPPED = "net::ERR_ABORTED"
"""A request that the page itself gave up."""
_ECHO = "Failed to load resource"
"""The console tells of each refusal once more, without its address."""
_PAINTED = """async (until) => {
  const [started, kinds] = [{ at: null }, ["pointerup", "keydown", "input", "change"]];
  const note = (event) => { started.at ??= event.timeStamp; };
  for (const kind of kinds) addEventListener(kind, note, { capture: true });
  const done = %s;
  const frame = () => new Promise(requestAnimationFrame);
  const end = performance.now() + 10000;
  window.painted = (async () => {
    while (performance.now() < end) {
      await frame();
      if (started.at !== null && done()) {
        // What comes next is after the frame that shows it.
        await new Promise((go) => setTimeout(go));
        for (const kind of kinds) removeEventListener(kind, note, { capture: true });
        return performance.now() - started.at;
      }
    }
    return null;
  })();
}"""


class Look(NamedTuple):
    """How a page is looked at: the system's colour scheme, and the window's size."""

    scheme: str = "light"
    width: int = 1280
    height: int = 800

    def __str__(self) -> str:
        return f"{self.scheme} {self.width}"


LOOKS = tuple(Look(scheme, *size) for scheme in SCHEMES for size in SIZES)


class Screen(View):
    """A page of a fresh context, at the dashboard of `root`."""

    def __init__(self, page: Page, root: str) -> None:
        super().__init__(root)
        self.page = page
        self._expected: list[str] = []
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("console", self._console)
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    def expects(self, *parts: str) -> None:
        """From now on troubles that contain one of these are none."""
        self._expected += parts

    def unexpected(self) -> list[str]:
        return [one for one in self.troubles if not any(part in one for part in self._expected)]

    async def open(self, path: str, signed_in: bool = True) -> None:
        """Load a page of the dashboard, and wait until it shows what it has."""
        await self.page.goto(f"{self.root}/dashboard{path}" + (f"#token={TOKEN}" if signed_in else ""))
        await self.settled()

    async def resize(self, width: int, height: int) -> None:
        await self.page.set_viewport_size({"width": width, "height": height})

    async def evaluate(self, function: str) -> Any:
        return await self.page.evaluate(function)

    async def settled(self) -> None:
        """Wait until nothing is asked for that the page can't be shown without."""
        await self.page.locator("h1").wait_for()
        for busy in await self.page.locator(BUSY).all():
            await busy.wait_for(state="detached")

    def text(self, words: str, exact: bool = False) -> Locator:
        return self.page.get_by_text(words, exact=exact)

    async def sees(self, *words: str, within: float = 10.0) -> None:
        """Wait until the page's main part has these words."""
        for one in words:
            await self.page.locator("main").get_by_text(one).first.wait_for(timeout=within * 1000)

    async def times(self, done: str) -> Painting:
        """Watch for the next input, and for when the page shows what `done`, a JavaScript function, says."""
        await self.page.evaluate(_PAINTED % done)
        return Painting(self.page)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_ECHO):
            self.troubles.append(f"console: {message.text}")

    def _failed(self, request: Request) -> None:
        if request.failure != _STOPPED:
            self.troubles.append(f"failed: {request.method} {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.troubles.append(f"refused: {response.status} {response.request.method} {response.url}")


class Painting:
    """An input that is awaited, and what it brings about."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def took(self) -> float:
        """Milliseconds from the input until its effect was painted."""
        spent: float | None = await self._page.evaluate("() => window.painted")
        assert spent is not None, "no input came, or it had no effect"
        return spent


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A running browser."""
    binary = shutil.which("chromium")
    assert binary, "chromium is not installed: run tests/system_packages.sh (apt-get install chromium)"
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=binary, args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def screen(browser: Browser, root: str, look: Look | None = None) -> AsyncIterator[Screen]:
    """A page that has shown nothing yet; what went wrong in it is an error at the end."""
    scheme, width, height = look or Look()
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        device_scale_factor=1,
        reduced_motion="reduce",
        timezone_id="UTC",
    )
    try:
        await context.add_init_script(TELL_REFUSED)
        context.set_default_timeout(PATIENCE)
        made = Screen(await context.new_page(), root)
        yield made
        troubles = made.unexpected()
        assert not troubles, "\n".join(troubles)
    finally:
        await context.close()

"""A person in front of the playground: chooses what to call, fills forms, answers questions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Locator

from tests.cli.processes import Up, up
from tests.kit.browser import Screen
from tests.kit.operators import TOKEN

SERVER = "tests/dashboard/asking.py"
NODES = ("node-1", "node-2", "node-3")
LEASE_TTL = 2.0


@asynccontextmanager
async def playground(folder: Path, target: str = SERVER) -> AsyncIterator[Up]:
    """A fleet as `framehold up` runs it, of a server that asks all kinds of questions unless another one is named."""
    own = {"FRAMEHOLD_ADMIN_TOKEN": TOKEN, "FRAMEHOLD_LEASE_TTL": f"{LEASE_TTL:g}"}
    async with up(folder, target, "--port", "0", "--nodes", str(len(NODES)), **own) as running:
        await running.hears("Ctrl-C stops everything.")
        yield running
        assert await running.end() == 0


class Player:
    """Uses the playground on one screen."""

    def __init__(self, screen: Screen) -> None:
        self.screen, self.page = screen, screen.page

    async def open(self, kind: str = "tool", name: str = "") -> None:
        """Load the page with this choice."""
        await self.screen.open(f"/playground?kind={kind}&name={name}")
        await self.button("Call").wait_for()

    async def call(self, name: str, kind: str = "tool") -> None:
        """Load the page, and call something that needs no arguments."""
        await self.open(kind, name)
        await self.button("Call").click()

    def button(self, name: str) -> Locator:
        return self.page.locator("main").get_by_role("button", name=name, exact=True)

    async def asks(self, message: str) -> None:
        """Wait until it asks this."""
        await self.page.locator(".question .message").get_by_text(message, exact=True).wait_for()

    async def accept(self, message: str, word: str) -> None:
        """Answer a question for a word."""
        await self.asks(message)
        question = self.page.locator(".question", has_text=message)
        await question.get_by_label("Word").fill(word)
        await question.get_by_role("button", name="Accept").click()

    async def kill(self) -> str:
        """Kill the node that holds the call, and return its name."""
        button = self.page.locator(".now button.danger")
        node: str = (await button.inner_text()).removeprefix("Kill ")
        await button.click()
        await self.page.get_by_role("dialog").get_by_role("button", name="Kill").click()
        await self.screen.sees(f"You killed {node}")
        return node

    async def ended(self, how: str = "The call has ended", within: float = 15.0) -> str:
        """Wait for the end of the call; all that is said of it."""
        await self.page.locator(".now h2").get_by_text(how, exact=True).wait_for(timeout=within * 1000)
        return str(await self.page.locator(".now").inner_text())

    async def rounds(self) -> list[str]:
        """The lines of all steps of the call."""
        return [" ".join(line.split()) for line in await self.page.locator(".steps > li > .line").all_inner_texts()]

"""A page of the dashboard in any browser: what the tests of every page need of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tests.conformance import node_cache

SCHEMES = ("light", "dark")
SIZES = ((1280, 800), (1920, 1080), (390, 844))
"""Widths and heights of windows: a laptop's, a large screen's and a phone's."""

TELL_REFUSED = (
    "addEventListener('securitypolicyviolation', (one) => console.error('refused by policy', one.violatedDirective))"
)
"""Runs before a page's own scripts: what the content security policy refuses becomes an error of the console."""
BUSY = "[aria-busy=true], main .empty[role=status]"
"""What a page shows while it waits for data without which it can't be shown."""


class View(ABC):
    """A page of the dashboard at `root`. `troubles` has what went wrong in it so far."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.troubles: list[str] = []

    @abstractmethod
    async def open(self, path: str) -> None:
        """Load a page of the dashboard, signed in, and wait until it shows what it has."""

    @abstractmethod
    async def resize(self, width: int, height: int) -> None:
        """Give the window this size in CSS pixels."""

    @abstractmethod
    async def evaluate(self, function: str) -> Any:
        """What this JavaScript function of no parameters returns, in plain values; promises are awaited."""

    async def until(self, done: str, within: float = 10.0) -> None:
        """Wait until a JavaScript function says so; asked anew each 10 ms, by no `eval`. `within` is in seconds."""
        asked = f"""async () => {{
          const [done, end] = [{done}, performance.now() + {within * 1000}];
          while (!done() && performance.now() < end) await new Promise((go) => setTimeout(go, 10));
          return done();
        }}"""
        assert await self.evaluate(asked), f"not within {within:g} s: {done}\n{await self.shown()}"

    async def shown(self) -> str:
        """The text of the page's main part."""
        text: str = await self.evaluate("() => document.querySelector('main')?.innerText ?? ''")
        return text

    async def findings(self) -> list[str]:
        """What axe finds serious or critical: its rule, and the elements."""
        await self.evaluate(f"() => {{ if (!window.axe) {{ {axe()}\n}} }}")
        found: dict[str, Any] = await self.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        return [
            f"{one['id']} ({one['impact']}): {one['help']}: {node['target']} {node['failureSummary']}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


def axe() -> str:
    """The source of axe-core."""
    return (node_cache.ensure(300) / "node_modules" / "axe-core" / "axe.min.js").read_text()

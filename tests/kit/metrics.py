"""What a node's `/metrics` said, and by how much it moved."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.kit.client import Caller

PREFIX = "framehold_"
RESTLESS = ("event_loop_lag_seconds", "event_loop_busy_seconds", 'op="renew"', 'op="register"')
"""What moves by itself."""
MOVED: dict[str, list[str]] = {}
"""By metric, the tests that assert that it moves."""
_seen: set[str] = set()
_last: dict[str, Scrape] = {}


class Scrape:
    """All samples of one scrape by what they are called, without the prefix: `rounds_total{outcome="asked",tool="a"}`.
    `families` are the names that it has, with and without samples; `process` those of the process's own."""

    def __init__(self, text: str) -> None:
        self.samples: dict[str, float] = {}
        self.owners: dict[str, str] = {}
        self.families: set[str] = set()
        self.process: set[str] = set()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name = line.split()[2]
                (self.families if name.startswith(PREFIX) else self.process).add(name.removeprefix(PREFIX))
        for family in text_string_to_metric_families(text):
            owner = f"{family.name}_total" if family.type == "counter" else family.name
            for sample in family.samples:
                output = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
                name = sample.name.removeprefix(PREFIX) + (f"{{{output}}}" if output else "")
                self.samples[name] = sample.value
                self.owners[name] = owner.removeprefix(PREFIX)

    def __getitem__(self, name: str) -> float:
        return self.samples[name]

    def since(self, before: Scrape) -> dict[str, float]:
        """By how much counters, and the counts of histograms, grew; those that did not are left out, and so is what
        moves by itself."""
        grown = {
            name: value - before.samples.get(name, 0.0)
            for name, value in self.samples.items()
            if name.partition("{")[0].endswith(("_total", "_count")) and not any(word in name for word in RESTLESS)
        }
        return {name: by for name, by in grown.items() if by and self.owners[name] in self.families}

    def mean(self, name: str, labels: str = "", before: Scrape | None = None) -> float:
        """Of a histogram: the mean of what it was given since `before`."""
        total, count = (
            self[f"{name}_{part}{labels}"] - (before.samples.get(f"{name}_{part}{labels}", 0.0) if before else 0.0)
            for part in ("sum", "count")
        )
        return total / count


def read(text: str, of: str) -> Scrape:
    """A scrape of the node that is called `of`; what moved since the last one is noted."""
    now = Scrape(text)
    last = _last.get(of)
    if last is not None:
        moved = (name for name, value in now.samples.items() if value != last.samples.get(name, 0.0))
        _seen.update(now.owners[name] for name in moved)
    _last[of] = now
    return now


async def scraped(caller: Caller) -> Scrape:
    """What the caller's node says now."""
    root = caller.url.removesuffix("/mcp")
    async with httpx2.AsyncClient() as http:
        response = await http.get(f"{root}/metrics")
    assert response.status_code == 200 and response.headers["content-type"].startswith("text/plain")
    return read(response.text, root)


Test = Callable[..., Awaitable[None]]


def moves(*names: str) -> Callable[[Test], Test]:
    """A test in which each of these metrics moves between two scrapes of one node."""

    def mark(test: Test) -> Test:
        for name in names:
            MOVED.setdefault(name, []).append(test.__name__)

        @functools.wraps(test)
        async def run(*args: Any, **kwargs: Any) -> None:
            _seen.clear()
            _last.clear()
            await test(*args, **kwargs)
            assert set(names) <= _seen, f"these did not move: {missing(names)}"

        return run

    return mark


def missing(names: Iterable[str]) -> list[str]:
    """Which of them have not moved."""
    return sorted(set(names) - _seen)

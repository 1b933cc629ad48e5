"""The metrics of all processes: scraped, and read by name and labels."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import httpx2
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

PREFIX = "framehold_"
NODE, ROUTER = "node", "router"
"""The jobs."""


class Target(NamedTuple):
    """A process that Prometheus would scrape."""

    job: str
    instance: str


Page = list[Sample] | None
"""The samples of one process; None if it did not answer."""


class Scrape(NamedTuple):
    """One look at all processes, `at` seconds on the monotonic clock."""

    at: float
    pages: Mapping[Target, Page]

    def values(self, job: str, name: str, **labels: str) -> list[float]:
        """For each process of a job that answers: the sum of the series with this name and these labels."""
        return [
            sum(
                sample.value
                for sample in page
                if sample.name == PREFIX + name and labels.items() <= sample.labels.items()
            )
            for target, page in self.pages.items()
            if target.job == job and page is not None
        ]


async def scrape(roots: Mapping[Target, str]) -> Scrape:
    """Look at these processes, by their addresses."""
    async with httpx2.AsyncClient(timeout=10) as http:
        return Scrape(time.monotonic(), {target: await _page(http, root) for target, root in roots.items()})


async def _page(http: httpx2.AsyncClient, root: str) -> Page:
    try:
        response = await http.get(f"{root}/metrics")
    except httpx2.TransportError:
        return None
    assert response.status_code == 200, response.text
    return [sample for family in text_string_to_metric_families(response.text) for sample in family.samples]


class Metric(NamedTuple):
    """What one metric must have done during a scene, over the processes of a job: it `grows` by `value` at least or
    stays `still` in sum, or `is` the value at each process."""

    job: str
    does: str
    name: str
    labels: Mapping[str, str]
    value: float = 0.0

    def __str__(self) -> str:
        named = ",".join(f"{label}={value}" for label, value in self.labels.items())
        return f"{self.job}: {self.name}{{{named}}} {self.does} {self.value:g}"

    def wrong(self, before: Scrape, now: Scrape) -> Iterator[str]:
        """What it did, if that is not so."""
        first, last = (look.values(self.job, self.name, **self.labels) for look in (before, now))
        true = {
            "grows": sum(last) >= sum(first) + self.value,
            "still": sum(last) == sum(first),
            "is": bool(last) and all(value == self.value for value in last),
        }[self.does]
        if not true:
            yield f"{self}: it was {first}, and is {last}"


def grows(job: str, name: str, by: float = 1.0, **labels: str) -> Metric:
    """It counted so much at least."""
    return Metric(job, "grows", name, labels, by)


def still(job: str, name: str, **labels: str) -> Metric:
    """It counted nothing."""
    return Metric(job, "still", name, labels)


def each_is(value: float, job: str, name: str, **labels: str) -> Metric:
    """It has this value at each process that answers."""
    return Metric(job, "is", name, labels, value)

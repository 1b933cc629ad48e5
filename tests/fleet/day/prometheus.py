"""Debian's Prometheus over the processes of a day, with the chart's rules as they are."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2

from framehold_cli.local.ports import free as free_port
from tests.kit.fleet import listens
from tests.kit.processes import DEADLINE, ROOT, Child

RULES = ROOT / "helm" / "framehold" / "alerts" / "framehold.yaml"
NODE, ROUTER = "node", "router"
"""The jobs."""


class Target(NamedTuple):
    """A process that is scraped."""

    job: str
    instance: str


@asynccontextmanager
async def prometheus(folder: Path, roots: Mapping[Target, str]) -> AsyncIterator[str]:
    """It scrapes these processes, by their addresses, and weighs the rules, each second; yields its own address."""
    binary = shutil.which("prometheus")
    assert binary, "prometheus is not installed: run tests/system_packages.sh chart (apt-get install prometheus)"
    jobs = [
        {
            "job_name": f"{target.job}-{target.instance}",
            "metrics_path": f"{urlsplit(root).path}/metrics",
            "static_configs": [
                {
                    "targets": [urlsplit(root).netloc],
                    "labels": {"job": target.job, "instance": target.instance, "namespace": "day"},
                }
            ],
        }
        for target, root in roots.items()
    ]
    often = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    # JSON is YAML.
    config = folder / "prometheus.yaml"
    config.write_text(json.dumps({"global": often, "rule_files": [str(RULES)], "scrape_configs": jobs}))
    port = free_port()
    words = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", "--log.level=warn"]
    child = Child([binary, *words, f"--web.listen-address=127.0.0.1:{port}"], folder / "prometheus.out")
    child.launch()
    try:
        await child.until(lambda: listens(port), "Prometheus's start")
        root = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient() as http, asyncio.timeout(DEADLINE):
            # A rule knows a process as gone only when it has known it before.
            while await _known(http, root) < len(roots):
                await asyncio.sleep(0.2)
        yield root
    finally:
        child.kill()


async def _known(http: httpx2.AsyncClient, root: str) -> int:
    """How many processes it has scraped."""
    found = await http.get(f"{root}/api/v1/query", params={"query": "framehold_build_info"})
    return len(found.json()["data"]["result"]) if found.status_code == 200 else 0


async def alerts(http: httpx2.AsyncClient, root: str) -> list[dict[str, Any]]:
    """The alerts that are pending or firing: state, labels, annotations."""
    found: list[dict[str, Any]] = (await http.get(f"{root}/api/v1/alerts")).json()["data"]["alerts"]
    return found

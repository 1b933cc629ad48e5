"""What the chart tells HAProxy, and its pods."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helm.haproxy.plane import config, pod, program
from tests.kit.fleet import PLANE_KEY
from tests.kit.nodes import KEY
from tests.kit.processes import ROOT

pytestmark = [pytest.mark.chart, pytest.mark.fleet]

EXAMPLE = (ROOT / "examples/haproxy.cfg").read_text()
HERE = re.compile(r"bind|maxconn|server |log |use_backend|default-server resolvers|path /healthz|path /readyz")
"""What is the chart's own: where things are, how many there may be, and how it is probed."""


def section(text: str, name: str) -> list[str]:
    """A section's lines, without comments."""
    blocks = re.split(r"(?m)^(?=\S)", text)
    (found,) = [block for block in blocks if block.startswith(name)]
    lines = [line.strip() for line in found.splitlines()[1:]]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", ["defaults", "frontend mcp", "backend nodes"])
def test_the_chart_says_what_the_example_says(name: str) -> None:
    """But for what is the chart's own."""
    ours, theirs = (
        [line for line in section(text, name) if not HERE.match(line) and not HERE.search(line.partition(" if ")[2])]
        for text in (config({"settings": {"sagas": True}}), EXAMPLE)
    )
    assert ours == theirs and theirs


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"ipFamily": "IPv6", "clusterDomain": "example.org", "settings": {"logLevel": "debug"}},
        {"node": {"replicas": 40}, "haproxy": {"bufferBytes": 262144, "maxConnections": 1000}},
    ],
)
def test_haproxy_accepts_it_without_a_warning(values: dict[str, Any], tmp_path: Path) -> None:
    """Exit code 0, and -c says nothing but that it is valid."""
    (tmp_path / "haproxy.cfg").write_text(config(values))
    command = [program("haproxy"), "-c", "-V", "-f", str(tmp_path / "haproxy.cfg")]
    environment = {"FRAMEHOLD_SECRET": PLANE_KEY}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "Configuration file is valid\n")


def test_a_pod_is_made_anew_when_its_configuration_or_the_keys_change() -> None:
    """And not when something else does."""

    def checksums(**values: Any) -> dict[str, str]:
        found: dict[str, str] = pod({"auth": {"keys": [KEY], "adminToken": "a" * 16}, **values})["metadata"][
            "annotations"
        ]
        return found

    before = checksums()
    assert checksums(router={"replicas": 5}) == before
    longer = checksums(node={"replicas": 5})
    assert {name for name in before if before[name] != longer[name]} == {"checksum/config"}
    rotated = checksums(auth={"keys": [KEY[::-1]], "adminToken": "a" * 16})
    assert {name for name in before if before[name] != rotated[name]} == {"checksum/auth"}

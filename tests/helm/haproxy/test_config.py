"""What the chart tells HAProxy, and its pods."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.fleet import PLANE_KEY
from tests.helm.chart.render import render
from tests.helm.haproxy.plane import config, node_name, pod, program
from tests.node.nodes import KEY
from tests.processes import ROOT

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


def test_no_saga_names_a_call_where_sagas_are_off() -> None:
    """A line that says so is all that differs."""
    (line,) = set(config({"settings": {"sagas": True}}).splitlines()) - set(config().splitlines())
    assert "$.params.sagaToken" in line


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


def test_there_is_a_server_for_each_node_that_there_may_be() -> None:
    """In the order of their numbers, whatever scales them: all HAProxies agree, and a longer list moves few calls."""
    scaled = {"enabled": True, "minReplicas": 3, "maxReplicas": 7}
    for values, count in (({}, 3), ({"replicas": 5}, 5), ({"autoscaling": scaled}, 7)):
        servers = [line.split() for line in section(config({"node": values}), "backend nodes") if "server f" in line]
        names = [node_name(number) for number in range(count)]
        where = [f"{name}.fleet-framehold-node.prod.svc.cluster.local:8080" for name in names]
        assert servers == [["server", *pair] for pair in zip(names, where, strict=True)]


def test_it_listens_and_looks_up_names_by_the_family_of_the_cluster() -> None:
    four, six = config(), config({"ipFamily": "IPv6"})
    assert re.findall(r"bind (\S+)", four) == [":8080", ":8404"] and "resolve-prefer ipv4" in four
    assert re.findall(r"bind (\S+)", six) == ["[::]:8080", "[::]:8404"] and "resolve-prefer ipv6" in six


def test_what_runs_may_end_between_the_sleep_and_the_kill() -> None:
    """Within the grace period, and with 5 s to spare."""
    for values, hard, grace in (
        ({}, 10, 20),
        ({"preStopSeconds": 15}, 10, 30),
        ({"terminationGracePeriodSeconds": 120}, 110, 120),
    ):
        spec = pod({"haproxy": values})["spec"]
        (container,) = spec["containers"]
        (_, slept) = container["lifecycle"]["preStop"]["exec"]["command"]
        assert spec["terminationGracePeriodSeconds"] == grace == int(slept) + hard + 5
        assert f"hard-stop-after {hard}s\n" in config({"haproxy": values})


def test_the_keys_are_in_no_configuration() -> None:
    """That by which HAProxy proves its requests is derived in its pod."""
    auth = {"keys": [KEY]}
    made = render({"auth": auth, "haproxy": {"enabled": True}})
    assert "FRAMEHOLD_SECRET" in config({"auth": auth})
    for one in made.objects:
        assert KEY not in str(one), one["kind"]


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


def test_nodes_wait_until_haproxy_has_asked_them() -> None:
    """Three times as long as it takes between two checks; behind routers, which are told, they don't."""
    found = []
    for enabled in (True, False):
        made = render({"haproxy": {"enabled": enabled}}).one("StatefulSet", "fleet-framehold-node")
        (container,) = made["spec"]["template"]["spec"]["containers"]
        text = {variable["name"]: variable.get("value") for variable in container["env"]}
        found.append(text.get("FRAMEHOLD_DRAIN_AT_LEAST"))
    assert found == ["3", None] and "inter 1s" in config()

"""`helm test`: what its pod calls. The drill "helm test" runs the pod on a cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.helm.chart.render import render, secrets_of

pytestmark = pytest.mark.chart

PROVED = "--prove --api http://fleet-framehold-router"
OWN = {"node": {"source": "mcp = None"}}


@pytest.mark.parametrize(
    ("values", "calls"),
    [
        ({}, f"{PROVED} -- book restaurant=Luna"),
        (OWN, ""),
        ({**OWN, "test": {"tool": "nap", "arguments": ["for=1 h"]}}, f"{PROVED} -- nap for=1 h"),
        ({"node": {"settings": {"strategy": "replay"}}}, "/mcp -- book restaurant=Luna"),
        ({"auth": {"adminTokenKey": ""}}, "/mcp -- book restaurant=Luna"),
        ({"auth": {"adminTokenKey": "", "readTokenKey": "reads"}}, f"{PROVED} -- book restaurant=Luna"),
    ],
)
def test_what_is_called(values: dict[str, object], calls: str) -> None:
    """The example's tool where it is served, one's own where it is named; under replay no record can prove it, and
    without a token no router is asked."""
    (pod,) = render(values).of("Pod")
    _, _, script, *words = pod["spec"]["containers"][0]["command"]
    asks = "until framehold status --url http://fleet-framehold-router || test $? -eq 2; do\n"
    assert (asks in script) == bool(secrets_of(pod["spec"]))
    assert ("framehold call" in script) == bool(calls)
    assert " ".join([script.partition(' "$@"')[0], *words[1:]]).endswith(calls)


@pytest.mark.parametrize(
    ("ends", "code", "looks"),
    [([0], 0, 1), ([2], 0, 1), ([1, 1, 0], 0, 3), ([1, 2], 0, 2), ([1] * 40, 1, 30)],
    ids=["whole", "a warning", "a late policy", "late, then a warning", "out of reach"],
)
def test_it_waits_for_the_router(tmp_path: Path, ends: list[int], code: int, looks: int) -> None:
    """A new pod's connections may be refused for a moment. A fleet whose users are harmed fails it, after half a minute
    of looks."""
    (pod,) = render(OWN).of("Pod")
    log, left = tmp_path / "log", tmp_path / "left"
    left.write_text("".join(f"{end}\n" for end in ends))
    programs = {
        "framehold": f'echo "$@" >> {log}; end=$(head -n 1 {left}); sed -i 1d {left}; exit $end',
        "sleep": "exit 0",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    command = pod["spec"]["containers"][0]["command"]
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False, timeout=30)
    assert (done.returncode, len(log.read_text().splitlines())) == (code, looks)

"""`helm test`: its pod, run in a rehearsed cluster as the chart has it."""

from __future__ import annotations

import pytest

from tests.helm.chart.render import render
from tests.helm.kube.cluster import NAME, Cluster
from tests.helm.kube.rehearsal import Facts, rehearse

PROVED = "--prove --api http://fleet-framehold-router"
OWN = {"node": {"source": "mcp = None"}}


async def run(cluster: Cluster, number: int) -> Facts:
    """The pod of the release as it stands: its exit code, and what it said."""
    (test,) = cluster.release.tests()
    pod = await cluster.start(f"test-{number}", {"spec": test["spec"]})
    await cluster.sees(lambda: pod.code is not None, "the end of the test")
    return {"code": pod.code, "said": pod.log.read_text()}


async def tries(cluster: Cluster) -> Facts:
    """The example; then the same fleet, asked for a tool that nobody has."""
    small = {"node": {"replicas": 2}, "router": {"replicas": 1}}
    await cluster.install(small)
    await cluster.settled()
    example = await run(cluster, 0)
    await cluster.install({**small, "test": {"tool": "nap"}})
    return {"example": example, "nobody's": await run(cluster, 1)}


def test_what_is_well_passes_and_what_is_wrong_fails() -> None:
    """The example's call is carried by one node, and nothing of it runs twice; what can't be called fails the test, in
    words."""
    facts = rehearse(tries)
    example, wrong = facts["example"], facts["nobody's"]
    assert example["code"] == 0 and "2 live" in example["said"], example["said"]
    assert f"proved: 4 rounds, all on {NAME}-node-" in example["said"], example["said"]
    assert wrong["code"] != 0 and "there is no tool 'nap'" in wrong["said"], wrong["said"]


@pytest.mark.parametrize(
    ("values", "calls"),
    [
        ({}, f"{PROVED} -- book restaurant=Luna"),
        (OWN, ""),
        ({**OWN, "test": {"tool": "nap", "arguments": ["for=1 h"]}}, f"{PROVED} -- nap for=1 h"),
        ({"node": {"settings": {"strategy": "replay"}}}, "/mcp -- book restaurant=Luna"),
    ],
)
def test_what_is_called(values: dict[str, object], calls: str) -> None:
    """The example's tool where it is served, one's own where it is named; under replay no record can prove it."""
    (pod,) = render(values).of("Pod")
    _, _, script, *words = pod["spec"]["containers"][0]["command"]
    assert script.startswith("framehold status --url http://fleet-framehold-router || test $? -eq 2\n")
    assert ("framehold call" in script) == bool(calls)
    assert " ".join([script.partition(' "$@"')[0], *words[1:]]).endswith(calls)


def test_answers_arrive_as_they_were_written() -> None:
    """A line each, whatever is in it."""
    answers = ['say "when"', "Zoë", "", "7", "a\\b"]
    (pod,) = render({"test": {"tool": "t", "answers": answers}}).of("Pod")
    (result,) = [one["value"] for one in pod["spec"]["containers"][0]["env"] if one["name"] == "ANSWERS"]
    assert result == "".join(f"{answer}\n" for answer in answers)

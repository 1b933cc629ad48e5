"""The page's `framehold` commands, run in a router's pod of its trial: where `kubectl exec` starts them, and where
`kubectl port-forward` leads those that are typed outside."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from tests.helm.chart.render import render
from tests.helm.docs import page, releases
from tests.helm.kube.cluster import NAME, Cluster
from tests.helm.kube.rehearsal import Facts, rehearse

pytestmark = pytest.mark.chart

ANSWER = "celsius"


def trial() -> page.Values:
    """What the page's first installation says."""
    install = next(command for command in page.commands() if command.words[:2] == ("helm", "install"))
    return releases.values(install)


def _test_pod() -> dict[str, Any]:
    """The pod that the page's `helm test` starts."""
    upgrade = next(command for command in page.commands() if command.words[:2] == ("helm", "upgrade"))
    (pod,) = (each for each in render(releases.values(upgrade)).of("Pod"))
    return {"spec": pod["spec"]}


def typed() -> list[str]:
    """Each command once, as it is typed; what has a node's name behind all that don't."""
    text = {str(command) for command in page.commands() if command.words[0] == "framehold"}
    return sorted(text, key=lambda command: ("drain" in command, command))


async def followed(cluster: Cluster) -> Facts:
    """Install, wait, test, type. What each command ended with, and what all of them said."""
    await cluster.install(trial())
    await cluster.settled()
    router = cluster.pods("router")[0]
    test = await cluster.start("test", _test_pod())
    proved = await test.container().wait()
    codes = {}
    for command in typed():
        named = command.replace("framehold-node", f"{NAME}-node")
        words = ["sh", "-c", f"echo {ANSWER} | {named}"]
        codes[command] = await router.container().run(words, 60)
    text, shown = (pod.log.read_text(errors="replace") for pod in (router, test))
    return {"codes": codes, "said": text, "proved": proved, "shown": shown}


@pytest.fixture(scope="module")
def facts() -> Facts:
    return rehearse(followed)


def test_each_command_is_run_and_says_that_all_is_well(facts: Facts) -> None:
    assert len(facts["codes"]) >= 6
    assert facts["codes"] == dict.fromkeys(typed(), 0), facts["said"]


def test_the_call_of_the_trial_gets_its_answer(facts: Facts) -> None:
    (call,) = (command for command in typed() if "call" in shlex.split(command))
    assert call == "framehold call weather location=Oslo"
    assert f"Oslo: {ANSWER}" in facts["said"]


def test_helm_test_shows_that_one_node_carried_its_call(facts: Facts) -> None:
    assert facts["proved"] == 0, facts["shown"]
    assert f"Oslo: {ANSWER}" in facts["shown"]


def test_an_operator_sees_all_nodes(facts: Facts) -> None:
    for number in range(3):
        assert f"{NAME}-node-{number}" in facts["said"]


def test_a_node_takes_at_its_start_what_the_page_says(facts: Facts) -> None:
    text = re.search(r"some (\d+) MiB at its start", page.text())
    table = facts["said"].partition("MEMORY")[2].partition("PARKED")[0]
    seen = [float(size) for size in re.findall(r"([\d.]+) MiB \(", table)]
    assert text is not None and len(seen) >= 3
    assert seen == pytest.approx([float(text[1])] * len(seen), rel=0.3)

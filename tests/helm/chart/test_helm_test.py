"""`helm test`: what its pod calls. The drill "helm test" runs the pod on a cluster."""

from __future__ import annotations

import pytest

from tests.helm.chart.render import render

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

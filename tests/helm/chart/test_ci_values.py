"""The files of values that installations begin with. Golden files have what each of them makes."""

from __future__ import annotations

import re

import helm_python
import pytest

from framehold_store.config import StoreConfig
from tests.helm.chart.golden import over
from tests.helm.chart.render import CHART, CI, ci, render

pytestmark = pytest.mark.chart


@pytest.mark.parametrize("kind", CI)
def test_helm_finds_nothing_to_criticise(kind: str) -> None:
    """Warnings are faults here; what is left is advice. Its head says for whom it is."""
    assert CI[kind].read_text(encoding="utf-8").startswith("# For ")
    report = helm_python.lint(str(CHART), ci(kind), namespace="prod", strict=True)
    assert report["errors"] == []
    assert [text for text in report["messages"] if text["severity"] > 1] == []


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("production", "haproxy"),
        ("production", "autoscaled"),
        ("haproxy", "autoscaled"),
        ("production", "openshift"),
        ("gitops", "strict"),
    ],
)
def test_those_that_say_so_go_together(lower: str, upper: str) -> None:
    rendered = render(over(ci(lower), ci(upper)))
    assert bool(rendered.of("HorizontalPodAutoscaler")) == (upper == "autoscaled")
    deployments = [made["metadata"]["name"] for made in rendered.of("Deployment")]
    assert ("fleet-framehold-haproxy" in deployments) == ("haproxy" in (lower, upper))


def test_gitops_renders_the_same_each_time() -> None:
    """A sync that finds nothing new changes nothing."""
    assert render(ci("gitops")).objects == render(ci("gitops")).objects


def test_the_url_that_production_is_told_to_keep_is_one() -> None:
    """It stands in the file's head, since it belongs into a Secret."""
    (url,) = re.findall(r"url='([^']+)'", CI["production"].read_text(encoding="utf-8"))
    address = StoreConfig(url=url).address
    assert address is not None
    assert (address.kind, address.tls, len(address.places), address.service) == ("sentinel", True, 3, "mymaster")
    assert "ssl_ca_certs=%2Fetc%2Fframehold%2Fstore-tls%2Fca.crt" in address.server
    render({**ci("production"), "store": {"url": url, "tls": {"caSecret": "redis-ca"}}})

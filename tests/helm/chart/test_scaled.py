"""No release of a scaled fleet asks for fewer nodes than its scaler may: those would be drained at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helm.chart.cluster import Release, cluster
from tests.helm.chart.golden import over
from tests.helm.chart.render import ci, render

pytestmark = pytest.mark.chart

LEAST = 4
SCALED: dict[str, Any] = {
    "node": {"autoscaling": {"enabled": True, "minReplicas": LEAST}},
    "router": {"autoscaling": {"enabled": True, "minReplicas": LEAST}},
}


def test_an_upgrade_keeps_as_many_nodes_as_there_are_and_with_the_values_of_a_revision_too() -> None:
    """This is the way back that the page names."""
    with cluster() as at:
        release = Release(at)
        release.install(SCALED)
        for count in (6, 9):
            at.scale(count)
            release.upgrade({**SCALED, "settings": {"logLevel": "debug"}})
            assert at.replicas() == count
        release.upgrade(release.values(1))
        assert at.replicas() == 9


def test_a_rollback_to_any_revision_leaves_the_least_that_the_scaler_may() -> None:
    """Kubernetes sets 1 where a revision says a number and the next one none."""
    with cluster() as at:
        release = Release(at)
        release.install(SCALED)
        at.scale(9)
        release.upgrade(SCALED)
        for revision in (1, 2):
            release.rollback(revision)
            assert (at.replicas() or 1) >= LEAST, f"revision {revision}"


def test_only_what_renders_without_a_look_again_and_again_leaves_the_number_out() -> None:
    """GitOps would set a number that is rendered at each sync."""
    for values, expected in ((SCALED, LEAST), (over(ci("gitops"), SCALED), None)):
        made = render(values)
        workloads = made.one("StatefulSet", "fleet-framehold-node"), made.one("Deployment", "fleet-framehold-router")
        assert [each["spec"].get("replicas") for each in workloads] == [expected] * 2

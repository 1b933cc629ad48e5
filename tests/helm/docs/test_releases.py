"""What the page does to its release, in its order, by Helm's own SDK and against an API server that keeps objects."""

from __future__ import annotations

import helm_python
import pytest

from tests.helm.chart.cluster import Cluster, cluster
from tests.helm.chart.render import CHART
from tests.helm.docs import page, releases
from tests.helm.docs.page import Command

pytestmark = pytest.mark.chart


class Followed:
    """Somebody who types each `helm` command of the page. `names`: of the Secrets that stood after each."""

    def __init__(self, at: Cluster) -> None:
        self.at = at
        self._config = helm_python.Config(
            kube_apiserver=at.address,
            kube_token="nobody's",
            namespace=page.NAMESPACE,
            storage_driver="memory",
            qps=1000,
            burst_limit=1000,
        )

    def types(self, command: Command) -> None:
        """As it stands there, but that nobody waits for pods: there are none."""
        verb = command.words[1]
        if verb == "install" or ("--install" in command.words and not self.installed()):
            self._config.install(CHART, page.RELEASE, releases.values(command), namespace=page.NAMESPACE)
        elif verb == "upgrade":
            self._config.upgrade(CHART, page.RELEASE, releases.values(command), namespace=page.NAMESPACE)
        elif verb == "history":
            assert len(self._config.history(page.RELEASE)) > 1, "there is nothing to go back to"
        elif verb == "rollback":
            self._config.rollback(page.RELEASE)
        elif verb == "uninstall":
            self._config.uninstall(page.RELEASE)

    def installed(self) -> bool:
        """Whether the release is there."""
        return bool(self.at.objects)


def test_every_release_of_the_page_is_made_changed_and_taken_away() -> None:
    with cluster() as at:
        one = Followed(at)
        for command in page.commands():
            if command.words[0] != "helm" or command.prose:
                continue
            one.types(command)
            assert one.installed() == (command.words[1] != "uninstall"), str(command)

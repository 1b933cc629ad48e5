"""A fleet that runs elsewhere, as the API of its routers shows it.

Law: it reads `GET /api/v1/nodes` and nothing else, so it works wherever `framehold status` does. A node that its router
does not reach is missing in that sample; so are all nodes where the router does not answer.
"""

from __future__ import annotations

import time

from framehold_cli.client.api import ApiClient
from framehold_core.errors import ConfigError
from framehold_fleet.models.nodes import NodesView
from framehold_loadtest.report.series import Sample


class Elsewhere:
    """The fleet whose routers' API is at `url`. `token` is their admin token, or None. Call `close` at
    the end."""

    def __init__(self, url: str, token: str | None) -> None:
        self._api = ApiClient(url, token)

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    def look(self) -> Sample:
        """One sample; an empty one where the router does not answer."""
        try:
            return self.first_look()
        except ConfigError:
            return Sample(time.time())

    def first_look(self) -> Sample:
        """One sample.

        Raises:
            ConfigError: the router does not answer, or wants another admin token; the message says what to do.
        """
        found = self._api.get("nodes", NodesView).view.nodes
        return Sample(
            time.time(),
            parked={node.node_id: node.frames for node in found if node.frames is not None},
            rss={node.node_id: node.rss for node in found if node.rss is not None},
            late={node.node_id: node.loop_lag_p99 for node in found if node.loop_lag_p99 is not None},
        )

"""How a request reaches the node that holds its call."""

from __future__ import annotations

from ..engine.peers import Peers
from .forward import Forward
from .outages import Outages


class NodeRelay:
    """Forwards requests (`forward`), and waits for nodes that are out of reach (`outages`)."""

    def __init__(self, peers: Peers) -> None:
        self.forward = Forward(peers)
        self.outages = Outages(peers.names, self.forward.reaches)

    async def close(self) -> None:
        """Stop waiting, and close the connections to other nodes. Requests that are being forwarded are cut off."""
        await self.outages.close()
        await self.forward.close()

"""The node ids of this process. Each server that is attached in it is a node of its own, and one setting
(FRAMEHOLD_NODE_ID) names them all: so the second one over the same store gets an id that is made from the setting.

`api-1`, `api-1_2`, `api-1_3`: in the order in which the servers start. No name of a pod or of a host has an underscore,
so no other process has such an id.
"""

from __future__ import annotations

from framehold_core.errors import ConfigError
from framehold_core.ids import NodeId, is_node_id

from ..config import Settings

_taken: set[tuple[str | None, str, str]] = set()
"""Store, namespace and id of each node that is open in this process."""


def take(settings: Settings) -> NodeId:
    """The id of a server that starts now, with these settings: the one that they name, unless another server of this
    process has it. A server that shares no store always gets the one that they name.

    Raises:
        ConfigError: the id with its number is too long.
    """
    named, number = settings.node_id, 1
    while settings.store_url is not None and _key(settings, named) in _taken:
        number += 1
        named = f"{settings.node_id}_{number}"
    if not is_node_id(named):
        raise ConfigError(
            f"another server of this process is node {settings.node_id!r}, and {named!r} is too long for the id of "
            "this one; nothing was started; set a shorter FRAMEHOLD_NODE_ID"
        )
    _taken.add(_key(settings, named))
    return NodeId(named)


def give_back(settings: Settings, node: NodeId) -> None:
    """Let the next server have an id that `take` returned."""
    _taken.discard(_key(settings, node))


def _key(settings: Settings, node: str) -> tuple[str | None, str, str]:
    return settings.store_url, settings.namespace, node

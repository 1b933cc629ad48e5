"""The whole key schema, on one page.

    fh:<ns>:{<call>}:r     hash         the record of a call: state, owner, epoch, history (PROTOCOL section 1),
                                       and its trail (scripts/trail.lua)
    fh:<ns>:{<call>}:j     list         its journal: encoded entries, in order; dropped when the call ends
    fh:<ns>:node:<id>      string       a node's lease, with a TTL (scripts/lease.lua has its format)
    fh:<ns>:nodes          sorted set   the names of nodes, scored by the instant when their leases end
    fh:<ns>:changes        channel      a message for each change of the membership: the lease's key; nothing is stored
    fh:<ns>:events         channel      what a node tells all nodes: sealed server events; nothing is stored

The call is the hash tag, so a call's two keys share a slot of a Redis Cluster and calls spread over all of them.

`nodes` exists because a list by SCAN would walk every call's keys to find a handful of leases. It is its own key
without a tag, so it may live on another shard than the leases: no script touches both, and it is only a hint which
leases to look up. A sorted set, because a name is to be forgotten some time after its lease has ended, and a plain
set could only be cleaned by readers, who would race with a node that registers again. Each renewal writes its name
anew.

All keys of a call carry one TTL, set by the same script; `nodes` is trimmed by each renewal. Nothing else is ever
written.
"""

from __future__ import annotations

import re

from framehold_core.errors import ConfigError
from framehold_core.ids import CallId, NodeId, is_call_id, is_node_id

_NAMESPACE = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,62}")
FORGET_MS = 60_000
"""How long `nodes` keeps a name after its lease has ended: longer than a fail-over may bend the server's clock."""


class Keys:
    """The keys of one namespace (1 to 63 letters, digits, `_`, `.` or `-`, the first a letter or digit).

    Raises:
        ConfigError: the namespace can't be part of a key.
    """

    def __init__(self, namespace: str) -> None:
        if _NAMESPACE.fullmatch(namespace) is None:
            raise ConfigError(
                f"FRAMEHOLD_NAMESPACE is {namespace[:80]!r}; it must be 1 to 63 letters, digits, '_', '.' or '-', "
                "the first a letter or digit; nothing was started"
            )
        self._prefix = f"fh:{namespace}:{{"
        self.records = f"{self._prefix}*}}:r"
        """A pattern for the records of all calls, as SCAN matches: a namespace has no character that means more."""
        self._node = f"fh:{namespace}:node:"
        self.nodes = f"fh:{namespace}:nodes"
        self.changes = f"fh:{namespace}:changes"
        self.events = f"fh:{namespace}:events"

    def call(self, call: str) -> tuple[str, str]:
        """Record and journal. Raises ValueError for what is no call id: it never becomes a key."""
        if not is_call_id(call):
            raise ValueError("not a call id")
        tagged = f"{self._prefix}{call}}}"
        return f"{tagged}:r", f"{tagged}:j"

    def call_of(self, record: str) -> CallId:
        """The call whose record a key is. Raises ValueError for what is none."""
        call = record.removeprefix(self._prefix).removesuffix("}:r")
        if not is_call_id(call):
            raise ValueError("not a call's record")
        return CallId(call)

    def node_of(self, lease: str) -> NodeId:
        """The node whose lease a key is. Raises ValueError for what is none."""
        node = lease.removeprefix(self._node)
        if node == lease or not is_node_id(node):
            raise ValueError("not a node's lease")
        return NodeId(node)

    def node(self, node: str) -> str:
        """A node's lease. Raises ValueError for what is no node id."""
        if not is_node_id(node):
            raise ValueError("not a node id")
        return self._node + node

"""The whole key schema, on one page.

    fh:<ns>:{<call>}:r     hash         the record of a call: state, owner, epoch, history (docs/protocol-store.md),
                                       and its trail (scripts/trail.lua)
    fh:<ns>:{<call>}:j     list         its journal: encoded entries, in order; dropped when the call ends
    fh:<ns>:node:<id>      string       a node's lease, with a TTL (scripts/lease.lua has its format)
    fh:<ns>:nodes          sorted set   the names of nodes, scored by the instant when their leases end
    fh:<ns>:code:<digest>  string       the code of a handler, sealed, with a TTL (scripts/keep.lua)
    fh:<ns>:tools          hash         which tools are paused, the ends of processes held against them, and a mark by
                                       which a store that was emptied is known (scripts/version.lua)
    fh:<ns>:changes        channel      a message for each change of the membership: the lease's key; nothing is stored
    fh:<ns>:log            stream       the event log of the fleet, for operators (event_log.py, scripts/append.lua)
    fh:<ns>:ended, fh:<ns>:failed
                           stream       the calls that ended, and those of them that failed, in the same form
    fh:<ns>:routers        stream       what the routers say of themselves, sealed, in the same form
    fh:<ns>:{history}:<step>:<slot>
                           string       the figures of the fleet in one slot of so many seconds, with a TTL (samples.py)
    fh:<ns>:events         channel      messages of a node to all nodes: sealed server events; nothing is stored

The call is the hash tag, so a call's two keys share a slot of a Redis Cluster and calls spread over all of them.

`nodes` exists because a SCAN would walk the keys of all calls to find a few leases. It is a key without a tag, so it
may live on another shard than the leases. No script touches both; the list is only a hint which leases to read. It is
a sorted set because a name must be removed some time after its lease has ended: readers would have to clean a plain
set, and would race with a node that registers again. Each renewal writes the name of its node again.

Somebody else may write anything of any size there, so what a process reads is limited, and measured in the store
first. The constants below say how much; the limits of journals and code are settings. A list or a hash counts 64 bytes
for each of its texts on top of what they have (scripts/size.lua).

All keys of a call carry one TTL, set by the same script; `nodes` is trimmed by each renewal, a stream by each append.
`tools` has no TTL: a paused tool stays paused until it is resumed. Nothing else is ever written.
"""

from __future__ import annotations

import re

from framehold_core.errors import ConfigError
from framehold_core.ids import CallId, NodeId, is_call_id, is_node_id

_DIGEST = re.compile(r"[0-9a-f]{32}")
_NAMESPACE = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,62}")
MAX_RECORD = 8 * 1024 * 1024
"""Bytes of the record of a call, as scripts/size.lua has it too: those of one with 50,000 effects."""
MAX_LEASE = 4096
"""Bytes of a node's lease, as scripts/lease.lua has it too."""
MAX_NAME = 64
"""Bytes of a name on the list of nodes: a longer one is cut, and is then no node's name."""
MAX_TOOLS = 1024 * 1024
"""Bytes of the hash of all tools."""
MAX_EVENT = 16 * 1024
"""Bytes of an entry of a stream."""
MAX_SAMPLE = 64 * 1024
"""Bytes of the figures of one slot."""
MAX_SUMMARY = 16 * 1024
"""Bytes of those fields of a record that a scan reads."""
MAX_KEY = 256
"""Bytes of a key that a scan finds."""
MAX_MESSAGE = 1024 * 1024
"""Bytes of a message on a channel."""
FORGET_MS = 60_000
"""Milliseconds for which `nodes` keeps a name after its lease has ended: longer than a fail-over may move the clock of
the server."""

REPLACED = "what stood at %s was none of this fleet's; it was replaced; check who else writes there"
"""What is logged of a key of another type."""


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
        """The SCAN pattern of the records of all calls. A namespace has no character with a meaning in patterns."""
        self._node = f"fh:{namespace}:node:"
        self._code = f"fh:{namespace}:code:"
        self._history = f"fh:{namespace}:{{history}}:"
        self.nodes = f"fh:{namespace}:nodes"
        self.tools = f"fh:{namespace}:tools"
        self.changes = f"fh:{namespace}:changes"
        self.events = f"fh:{namespace}:events"
        self.log = f"fh:{namespace}:log"
        self.ended = f"fh:{namespace}:ended"
        self.failed = f"fh:{namespace}:failed"
        self.routers = f"fh:{namespace}:routers"

    def call(self, call: str) -> tuple[str, str]:
        """The keys of the record and the journal of a call.

        Raises:
            ValueError: `call` is no call id.
        """
        if not is_call_id(call):
            raise ValueError("not a call id")
        tagged = f"{self._prefix}{call}}}"
        return f"{tagged}:r", f"{tagged}:j"

    def call_of(self, record: str) -> CallId:
        """The call that a record belongs to, by the key of the record.

        Raises:
            ValueError: `record` is not the key of a record in this namespace.
        """
        call = record.removeprefix(self._prefix).removesuffix("}:r")
        if not is_call_id(call):
            raise ValueError("not a call's record")
        return CallId(call)

    def node_of(self, lease: str) -> NodeId:
        """The node that a lease belongs to, by the key of the lease.

        Raises:
            ValueError: `lease` is not the key of a lease in this namespace.
        """
        node = lease.removeprefix(self._node)
        if node == lease or not is_node_id(node):
            raise ValueError("not a node's lease")
        return NodeId(node)

    def code(self, digest: str) -> str:
        """The key of a handler's code.

        Raises:
            ValueError: `digest` is no digest.
        """
        if _DIGEST.fullmatch(digest) is None:
            raise ValueError("not a digest of code")
        return self._code + digest

    def sample(self, step: int, slot: int) -> str:
        """The key of the figures of one slot of `step` seconds. All of them share a slot of a Redis Cluster, so that
        one command reads many."""
        return f"{self._history}{step}:{slot}"

    def node(self, node: str) -> str:
        """The key of a node's lease.

        Raises:
            ValueError: `node` is no node id.
        """
        if not is_node_id(node):
            raise ValueError("not a node id")
        return self._node + node

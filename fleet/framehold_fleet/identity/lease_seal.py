"""The seals of node leases: which leases of a namespace were written by processes with a key of the fleet.

A seal is made over all fields of a lease, with the namespace. So nobody without a key changes one field, moves a lease
to another node or namespace, or makes it last longer. Such a writer can write an old lease again, as long as that has
not ended: docs/protocol-tables.md says what comes of it.

Where there are no keys each lease counts as sealed: only a store in memory has no keys, and only this program writes
there.
"""

from __future__ import annotations

import hmac

from framehold_core.ids import NodeId
from framehold_core.lease import NodeRecord
from framehold_core.value import replace

from .trust import Trust

_MAX_VERIFIED = 10_000


class LeaseSeal:
    """Seals and verifies the leases of one namespace. The first key of `trust` seals, all keys verify."""

    def __init__(self, trust: Trust, namespace: str) -> None:
        self._keys, self._namespace = trust.lease_keys, namespace
        self._verified: dict[NodeId, tuple[NodeRecord, bool]] = {}
        """The last lease of each node, and whether its seal holds: a reader sees most leases more than once."""

    def seal(self, lease: NodeRecord) -> NodeRecord:
        """The lease with its seal; without one where there are no keys."""
        return replace(lease, seal=_mac(self._keys[0], lease, self._namespace)) if self._keys else lease

    def holds(self, lease: NodeRecord) -> bool:
        """Whether a process with a key of the fleet wrote this lease for this namespace. Its end is not looked at."""
        known = self._verified.get(lease.node)
        if known is not None and known[0] == lease:
            return known[1]
        if len(self._verified) >= _MAX_VERIFIED:
            self._verified.clear()
        found = self._is_sealed(lease)
        self._verified[lease.node] = lease, found
        return found

    def _is_sealed(self, lease: NodeRecord) -> bool:
        if not self._keys:
            return bool(lease.boot)
        shown = lease.seal.encode("utf-8", "replace")
        return any(hmac.compare_digest(shown, _mac(key, lease, self._namespace).encode()) for key in self._keys)


def _mac(key: bytes, lease: NodeRecord, namespace: str) -> str:
    return hmac.new(key, lease.statement(namespace), "sha256").hexdigest()[:32]

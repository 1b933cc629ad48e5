"""Who may still write to a store whose memory is limited: the rules by which nodes refuse what would take more.

The law: what is refused is refused before anything is started or taken. A call that exists goes on to its end by small
answers. A call that ended counts no more: only its outcome is left, which is small.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf

from .ids import CallId

KEPT_SHARE = 0.1
"""The share of the store's memory that is kept for calls that exist."""
SMALL = 4096
"""Bytes of answers that a user may give beyond its limit: so that its calls can end."""


def takes_new_calls(used: int, limit: int) -> bool:
    """Whether a store that uses `used` of `limit` bytes has room for calls that do not exist yet."""
    return used < (1 - KEPT_SHARE) * limit


class Journals:
    """What the journals of one node's calls have in the store, in bytes, by user. `limit` is how much those of one user
    may have. All times are in seconds on the node's clock.

    A journal counts as long as the store keeps it. So it counts until its record expires, where the frame of its call
    was dropped here."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: defaultdict[str, dict[CallId, tuple[int, float]]] = defaultdict(dict)
        self._sums: defaultdict[str, int] = defaultdict(int)
        self._next = inf
        """No record expires before."""

    def held(self, user: str | None) -> int:
        """The bytes of this user's journals."""
        return 0 if user is None else self._sums.get(user, 0)

    def keep(self, user: str, call: CallId, size: int, expires: float) -> None:
        """The journal of a call has `size` bytes by now, and its record expires at `expires`."""
        calls = self._held[user]
        self._sums[user] += size - calls.get(call, (0, 0.0))[0]
        calls[call] = (size, expires)
        self._next = min(self._next, expires)

    def drop(self, user: str, call: CallId) -> None:
        """The store has no journal of this call any more, or another node counts it."""
        calls = self._held.get(user, {})
        self._sums[user] -= calls.pop(call, (0, 0.0))[0]
        if not calls:
            self._held.pop(user, None)
            self._sums.pop(user, None)

    def forget_expired(self, now: float) -> None:
        """Count no journal whose record has expired."""
        if now < self._next:
            return
        for user, calls in list(self._held.items()):
            for call in [call for call, (_, expires) in calls.items() if expires <= now]:
                self.drop(user, call)
        self._next = min((expires for calls in self._held.values() for _, expires in calls.values()), default=inf)

    def may_begin(self, user: str | None) -> bool:
        """Whether this user may have one more call that needs the store. Where nobody is authenticated there is no
        user, and no limit of one."""
        return self.held(user) < self.limit

    def may_answer(self, user: str | None, size: int) -> bool:
        """Whether answers of `size` bytes may be taken from this user. Small ones are taken until it has twice its
        limit."""
        after = self.held(user) + size
        return user is None or after <= self.limit or (size <= SMALL and after <= 2 * self.limit)

    def may_go_on(self, user: str | None) -> bool:
        """Whether a call of this user may ask or run an effect: not when its journals have twice the limit."""
        return self.held(user) < 2 * self.limit

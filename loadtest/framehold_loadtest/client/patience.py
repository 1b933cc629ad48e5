"""When a client sends a refused round again, as a patient official client does. Pure: time is an input.

Law: only a round with a token is sent again, because the server answers it as one round, however often it arrives.
Round 1 has no token: a client can't know whether it ran, so it is not sent again.
"""

from __future__ import annotations

from framehold_loadtest.client.rounds import Refused, Reply

PATIENCE = 30.0
"""Seconds from a round's first try until its last."""
_FIRST, _MOST = 0.2, 2.0


class Patience:
    """The waits of one round."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._seconds, self._pause = seconds, _FIRST

    def next(self, number: int, reply: Reply, gone: float, retry_after: str = "") -> float | None:
        """Seconds until round `number` is sent again that got this reply, `gone` seconds after its first try; None
        where it is over."""
        if number == 1 or not isinstance(reply, Refused) or not reply.again:
            return None
        asked = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
        wait = max(self._pause, asked)
        self._pause = min(self._pause * 2, _MOST)
        return wait if gone + wait <= self._seconds else None

"""Messages whose head came before on the same connection: they are recognised by their bytes, and not parsed again.

The promise on which this rests: a parser that has read a whole message, and then gets the same bytes as a whole message
again, reads the same. So a message is taken only if its bytes are those of one of the last messages that were parsed on
the connection, except for the digits of its length, the id of a new call, and its body; and only if it came in one
read, with as many bytes of body as these digits say, and nothing behind them. Every other message goes to the parser.

A router sends the id of a new call in the line behind the length. That line may be there or not.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ..headers import CALL_ID

KEPT = 3
"""Heads that are kept for each connection: a client calls several tools, and a node's responses differ by route."""
PATIENCE = 8
"""Messages in a row that were not recognised, after which only each PATIENCE-th head is kept: on some connections no
head is repeated."""
MAX_HEAD = 4096
"""The longest head in bytes that is kept."""

_LENGTH = b"\r\ncontent-length: "
_CALL = b"\r\n" + CALL_ID + b": "
_CALL_BYTES = 32
"""Letters and digits of an id that a router has made."""
_DIGITS = 10
"""Bytes in which the digits of a length and the end of their line are looked for."""

Head = TypeVar("Head")


class Repeated(Generic[Head]):
    """The heads that were parsed last on one connection: the bytes before and after the digits of the length, and what
    was read."""

    __slots__ = ("_heads", "_missed")

    def __init__(self) -> None:
        self._missed = 0
        self._heads: tuple[tuple[bytes, bytes, Head], ...] = ()

    def find(self, data: bytes) -> tuple[Head, bytes, bytes] | None:
        """Head, body and the value of CALL_ID (empty: it has none) if `data` is exactly one message with a head that is
        kept; else None."""
        for before, after, head in self._heads:
            if data.startswith(before):
                start = len(before)
                end = data.find(b"\r", start, start + _DIGITS)
                if end > 0:
                    call = _call(data, end)
                    rest = end + len(_CALL) + _CALL_BYTES if call else end
                    if data.startswith(after, rest):
                        body = data[rest + len(after) :]
                        if data[start:end] == b"%d" % len(body):
                            self._missed = 0
                            return head, body, call
        self._missed += 1
        return None

    def keep(self, data: bytes, begin: bytes, size: int, head: Head) -> None:
        """Keep the head of the message `data`. A parser has read exactly one message from `data`, with one length, no
        transfer coding, and a body of `size` bytes; `begin` are the first bytes of its own head. Nothing is kept if the
        head is too long, if its length is not written as most programs write it, if CALL_ID stands elsewhere than
        behind it, or after many messages in vain."""
        if self._missed > PATIENCE and self._missed % PATIENCE:
            return
        end = len(data) - size
        if end > MAX_HEAD or not data.startswith(begin):
            return
        lower, digits = data[:end].lower(), b"%d" % size
        at = lower.find(_LENGTH)
        start = at + len(_LENGTH)
        after = start + len(digits)
        if at < 0 or lower.find(_LENGTH, start) >= 0 or not lower.startswith(digits + b"\r", start):
            return
        if _call(data, after):
            after += len(_CALL) + _CALL_BYTES
        if data.startswith(b"\r", after) and CALL_ID not in lower[:start] + lower[after:]:
            self._heads = ((data[:start], data[after:end], head), *self._heads[: KEPT - 1])

    def forget(self) -> None:
        """Keep no head any more."""
        self._heads = ()


def _call(data: bytes, at: int) -> bytes:
    """The id of a new call, if the line of it that a router writes begins at `at`; else empty."""
    if not data.startswith(_CALL, at):
        return b""
    call = data[at + len(_CALL) : at + len(_CALL) + _CALL_BYTES]
    return call if len(call) == _CALL_BYTES and call.isalnum() else b""

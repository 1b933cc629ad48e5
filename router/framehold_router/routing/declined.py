"""Responses by which nodes declined a new call (docs/protocol.md, rule 9).

A node that takes no new call at present proves in its response that nothing was started. The response is kept until it
is known whether another node takes the call. If none does, the client gets the last one.
"""

from __future__ import annotations

import re

from framehold_fleet.headers import NOT_TAKEN
from framehold_fleet.http_client.response_head import ResponseHead
from framehold_fleet.identity.statements import Statements

from .placement import Placement

FURTHER = 2
"""How many further nodes a new call is sent to after a node has declined it."""
_RETRY_AFTER = re.compile(rb"(?m)^retry-after: *(?:([0-9]{1,9})|[^\r\n]*)\r\n")


def proves_not_taken(head: ResponseHead, placement: Placement, statements: Statements) -> bool:
    """Whether a response proves that its node started nothing of the call whose id this router made."""
    proof = next((value for name, value in head.headers if name == NOT_TAKEN), b"")
    call = placement.call
    return (
        bool(proof) and call is not None and any(statements.is_not_taken(proof, boot, call) for boot in placement.boots)
    )


class DeclinedResponse:
    """The response of the node that declined a call last. `count` is how many nodes have declined it, `wait` the
    smallest Retry-After of them all, in seconds, `is_whole` whether the body is complete. `lines` and `length` are as
    for `Response.begin`."""

    __slots__ = ("body", "count", "is_whole", "lines", "wait")

    def __init__(self, lines: bytes, before: DeclinedResponse | None) -> None:
        self.count: int = 1 if before is None else before.count + 1
        self.body = b""
        self.is_whole = False
        found = _RETRY_AFTER.search(lines)
        wait = int(found[1] or 1) if found is not None else 1
        self.wait: int = wait if before is None else min(wait, before.wait)
        self.lines = b"%bretry-after: %d\r\n" % (_RETRY_AFTER.sub(b"", lines), self.wait)

    @property
    def length(self) -> bytes:
        return b"%d" % len(self.body)

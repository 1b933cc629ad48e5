"""Requests as tests write them: a history is the list of its entries, everything else has a default."""

import secrets

import pytest

from framehold_core import journal
from framehold_core.ending import Ending, How
from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_core.requests import (
    Answered,
    Batch,
    Claim,
    Commit,
    Done,
    Evidence,
    Fence,
    Finish,
    Head,
    Heal,
    Intent,
    Read,
    Release,
    Reply,
    Result,
    Seen,
    Stored,
    Verify,
)
from framehold_core.value import replace

TTL = 600.0
HEAD = Head(Boot("boot-1"), True, "weather", "code-1", "tools/call", 'weather é"\\\n', "args", "", "hold")
RAISED = Ending(How.TOOL_ERROR, "shop.NoStock\u00e9", "shop:refund:41")
PLAIN = Head(Boot("boot-1"), False, "weather", "code-1", "tools/call", "weather", "args", "alice", "hold")
Entries = tuple[bytes, ...]


def new_call() -> CallId:
    return CallId(secrets.token_hex(16))


def batch(before: Entries, *entries: bytes) -> Batch:
    """`entries` after the history `before`."""
    return Batch(entries, journal.chain(journal.chain(journal.GENESIS, before), entries))


def fence(round_: int, n: int, epoch: int = 1, owner: str = "node-1", inc: str = "inc-1") -> Fence:
    return Fence(NodeId(owner), Incarnation(inc), epoch, round_, n)


def answers(round_: int, digest: str = "yes", keys: tuple[str, ...] = ("k1", 'k"2')) -> Answered:
    return Answered(round_, digest, keys)


E0, E1, E2, E3 = (bytes([0, 255, 13, 10, number]) for number in range(4))
"""Entries that would break on any text codec."""


class Story:
    """One call, told in requests. The comments give round, position and epoch after each."""

    def __init__(self, head: Head = HEAD) -> None:
        self.call = new_call()
        self.head = head
        self.read = Read(self.call)
        self.ask = Commit(self.call, fence(0, 0), batch((), E0), TTL, None, head)  # 1, 1, 1
        self.ask_again = Commit(self.call, fence(1, 1), batch((E0,), E1), TTL, answers(1), head)  # 2, 2, 1
        self.first_intent = Intent(self.call, fence(0, 0), batch((), E0), TTL, "once", None, head)  # 0, 1, 1
        self.intent = Intent(self.call, fence(1, 1), batch((E0,), E1, E2), TTL, "once", answers(1), head)  # 1, 3, 1
        self.result = Result(self.call, fence(1, 3), batch((E0, E1, E2), E3), TTL, results=(Done("once"),))  # 1, 4, 1
        done = (Done("once", intended=False),)
        self.first_result = Result(self.call, fence(0, 0), batch((), E0), TTL, None, head, done)  # 0, 1, 1
        self.finish = Finish(self.call, fence(1, 1), b"\x00out\xff", RAISED, TTL, answers(1))  # done
        self.release = Release(self.call, fence(1, 1), TTL)  # 1, 1, 1, nobody's
        self.verify = Verify(self.call, fence(1, 1), Incarnation("inc-2"), TTL)  # 1, 1, 2
        self.claim = self.claims(Seen(1, "node-1", "inc-1"), Evidence.GONE)  # 1, 1, 2, node-2's
        self.take = self.claims(Seen(1, "", ""), Evidence.RELEASED)  # the same after a release

    def claims(self, seen: Seen, evidence: Evidence, owner: str = "node-2", **other: object) -> Claim:
        fields: dict[str, object] = {
            "reentrant": True,
            "max_attempts": 5,
            "ttl": TTL,
            "incarnation": "inc-9",
            "boot": "boot-9",
        }
        return Claim(self.call, seen, evidence, NodeId(owner), **(fields | other))  # type: ignore[arg-type]  # fields of a claim

    def heals(self, seen: Seen | None, claim: Fence, *entries: bytes) -> Heal:
        learned = (answers(1), answers(2, "no", ()))
        return Heal(
            self.call, claim, seen, batch((), *entries), learned, (("once", True), ("two", False)), self.head, TTL
        )


def assert_alike(reply: Reply, expected: Reply) -> None:
    """Two stores have answered alike: all but the instants, and those within two seconds."""
    assert _timeless(reply) == _timeless(expected)
    if reply.stored and expected.stored:
        mine, other = reply.stored.record, expected.stored.record
        instants = [[record.created, record.expires, *(step.at for step in record.trail)] for record in (mine, other)]
        assert instants[0] == pytest.approx(instants[1], abs=2.0)


def _timeless(reply: Reply) -> Reply:
    if reply.stored is None:
        return reply
    record = reply.stored.record
    trail = tuple(replace(step, at=0.0) for step in record.trail)
    return replace(reply, stored=Stored(replace(record, created=0.0, expires=0.0, trail=trail), reply.stored.journal))

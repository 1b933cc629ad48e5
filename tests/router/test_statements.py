"""What processes of a fleet state to each other: for one process, one connection and one minute, and what is not."""

from __future__ import annotations

import pytest

from framehold_core.ids import Boot
from framehold_fleet.identity.plane import WINDOW
from framehold_fleet.identity.statements import MAX_KNOWN, Introduced, Role, Statements
from framehold_fleet.identity.trust import Trust

OLD, NEW, OTHER = (Trust([key * 32]).statements for key in (b"o", b"n", b"x"))
BOTH = Trust([b"n" * 32, b"o" * 32]).statements
NOW = 1_700_000_000.0
A = Introduced(Boot("a"), "10.0.0.1:40000")


def shown(of: Statements = OLD, role: Role = Role.ROUTER, to: Introduced = A, at: float = NOW) -> bytes:
    return of.stating(role, to, lambda: at)().partition(b": ")[2].strip()


def judged(value: bytes, by: Statements = OLD, boot: str = "a", peer: str = A.peer, now: float = NOW) -> Role | None:
    return by.role(value, (boot,), peer, now)


@pytest.mark.parametrize("role", [Role.ROUTER, Role.NODE, Role.ADMIN])
def test_a_statement_proves_its_role(role: Role) -> None:
    for by in (OLD, BOTH, OLD):
        assert judged(shown(role=role), by) is role


def test_a_statement_is_for_one_process_one_connection_and_one_minute() -> None:
    for by in (OLD, Trust([b"o" * 32]).statements):
        assert judged(shown(), by, now=NOW + WINDOW + 1) is judged(shown(at=NOW + WINDOW + 1), by) is None
        assert judged(shown(), by, boot="b") is None
        assert judged(shown(), by, peer="10.0.0.1:40001") is judged(shown(), by, peer="10.0.0.2:40000") is None
        assert judged(shown(), by) is Role.ROUTER
    assert judged(shown(), NEW) is judged(shown(OTHER), BOTH) is judged(shown(), Trust(()).statements) is None


def test_each_part_of_a_statement_counts() -> None:
    version, role, at, mac = shown().split(b".")
    others = [
        (b"v2", role, at, mac), (version, b"admin", at, mac), (version, b"node", at, mac), (version, b"", at, mac),
        (version, role, b"%d" % (NOW + 1), mac), (version, role, b"0" + at, mac), (version, role, b"-1", mac),
        (version, role, b"9" * 400, mac), (version, role, at, mac[::-1]), (version, role, at, mac[:-1]),
        (version, role, at, b""), (version, role, at, mac, b""), (version, role, at), (role,), (b"\xff",) * 4, (),
    ]  # fmt: skip
    assert {judged(b".".join(parts)) for parts in others} == {None}


def test_what_is_known_is_bounded_and_ends() -> None:
    """A statement that was believed is not believed longer, and senders of any number take no more room."""
    by = Trust([b"o" * 32]).statements
    for number in range(MAX_KNOWN + 10):
        to = Introduced(A.boot, f"10.0.0.1:{number}")
        assert judged(shown(to=to), by, peer=to.peer) is Role.ROUTER
    assert len(by._known) <= MAX_KNOWN
    last = shown(to=to)
    assert judged(last, by, peer=to.peer, now=NOW + WINDOW) is Role.ROUTER
    assert judged(last, by, peer=to.peer, now=NOW + WINDOW + 1) is None


def test_a_receiver_proves_the_boot_that_is_asked_for() -> None:
    """If it is one of its process; any other is no proof for who asks, and neither is an answer to another question."""
    answer = OLD.answer(b"nonce.a", ("b", "a"), A.peer) or b""
    assert OLD.introduced(answer, "nonce", (A.boot,)) == BOTH.introduced(answer, "nonce", ()) == A
    other = OLD.answer(b"nonce.a", ("c",), A.peer) or b""
    assert OLD.introduced(other, "nonce", (A.boot,)) is None
    assert OLD.introduced(other, "nonce", ()) == Introduced(Boot("c"), A.peer)
    changed = answer[::-1], answer[:-1], answer.replace(b".a.", b".b.")
    for wrong in (*changed, b"", b"v1", b"v1..", b"\xff.\xff.\xff.\xff"):
        assert OLD.introduced(wrong, "nonce", ()) is None
    assert OLD.introduced(answer, "another", ()) is NEW.introduced(answer, "nonce", ()) is None
    assert Trust(()).statements.answer(b"nonce.a", ("a",), A.peer) is None


def test_a_receivers_answer_is_no_senders_statement() -> None:
    """Nor the other way round, nor what a node says of a call."""
    mac = (OLD.answer(b"nonce.a", ("a",), A.peer) or b"").split(b".")[1]
    assert judged(b"v1.admin.%d.%b" % (NOW, mac)) is None
    assert not OLD.is_not_taken(mac, "a", "nonce")
    assert judged(b"v1.admin.%d.%b" % (NOW, OLD.not_taken("a", "call"))) is None

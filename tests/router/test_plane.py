"""What a load balancer that computes a keyed hash proves to nodes, and they to it."""

from __future__ import annotations

import pytest

from framehold_fleet.identity import plane

KEY, OLD, OTHER = (plane.key_of(bytes([number]) * 32) for number in range(3))
CALL = b"8c1c7a7e-2b0e-4b62-9b0f-0d6a4a3e2f11"
NOW = 1_800_000_000.4
SAID = (b"POST", b"/mcp", CALL)
NONCE = "A" * 64


@pytest.mark.parametrize("key", [KEY, OLD], ids=["first", "old"])
def test_a_proof_of_any_key_of_the_fleet_holds(key: bytes) -> None:
    made = plane.proof(key, *SAID, NOW)
    for off in (-plane.WINDOW + 1, 0, plane.WINDOW - 1):
        assert plane.is_proved((KEY, OLD), made, *SAID, NOW + off)
    assert plane.is_proved((KEY, OLD), made.lower(), *SAID, NOW)


@pytest.mark.parametrize("part", range(3))
def test_a_proof_holds_for_its_request_alone(part: int) -> None:
    made = plane.proof(KEY, *SAID, NOW)
    for other in (b"GET", b"/admin", b"", b"/mcp/", SAID[(part + 1) % 3]):
        method, path, call = (other if index == part else said for index, said in enumerate(SAID))
        assert not plane.is_proved((KEY,), made, method, path, call, NOW)
    joined = plane.proof(KEY, b"POST", b"/mcp", b"", NOW)
    assert not plane.is_proved((KEY,), joined, b"POST", b"/", b"mcp", NOW), "parts that join to the same text"


@pytest.mark.parametrize("off", [-plane.WINDOW - 1, plane.WINDOW + 1])
def test_a_proof_ends(off: int) -> None:
    assert not plane.is_proved((KEY,), plane.proof(KEY, *SAID, NOW), *SAID, NOW + off)


def test_whatever_was_altered_proves_nothing() -> None:
    made = plane.proof(KEY, *SAID, NOW)
    for index in range(len(made)):
        altered = bytearray(made)
        altered[index] ^= 1
        assert not plane.is_proved((KEY,), bytes(altered), *SAID, NOW)
    answered = plane.answer((KEY,), NONCE, "node-1")
    assert answered is not None
    longer = made + b"0", made + b"\n", made + b"," + made
    for value in (b"", made[:-1], *longer, made.replace(b".", b".+", 2), answered):
        assert not plane.is_proved((KEY,), value, *SAID, NOW)
    assert not plane.is_proved((OTHER,), made, *SAID, NOW) and not plane.is_proved((), made, *SAID, NOW)


def test_a_node_answers_with_each_key_for_its_own_name() -> None:
    """So a load balancer with the first key or an old one knows it, and no other node's answer is taken for its own."""
    found = plane.answer((KEY, OLD), NONCE, "node-1")
    assert found is not None
    first, second = found.split(b", ")
    assert (first, second) == tuple(plane.answer((key,), NONCE, "node-1") for key in (KEY, OLD))
    assert not {first, second} & {
        plane.answer((KEY,), NONCE, "node-2"), plane.answer((KEY,), "B" * 64, "node-1"),
        plane.answer((OTHER,), NONCE, "node-1"),
    }  # fmt: skip


@pytest.mark.parametrize("nonce", ["", "A" * 15, "A" * 129, "A" * 15 + "\n", "A" * 16 + "\n", "A" * 16 + ".", "é" * 16])
def test_what_is_no_nonce_is_not_answered(nonce: str) -> None:
    assert plane.answer((KEY,), nonce, "node-1") is None


def test_the_key_of_load_balancers_is_not_the_wire_key() -> None:
    """Who has it derives no other key, and it is what HAProxy's `hmac` takes: base64."""
    assert plane.key_of(b"w" * 32) != b"w" * 32 and len(plane.key_of(b"w" * 32)) == 32
    assert plane.shown(bytes(32)) == "A" * 43 + "="

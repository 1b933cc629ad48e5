"""What is sealed for one purpose and place opens there and nowhere else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core.errors import ConfigError, SealError
from framehold_core.ids import Boot, CallId
from framehold_core.journal import digest
from framehold_core.requests import Head
from framehold_core.value import replace
from framehold_store.seal import Sealer

OLD, NEW = b"o" * 32, b"n" * 40
PLACE: dict[str, Any] = {"call": "c" * 32, "n": 3, "kind": "answer", "key": "units"}


def test_a_value_comes_back() -> None:
    """Empty and binary values too; one value is never sealed twice to the same bytes."""
    sealer = Sealer([NEW], "ns")
    for value in (b"", b"\x00\xff", b"x" * 100_000):
        blob = sealer.seal("answer", value, **PLACE)
        assert sealer.open("answer", blob, **PLACE) == value
        assert blob != sealer.seal("answer", value, **PLACE)
        assert len(blob) == len(value) + 33


@pytest.mark.parametrize(
    "other", [{"call": "d" * 32}, {"n": 4}, {"n": -3}, {"kind": "result"}, {"key": "unit"}, {"call": "c" * 31}]
)
def test_a_value_can_not_be_moved(other: dict[str, Any]) -> None:
    sealer = Sealer([NEW], "ns")
    with pytest.raises(SealError, match="altered or moved"):
        sealer.open("answer", sealer.seal("answer", b"v", **PLACE), **(PLACE | other))


def test_a_value_stays_in_its_purpose_and_namespace() -> None:
    blob = Sealer([NEW], "ns").seal("answer", b"v", **PLACE)
    with pytest.raises(SealError):
        Sealer([NEW], "ns").open("outcome", blob, **PLACE)
    with pytest.raises(SealError):
        Sealer([NEW], "ns2").open("answer", blob, **PLACE)


@given(*[st.tuples(st.text(), st.text(max_size=40), st.integers(), st.text(), st.text())] * 2)
def test_no_two_places_read_alike(one: Any, two: Any) -> None:
    def where(place: Any) -> bytes:
        namespace, call, n, kind, key = place
        return Sealer([NEW], namespace)._where(call, n, kind, key)

    assert (where(one) == where(two)) == (one == two)


@pytest.mark.parametrize("at", [0, 1, 4, 5, 16, 17, 32, -1])
def test_an_altered_or_missing_byte_is_seen(at: int) -> None:
    """Version, key id, nonce, text and tag alike."""
    sealer = Sealer([NEW], "ns")
    blob = sealer.seal("answer", b"value", **PLACE)
    changed = bytearray(blob)
    changed[at] ^= 1
    for wrong in (bytes(changed), blob[:at]):
        with pytest.raises(SealError):
            sealer.open("answer", wrong, **PLACE)


def test_keys_rotate() -> None:
    """The first key seals, all keys open; after a key was dropped, the error says that it is missing."""
    before, during, after = Sealer([OLD], "ns"), Sealer([NEW, OLD], "ns"), Sealer([NEW, NEW], "ns")
    old, new = before.seal("answer", b"v", **PLACE), during.seal("answer", b"w", **PLACE)
    assert during.open("answer", old, **PLACE) == b"v"
    assert after.open("answer", new, **PLACE) == b"w"
    with pytest.raises(SealError, match="FRAMEHOLD_KEYS"):
        after.open("answer", old, **PLACE)
    with pytest.raises(SealError, match="not among"):
        before.open("answer", new, **PLACE)


@pytest.mark.parametrize("keys", [[], [b""], [b"k" * 31], [NEW, b"short"]])
def test_keys_must_be_long(keys: list[bytes]) -> None:
    with pytest.raises(ConfigError, match="FRAMEHOLD_KEYS") as caught:
        Sealer(keys, "ns")
    assert "short" not in str(caught.value)


def test_an_error_shows_a_prefix_of_the_call_only() -> None:
    call = "0123456789abcdef0123456789abcdef"
    with pytest.raises(SealError) as caught:
        Sealer([NEW], "ns").open("answer", b"", **(PLACE | {"call": call}))
    assert "01234567" in str(caught.value)
    assert call not in str(caught.value)


# ---- the heads of records

CALL = CallId("c" * 32)
HEAD = Head(Boot("b"), True, "pay", "code", "tools/call", "pay", "args", "ann", "hold")
OTHER: dict[str, Any] = {
    "tool": "preview",
    "method": "prompts/get",
    "target": "preview",
    "code": "other",
    "reentrant": False,
    "args": "other",
    "principal": "bob",
    "strategy": "replay",
    "seal": "0" * 40,
}


def sealed(sealer: Sealer, head: Head = HEAD) -> Head:
    return replace(head, seal=sealer.head_seal(CALL, head))


def test_a_head_is_sealed_for_its_call_and_namespace() -> None:
    """Its boot is its owner's, and may change."""
    sealer = Sealer([NEW], "ns")
    head = sealed(sealer)
    assert sealer.is_sealed(CALL, head) and sealer.is_sealed(CALL, replace(head, boot=Boot("another")))
    assert not sealer.is_sealed(CallId("d" * 32), head)
    assert not Sealer([NEW], "ns2").is_sealed(CALL, head)
    assert not Sealer([OLD], "ns").is_sealed(CALL, head)


@pytest.mark.parametrize("name", OTHER)
def test_each_field_of_a_head_is_sealed(name: str) -> None:
    sealer = Sealer([NEW], "ns")
    assert set(OTHER) == {*Head.__struct_fields__} - {"boot"}
    assert not sealer.is_sealed(CALL, replace(sealed(sealer), **{name: OTHER[name]}))


@given(*[st.tuples(*[st.text(max_size=8)] * 7, st.booleans())] * 2)
def test_no_two_heads_read_alike(one: Any, two: Any) -> None:
    def stated(told: Any) -> bytes:
        tool, code, method, target, args, principal, strategy, mark = told
        head = Head(Boot("b"), mark, tool, code, method, target, args, principal, strategy)
        return Sealer([NEW], "ns")._stated(CALL, head)

    assert (stated(one) == stated(two)) == (one == two)


@pytest.mark.parametrize("seal", ["", "x", "\u00fc" * 40, "0" * 40])
def test_a_text_that_is_no_seal(seal: str) -> None:
    assert not Sealer([NEW], "ns").is_sealed(CALL, replace(HEAD, seal=seal))


def test_a_head_outlives_a_rotation() -> None:
    """What it seals is named under the key that sealed it, while that key is there."""
    before, after = Sealer([OLD], "ns"), Sealer([NEW, OLD], "ns")
    head = sealed(before)
    assert after.is_sealed(CALL, head) and not Sealer([NEW], "ns").is_sealed(CALL, head)
    assert before.is_sealed(CALL, sealed(Sealer([OLD, NEW], "ns")))
    assert after.digest(b"yes", head.seal) == before.digest(b"yes") != after.digest(b"yes")


def test_a_digest_has_a_key() -> None:
    """Whoever has no key can't try answers, arguments and users."""
    sealer = Sealer([NEW], "ns")
    assert sealer.digest(b"yes") == sealer.digest(b"yes") != sealer.digest(b"no")
    assert sealer.digest(b"yes") not in (digest(b"yes"), Sealer([OLD], "ns").digest(b"yes"))
    assert len(sealer.digest(b"")) == 32

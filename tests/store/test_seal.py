"""What is sealed for one purpose and place opens there and nowhere else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core.errors import ConfigError, SealError
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
    """To another call, position, kind or key."""
    sealer = Sealer([NEW], "ns")
    with pytest.raises(SealError, match="altered or moved"):
        sealer.open("answer", sealer.seal("answer", b"v", **PLACE), **(PLACE | other))


def test_a_value_stays_in_its_purpose_and_namespace() -> None:
    """Each has its own subkey or its own place."""
    blob = Sealer([NEW], "ns").seal("answer", b"v", **PLACE)
    with pytest.raises(SealError):
        Sealer([NEW], "ns").open("outcome", blob, **PLACE)
    with pytest.raises(SealError):
        Sealer([NEW], "ns2").open("answer", blob, **PLACE)


@given(*[st.tuples(st.text(), st.text(max_size=40), st.integers(), st.text(), st.text())] * 2)
def test_no_two_places_read_alike(one: Any, two: Any) -> None:
    """Whatever characters their names have."""

    def where(place: Any) -> bytes:
        namespace, call, n, kind, key = place
        return Sealer([NEW], namespace)._where(call, n, kind, key)

    assert (where(one) == where(two)) == (one == two)


def test_names_that_share_a_border_differ() -> None:
    """The classic mistake, by name."""
    sealer = Sealer([NEW], "ns")
    assert sealer._where("a", 1, "2", "k") != sealer._where("a", 12, "", "k")
    assert sealer._where("a", 1, "b", "c:d") != sealer._where("a", 1, "b1:c", "d")


@pytest.mark.parametrize("at", [0, 1, 4, 5, 16, 17, -1])
def test_an_altered_byte_is_seen(at: int) -> None:
    """Version, key id, nonce, text and tag alike."""
    sealer = Sealer([NEW], "ns")
    blob = bytearray(sealer.seal("answer", b"value", **PLACE))
    blob[at] ^= 1
    with pytest.raises(SealError):
        sealer.open("answer", bytes(blob), **PLACE)


@pytest.mark.parametrize("length", [0, 1, 16, 17, 32, 33])
def test_a_cut_value_is_no_seal(length: int) -> None:
    """At any length."""
    sealer = Sealer([NEW], "ns")
    with pytest.raises(SealError):
        sealer.open("answer", sealer.seal("answer", b"value", **PLACE)[:length], **PLACE)


def test_keys_rotate() -> None:
    """The first key seals, all keys open; after a key was dropped, the error says that it is missing."""
    before, during, after = Sealer([OLD], "ns"), Sealer([NEW, OLD], "ns"), Sealer([NEW], "ns")
    old, new = before.seal("answer", b"v", **PLACE), during.seal("answer", b"w", **PLACE)
    assert during.open("answer", old, **PLACE) == b"v"
    assert after.open("answer", new, **PLACE) == b"w"
    with pytest.raises(SealError, match="FRAMEHOLD_KEYS"):
        after.open("answer", old, **PLACE)
    with pytest.raises(SealError, match="not among"):
        before.open("answer", new, **PLACE)


def test_one_key_twice_is_one_key() -> None:
    """A list with a repetition opens all the same."""
    blob = Sealer([NEW], "ns").seal("answer", b"v", **PLACE)
    assert Sealer([NEW, NEW], "ns").open("answer", blob, **PLACE) == b"v"


@pytest.mark.parametrize("keys", [[], [b""], [b"k" * 31], [NEW, b"short"]])
def test_keys_must_be_long(keys: list[bytes]) -> None:
    """And the error names the setting, and shows no key."""
    with pytest.raises(ConfigError, match="FRAMEHOLD_KEYS") as caught:
        Sealer(keys, "ns")
    assert "short" not in str(caught.value)


def test_an_error_shows_a_prefix_of_the_call_only() -> None:
    """It ends up in logs."""
    call = "0123456789abcdef0123456789abcdef"
    with pytest.raises(SealError) as caught:
        Sealer([NEW], "ns").open("answer", b"", **(PLACE | {"call": call}))
    assert "01234567" in str(caught.value)
    assert call not in str(caught.value)

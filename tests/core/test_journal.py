"""Entries survive their codec; what does not read is refused by name; a history has one name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core import journal
from framehold_core.errors import JournalError, JournalVersionError
from framehold_core.journal import GENESIS, VERSION, Draft, Entry, EntryKind, EntryLane, chain, decode, digest, encode

texts = st.text(st.characters(codec=None))
drafts = st.builds(
    Draft,
    kind=st.sampled_from(EntryKind),
    key=texts,
    round=st.integers(0, 1000),
    lane=st.sampled_from(EntryLane),
    fp=texts,
    codec=st.sampled_from(("none", "json", "pickle")),
    value=st.binary(),
)
ASK = Entry(3, EntryKind.ASK, "units", 2, EntryLane.MAIN, "f" * 32, "json", b"sealed")
RAW = encode(ASK)


def changed(place: int, value: object) -> bytes:
    """The stored form of ASK with another field at `place`."""
    fields = json.loads(RAW)
    fields[place] = value
    return json.dumps(fields).encode()


# ---- the codec


@given(drafts, st.integers(0, 10_000), st.binary())
def test_an_entry_reads_as_it_was_written(draft: Draft, n: int, sealed: bytes) -> None:
    item = journal.entry(n, draft, sealed)
    assert decode(encode(item), n) == item


@given(st.binary())
def test_no_bytes_do_anything_but_read_or_fail_by_name(raw: bytes) -> None:
    with pytest.raises(JournalError, match="entry 0 "):
        decode(raw, 0)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | texts, st.lists, max_leaves=12))
def test_no_json_does_anything_but_read_or_fail_by_name(value: object) -> None:
    with pytest.raises(JournalError):
        decode(json.dumps([value] * 9).encode(), 0)


@given(st.integers(0, len(RAW) - 1), st.binary(min_size=1, max_size=1))
def test_a_damaged_entry_is_refused_or_reads_at_its_own_position(place: int, byte: bytes) -> None:
    """What a seal protects is the seal's to find; here nothing else than a JournalError may come of it."""
    try:
        item = decode(RAW[:place] + byte + RAW[place + 1 :], 3)
    except JournalError:
        return
    assert (item.n, type(item.kind), type(item.value)) == (3, EntryKind, bytes)


DAMAGED = {
    "kind": (2, "dream"),
    "kind of another type": (2, ["ask"]),
    "key": (3, 7),
    "round": (4, "2"),
    "round of a fraction": (4, 2.5),
    "lane": (5, "middle"),
    "fingerprint": (6, None),
    "codec": (7, {}),
    "value": (8, "not base64!"),
    "value of another type": (8, 5),
    "older version": (0, 0),
    "version of another type": (0, "1"),
    "position of another type": (1, "3"),
}


@pytest.mark.parametrize(("place", "value"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_field_of_the_wrong_kind_is_refused(place: int, value: object) -> None:
    with pytest.raises(JournalError, match="entry 3 is corrupted"):
        decode(changed(place, value), 3)


TENTH = json.dumps([*json.loads(RAW), "more"]).encode()


@pytest.mark.parametrize("raw", [TENTH, b"[" * 100_000, b'{"a":' * 100_000, b"[1,3," + b"[" * 100_000])
def test_deep_nesting_and_a_tenth_value_are_refused(raw: bytes) -> None:
    with pytest.raises(JournalError, match="corrupted"):
        decode(raw, 3)


def test_an_entry_of_another_position_is_refused() -> None:
    """An entry that was moved or copied inside its journal is foreign there."""
    with pytest.raises(JournalError, match="entry 4 is corrupted"):
        decode(RAW, 4)
    with pytest.raises(JournalError, match="entry 0 is corrupted"):
        journal.decode_all([RAW])


@pytest.mark.parametrize("raw", [changed(0, VERSION + 1), json.dumps([VERSION + 1, "of another shape"]).encode()])
def test_an_entry_of_a_newer_release_is_refused_by_name(raw: bytes) -> None:
    with pytest.raises(
        JournalVersionError, match=f"format {VERSION + 1}, this release reads up to {VERSION}.*let a node of the newer"
    ):
        decode(raw, 3)


# ---- histories and digests


@given(st.lists(st.binary(), max_size=6), st.integers(0, 6))
def test_a_history_continued_is_the_history_of_the_whole(encoded: list[bytes], cut: int) -> None:
    assert chain(chain(GENESIS, encoded[:cut]), encoded[cut:]) == chain(GENESIS, encoded)


def test_histories_differ_by_every_byte_and_by_order() -> None:
    names = {chain(GENESIS, items) for items in ([], [b"a"], [b"b"], [b"a", b"b"], [b"b", b"a"], [b"ab"], [b"a\nb"])}
    assert len(names) == 7


def test_a_mark_ends_with_the_last_ask_of_its_round() -> None:
    kinds = (
        (EntryKind.ASK, 1),
        (EntryKind.ASK, 1),
        (EntryKind.ANSWER, 1),
        (EntryKind.INTENT, 1),
        (EntryKind.ASK, 2),
        (EntryKind.RESULT, 1),
    )
    entries = [Entry(n, kind, "k", round_, EntryLane.MAIN, "", "none", b"") for n, (kind, round_) in enumerate(kinds)]
    encoded = [encode(item) for item in entries]
    assert journal.round_history(encoded, entries, 1) == chain(GENESIS, encoded[:2])
    assert journal.round_history(encoded, entries, 2) == chain(GENESIS, encoded[:5])
    assert journal.round_history(encoded, entries, 3) == GENESIS
    assert journal.asked(entries, 1) == ("k", "k")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_canonical_json_reads_as_it_was_written(value: object) -> None:
    assert journal.parse(journal.canonical(value)) == value


@given(st.dictionaries(st.text(), st.integers(), min_size=2, max_size=4))
def test_the_order_of_keys_changes_no_digest(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    assert journal.canonical(value) == journal.canonical(backwards)
    assert journal.fingerprint("elicit", value) == journal.fingerprint("elicit", backwards)


def test_fingerprints_tell_their_parts_apart() -> None:
    parts = [("a", "b"), ("ab",), ("a", "b", ""), (["a", "b"],), ("a", None), ("a", 1), ("a", "1")]
    assert len({journal.fingerprint(*item) for item in parts}) == len(parts)


def elicited(content: object, action: str = "accept", **more: object) -> dict[str, object]:
    return {"action": action, "content": content, **more}


SAME = {
    "an integer and a double": (elicited({"n": 1}), elicited({"n": 1.0})),
    "an exponent": (elicited({"n": 100}), elicited({"n": 1e2})),
    "nothing, with a sign": (elicited({"n": 0}), elicited({"n": -0.0})),
    "the last exact ones": (elicited([2**53 - 1, 1 - 2**53]), elicited([float(2**53 - 1), float(1 - 2**53)])),
    "within lists and objects": (elicited([{"a": [1, {"b": 2.0}]}]), elicited([{"a": [1.0, {"b": 2}]}])),
    "the order of keys": (elicited({"a": 1, "b": 2}), elicited({"b": 2.0, "a": 1.0})),
    "other meta": (elicited({}, _meta={"trace": 1}), elicited({}, _meta={"trace": 2})),
    "meta or none": (elicited({}), elicited({}, _meta={})),
    "declined with content": (elicited(None, "decline"), {"action": "decline"}),
    "cancelled with content": (elicited({"n": 1}, "cancel"), {"action": "cancel"}),
    "a sample": ({"role": "user", "content": {"n": 1.0}}, {"content": {"n": 1}, "role": "user", "_meta": None}),
}
OTHER = {
    "a number and a text": (elicited({"n": 1}), elicited({"n": "1"})),
    "a number and a truth": (elicited({"n": 1}), elicited({"n": True})),
    "two doubles": (elicited({"n": 0.1}), elicited({"n": 0.1 + 2**-50})),
    "beyond what a double holds": (elicited({"n": 2**53 + 1}), elicited({"n": 2**53})),
    "beyond it, as written": (elicited({"n": 2**53}), elicited({"n": float(2**53)})),
    "content that counts": (elicited({"n": 1}), elicited({"n": 2})),
    "a decline and an accept": (elicited({}), elicited({}, "decline")),
    "samples of other content": ({"role": "user", "content": {"n": 1}}, {"role": "user", "content": {"n": 2}}),
    "meta of the content": (elicited({"_meta": 1}), elicited({"_meta": 2})),
    "composed and decomposed": (elicited({"a": "\u00e9"}), elicited({"a": "e\u0301"})),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_answers_that_say_the_same_have_one_digest(one: object, other: object) -> None:
    assert journal.answer_digest(one, digest) == journal.answer_digest(other, digest)
    assert journal.answer_digest(journal.parse(journal.canonical(one)), digest) == journal.answer_digest(other, digest)


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER)
def test_answers_that_say_something_else_have_another(one: object, other: object) -> None:
    assert journal.answer_digest(one, digest) != journal.answer_digest(other, digest)


@given(values)
def test_a_value_in_one_way_is_the_same_value(value: object) -> None:
    """Python's `==` compares numbers by value. What is in one way already is not copied."""
    written = journal.in_one_way(value)
    assert written == value and journal.in_one_way(written) is written


@pytest.mark.parametrize("depth", range(0, 800, 100))
def test_a_number_is_written_in_one_way_at_any_depth(depth: int) -> None:
    """Whatever the request is read with nests deeper than Python's own calls."""
    one, other = (json.loads("[" * depth + f'[{number}, 0.5, "\\ud83d"]' + "]" * depth) for number in ("100", "1e2"))
    assert journal.canonical(journal.in_one_way(one)) == journal.canonical(journal.in_one_way(other))


def test_a_value_that_is_too_deep_is_left_as_it_is() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert journal.in_one_way(deep) is deep

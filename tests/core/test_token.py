"""The visible half of a token: whatever a client sends is read or refused, never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core import token
from framehold_core.ids import CallId, is_call_id
from framehold_core.token import Routed

ID = "0123456789abcdef0123456789abcdef"
call_ids = st.from_regex(r"[0-9A-Za-z-]{22,36}", fullmatch=True)
garbage = st.one_of(
    st.text(),
    st.text(alphabet="hs1.0aZ-", max_size=60),
    st.builds(lambda prefix, rest: prefix + rest, st.sampled_from(("h1.", "s1.", "l1.", f"h1.{ID}.")), st.text()),
)


@given(garbage)
def test_no_text_raises_and_no_bad_call_id_comes_through(text: str) -> None:
    routed = token.parse(text)
    if routed is not None:
        assert routed.sealed
        assert routed.call is None or is_call_id(routed.call)
        again = token.stateless(routed.sealed) if routed.call is None else token.hold(routed.call, routed.sealed)
        assert again == text


@given(call_ids, st.text(min_size=1))
def test_a_token_reads_as_it_was_written(call: str, sealed: str) -> None:
    assert token.parse(token.hold(CallId(call), sealed)) == Routed(CallId(call), sealed)


@given(st.text(min_size=1))
def test_a_stateless_token_names_no_call(sealed: str) -> None:
    assert token.parse(token.stateless(sealed)) == Routed(None, sealed)


def test_the_sealed_part_may_contain_dots() -> None:
    assert token.parse(f"h1.{ID}.v1.nonce.box") == Routed(CallId(ID), "v1.nonce.box")
    assert token.parse("s1.v1.nonce.box") == Routed(None, "v1.nonce.box")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h1",
        "h1.",
        f"h1.{ID}",
        f"h1.{ID}.",
        "h1..x",
        "h1.short.x",
        f"h1.{ID}{ID}.x",
        f"h1.{ID}\n.x",
        f"h1.{{{ID}}}.x",
        f"H1.{ID}.x",
        f" h1.{ID}.x",
        "s1.",
        "s2.x",
        "l1.n1.i1.x",
    ],
)
def test_what_has_neither_shape_is_none_of_ours(text: str) -> None:
    assert token.parse(text) is None

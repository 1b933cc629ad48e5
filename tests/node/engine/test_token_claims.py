"""Claims that this release does not understand: every reader of them says so, and none raises."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from framehold.engine import token_claims

CALL = "c0ffee" * 5 + "00"
HELD = f'F[1,"{CALL}",2,3,7,"{"0" * 32}","node-1","00112233445566ff","5ea1","hold",60.0]'
CARRIED = f'R[1,"{CALL}",1,1,"c0de","AXNlZWQ=",1.5,60.0]'
BESIDE = f'M[1,"{CALL}","mine"]'
READERS: dict[str, Callable[[str], object]] = {
    "F": token_claims.read,
    "R": token_claims.carried,
    "M": token_claims.marked,
}

STATES = {
    "half of a surrogate pair": HELD.replace("0" * 32, "\ud83d"),
    "a byte that is no UTF-8": HELD.replace("0" * 32, "\udcff"),
    "a lifetime that is a text": HELD.replace("60.0", '"soon"'),
    "a lifetime that is a list": HELD.replace("60.0", "[60.0]"),
    "a lifetime that is null": HELD.replace("60.0", "null"),
    "a lifetime of too many digits": HELD.replace("60.0", "9" * 400),
    "no state": "",
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
def test_no_reader_of_claims_raises(state: str) -> None:
    assert token_claims.lifetime(state) is None
    for read in (token_claims.named, *READERS.values()):
        read(state)


def test_what_is_understood_has_its_lifetime() -> None:
    """Else the tests here would hold for readers that find nothing."""
    assert [token_claims.lifetime(state) for state in (HELD, CARRIED, BESIDE)] == [60.0, 60.0, None]
    assert all(READERS[state[0]](state) is not None for state in (HELD, CARRIED, BESIDE))


TEXTS = {
    "empty": "",
    "no JSON": "[1,",
    "a text": '"1"',
    "a number": "1",
    "null": "null",
    "an object": '{"1":1}',
    "no claims": "[]",
    "a version only": "[1]",
    "deep": "[" * 50_000,
    "deep and closed": "[" * 50_000 + "]" * 50_000,
    "too many digits": "[1," + "9" * 5000 + "]",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("tag", READERS)
def test_what_are_no_claims_at_all(tag: str, text: str) -> None:
    assert READERS[tag](tag + text) is None and token_claims.lifetime(tag + text) is None


VERSIONS: tuple[Any, ...] = (2, 0, "1")
CALLS: tuple[Any, ...] = ("", "../../etc", "nobody", 17, [CALL])
FIELDS: dict[str, list[tuple[Any, ...]]] = {
    # Version, call, round, epoch, position, history, node, boot, head, strategy.
    HELD: [VERSIONS, CALLS, (-1, "2", 2.0, True), (-5, "1"), (-1, None), (), (17, "no name!"), (), (), ("replay",)],
    # Version, call, round, epoch, code, seed, instant, lifetime.
    CARRIED: [
        *(VERSIONS, CALLS, (0, -1, "2", 2.0, True), (0, -5, "1"), (None,), (17,)),
        *(("now", 17, math.nan, math.inf, -1e300, 1e300), ("long", None)),
    ],
    # Version, call, the author's state.
    BESIDE: [VERSIONS, CALLS, (17, ["mine"])],
}
CHANGES = [(state, at, value) for state, fields in FIELDS.items() for at, made in enumerate(fields) for value in made]


@pytest.mark.parametrize(
    ("state", "place", "value"), CHANGES, ids=[f"{state[0]}[{at}]: {v}" for state, at, v in CHANGES]
)
def test_each_claim_has_its_type_and_range(state: str, place: int, value: Any) -> None:
    claims = json.loads(state[1:])
    claims[place] = value
    assert READERS[state[0]](state[0] + json.dumps(claims)) is None


@pytest.mark.parametrize("state", [CARRIED, BESIDE])
def test_there_is_no_claim_less_and_none_more(state: str) -> None:
    claims = json.loads(state[1:])
    for other in (claims[:-1], [*claims, 1]):
        assert READERS[state[0]](state[0] + json.dumps(other)) is None

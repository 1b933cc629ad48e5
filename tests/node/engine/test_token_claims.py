"""Claims that this release does not understand: every reader of them says so, and none raises."""

from __future__ import annotations

import pytest

from framehold.engine import token_claims

CALL = "c0ffee" * 5 + "00"
HELD = f'F[1,"{CALL}",2,3,7,"{"0" * 32}","node-1","00112233445566ff","5ea1","hold",60.0]'
CARRIED = f'R[1,"{CALL}",1,1,"c0de","AXNlZWQ=",1.5,60.0]'
BESIDE = f'M[1,"{CALL}","mine"]'

STATES = {
    "half of a surrogate pair": HELD.replace("0" * 32, "\ud83d"),
    "a byte that is no UTF-8": HELD.replace("0" * 32, "\udcff"),
    "a lifetime that is a text": HELD.replace("60.0", '"soon"'),
    "a lifetime that is a list": HELD.replace("60.0", "[60.0]"),
    "a lifetime that is null": HELD.replace("60.0", "null"),
    "a lifetime of too many digits": HELD.replace("60.0", "9" * 400),
    "cut short": HELD[:-9],
    "no list": 'F{"1":2}',
    "nested": "F" + "[" * 20_000,
    "numbers for texts": f'R[1,"{CALL}",1,1,1,1,1.5,60.0]',
    "infinite": CARRIED.replace("1.5", "1e999"),
    "no state": "",
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
def test_no_reader_of_claims_raises(state: str) -> None:
    assert token_claims.lifetime(state) is None
    for read in (token_claims.read, token_claims.named, token_claims.carried, token_claims.marked):
        read(state)


def test_what_is_understood_has_its_lifetime() -> None:
    """Else the test above would hold for a reader that finds nothing."""
    assert [token_claims.lifetime(state) for state in (HELD, CARRIED, BESIDE)] == [60.0, 60.0, None]

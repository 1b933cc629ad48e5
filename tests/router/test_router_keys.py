"""What a router has of the fleet's keys: it is believed with it, and opens nothing."""

from __future__ import annotations

from itertools import chain, permutations
from typing import Any

import pytest
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from pydantic import SecretStr

from framehold_core.errors import ConfigError, SealError
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.router_keys import RouterKey, text_of
from framehold_fleet.identity.trust import Trust
from framehold_router.config import RouterSettings
from framehold_store.seal import Sealer
from tests.kit.leases import lease

NEW, OLD = b"a new key of the fleet of 32 bytes", b"an old one that is still listed too"
PURPOSES = ("journal", "outcome", "token", "code", "event", "saga")
"""What nodes seal values for."""


def test_as_text_they_are_the_same_keys() -> None:
    texts = text_of([NEW, OLD]).split(",")
    assert [RouterKey.parse(text) for text in texts] == [RouterKey.of(NEW), RouterKey.of(OLD)]
    assert all(text.startswith("r1.") and len(text) == 131 for text in texts)
    node, router = Trust([NEW, OLD]), Trust([RouterKey.parse(text) for text in texts])
    assert router.plane_key == node.plane_key
    assert router.statements.not_taken("boot", "call") == node.statements.not_taken("boot", "call")
    assert LeaseSeal(router, "ns").holds(LeaseSeal(node, "ns").seal(lease()))
    assert router.principal("ann") == node.principal("ann")
    assert router.credential(SecretStr("t" * 16)) == node.credential(SecretStr("t" * 16))


def test_no_key_is_derived_for_two_purposes() -> None:
    found = list(chain(RouterKey.of(NEW), RouterKey.of(OLD)))
    assert len({*found, NEW, OLD}) == 8 and all(len(key) == 32 for key in found)


@pytest.mark.parametrize("purpose", PURPOSES)
def test_they_open_no_stored_value(purpose: str) -> None:
    """Neither one of them, nor several as one, nor their text, taken for keys of the fleet."""
    place: dict[str, Any] = {"call": "c" * 32, "n": 1, "kind": "k", "key": "q"}
    sealed = Sealer([NEW], "prod").seal(purpose, b"what nobody else may read", **place)
    for guess in guesses(NEW):
        with pytest.raises(SealError):
            Sealer([guess], "prod").open(purpose, sealed, **place)


def test_they_open_and_make_no_token() -> None:
    ours = AESGCMRequestStateCodec([NEW])
    for guess in guesses(NEW):
        theirs = AESGCMRequestStateCodec([guess])
        for made, reads in ((ours, theirs), (theirs, ours)):
            with pytest.raises(InvalidRequestState):
                reads.unseal(made.seal(b"what a token seals"))


def guesses(key: bytes) -> list[bytes]:
    derived = RouterKey.of(key)
    return [*derived, derived.text().encode(), *(b"".join(some) for some in permutations(derived))]


GOOD = text_of([NEW])


@pytest.mark.parametrize(
    "text", ["x", NEW.decode(), GOOD[:-1], GOOD + "A", f"{GOOD},{GOOD[:-1]}", "r2" + GOOD[2:], f"r1.+{GOOD[4:]}"]
)
def test_what_is_no_such_text_is_refused_and_not_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEHOLD_ROUTER_KEYS", text)
    with pytest.raises(
        ConfigError, match=r"FRAMEHOLD_ROUTER_KEYS is wrong: .*`framehold keys router` prints"
    ) as refused:
        RouterSettings()
    assert len(text) < 2 or text not in str(refused.value)


def test_a_router_is_not_given_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody would notice that it has the keys as well. An empty variable gives none."""
    monkeypatch.setenv("FRAMEHOLD_ROUTER_KEYS", text_of([NEW, OLD]))
    monkeypatch.setenv("FRAMEHOLD_KEYS", "")
    assert RouterSettings().known_keys() == (RouterKey.of(NEW), RouterKey.of(OLD))
    monkeypatch.setenv("FRAMEHOLD_KEYS", NEW.decode())
    with pytest.raises(ConfigError, match="FRAMEHOLD_KEYS is set too, and a router must not have it"):
        RouterSettings()
    monkeypatch.delenv("FRAMEHOLD_ROUTER_KEYS")
    assert RouterSettings().known_keys() == (NEW,)

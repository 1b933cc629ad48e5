"""What a newer release wrote meets the code that is here now: it is refused by name, or passed over where that was
promised (README.md); nothing of it is guessed at."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

from framehold.engine import token_claims
from framehold.sdk.state_codec import PrefixCodec
from framehold_core.clock import Clock
from framehold_core.errors import SealError
from framehold_fleet.members.node_stats import Stats, read
from tests.compat import names
from tests.compat.dumps import FIXTURES, KEY, versions
from tests.compat.forms import BOOT, Meaning, sealer

NEWEST = FIXTURES / versions()[-1]


def _pairs(form: str) -> list[Meaning]:
    found: list[Meaning] = json.loads((NEWEST / f"{form}.json").read_text())
    return found


READERS: dict[str, Callable[[str], object]] = {
    token_claims.OURS: token_claims.read,
    token_claims.REPLAY: token_claims.carried,
    token_claims.MARKED: token_claims.marked,
}
codec = PrefixCodec(AESGCMRequestStateCodec([KEY]), Clock(lambda: 1.0, lambda: 1.0, bytes))


@pytest.mark.parametrize("pair", [pair for pair in _pairs("tokens") if pair["means"]["tag"] in READERS])
def test_claims_of_the_next_version_are_refused_and_those_of_a_held_call_may_say_more(pair: Meaning) -> None:
    """What README.md says may be added without a new version, and what may not. A token with claims that can't be read
    is refused as any other: -32602."""
    envelope, tag = json.loads(codec.unseal(pair["is"])), pair["means"]["tag"]
    head, *lines = envelope["s"].split("\n")
    reads = READERS[tag]
    assert reads(envelope["s"]) is not None
    newer = f"{tag}[{token_claims.VERSION + 1}{envelope['s'][3:]}"
    assert reads(newer) is None
    if tag == token_claims.OURS:
        with pytest.raises(InvalidRequestState, match="claims"):
            codec.unseal(codec.seal(json.dumps({**envelope, "s": newer}).encode()))
    more = json.dumps([*json.loads(head[1:]), *([60.0] if head.endswith('"hold"]') else []), "more"])
    assert (reads("\n".join((tag + more, *lines))) is not None) is (tag == token_claims.OURS)


def test_the_envelope_of_any_state_may_say_more_and_no_other_prefix_is_known() -> None:
    """So a round that is traced tells the next one of its span, under every kind of token."""
    for pair in _pairs("tokens"):
        more = {**json.loads(codec.unseal(pair["is"])), "trace": f"00-{'1' * 32}-{'2' * 16}-01", "colour": "blue"}
        sealed = codec.seal(json.dumps(more).encode())
        assert json.loads(codec.unseal(sealed)) == more
        with pytest.raises(InvalidRequestState, match="malformed prefix"):
            codec.unseal(f"{sealed[0]}2{sealed[2:]}")


def test_a_seal_of_the_next_version_is_named() -> None:
    for pair in _pairs("seals"):
        purpose, place, sealed = json.loads(pair["is"])
        newer = b"\x02" + base64.b64decode(sealed)[1:]
        with pytest.raises(SealError, match="let a node of a newer release take the call"):
            sealer.open(purpose, newer, **place)


def test_what_a_lease_tells_besides_is_passed_over_and_what_it_tells_otherwise_is_nothing() -> None:
    for pair in _pairs("stats"):
        result = json.loads(pair["is"])
        assert read(json.dumps({**result, "colour": "blue"})) == read(pair["is"])
        assert read(json.dumps({name: [1, 2] for name in result})) == Stats()


def test_an_event_that_is_not_known_is_dropped_with_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Its listeners miss it, and hear the next one."""
    newer = json.dumps([BOOT, "TasksListChanged", "", "more"]).encode()
    known = base64.b64decode(_pairs("events")[0]["is"])
    heard = names.hear(sealer.seal("event", newer, call="", n=0, kind="event", key=""), known)
    assert [type(event).__name__ for event in heard] == ["ToolsListChanged"]
    assert caplog.text.count("can't be read and was dropped") == 1

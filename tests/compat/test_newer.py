"""What a newer release wrote meets the code that is here now: it is refused by name, or passed over where that was
promised (README.md); nothing of it is guessed at."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections import Counter
from collections.abc import Callable

import pytest
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent

from framehold.engine import token_claims
from framehold.engine.tasks import Tasks
from framehold.hosts.event_bus import FleetBus
from framehold.sdk.state_codec import PrefixCodec
from framehold_core import journal
from framehold_core.clock import Clock
from framehold_core.errors import JournalError, JournalVersionError, SealError, ValueUnreadable
from framehold_fleet.members.node_stats import Stats, read
from framehold_store.memory import MemoryStore
from framehold_store.values import Values
from tests.compat.catalogue import FORMS
from tests.compat.dumps import FIXTURES, KEY, versions
from tests.compat.forms import BOOT, Meaning, sealer
from tests.router.wires import CALL

NEWEST = FIXTURES / versions()[-1]
_inner = AESGCMRequestStateCodec([KEY])


def _pairs(form: str) -> list[Meaning]:
    found: list[Meaning] = json.loads((NEWEST / f"{form}.json").read_text())
    return found


def _states(tag: str) -> list[str]:
    """The states of this kind that the fixtures' tokens hold."""
    found = [pair["is"].rpartition("v1.")[2] for pair in _pairs("tokens") if pair["means"]["tag"] == tag]
    assert found, tag
    return [str(json.loads(_inner.unseal(f"v1.{sealed}"))["s"]) for sealed in found]


@pytest.mark.parametrize("pair", _pairs("entries"))
def test_an_entry_of_the_next_version_is_refused_by_name(pair: Meaning) -> None:
    """Which entry, which format, and what to do."""
    text = pair["is"].encode("ascii")
    newer = b"[%d" % (journal.VERSION + 1) + text[2:]
    with pytest.raises(JournalVersionError, match=r"has format 2, .* let a node of the newer release take it"):
        journal.decode(newer, pair["means"]["n"])


def test_an_entry_that_says_more_under_its_old_version_is_refused() -> None:
    """Nine values and no more: an entry can't be added to without a new version."""
    for pair in _pairs("entries"):
        more = json.dumps([*json.loads(pair["is"]), "more"]).encode()
        with pytest.raises(JournalError, match="is corrupted"):
            journal.decode(more, pair["means"]["n"])


def test_a_seal_of_the_next_version_is_named() -> None:
    for pair in _pairs("seals"):
        purpose, place, sealed = json.loads(pair["is"])
        newer = b"\x02" + base64.b64decode(sealed)[1:]
        with pytest.raises(SealError, match="let a node of a newer release take the call"):
            sealer.open(purpose, newer, **place)


def test_a_codec_that_is_not_known_is_named() -> None:
    with pytest.raises(ValueUnreadable, match="let a node of the newer release that wrote it take the call"):
        Values(pickle=True, limit=100).unpack("cbor", b"x")


@pytest.mark.parametrize("tag", [token_claims.OURS, token_claims.REPLAY, token_claims.MARKED])
def test_claims_of_the_next_version_are_none_of_this_release(tag: str) -> None:
    """Their token is refused as any that can't be read: -32602."""
    readers: dict[str, Callable[[str], object]] = {
        token_claims.OURS: token_claims.read,
        token_claims.REPLAY: token_claims.carried,
        token_claims.MARKED: token_claims.marked,
    }
    reads = readers[tag]
    for state in _states(tag):
        assert reads(state) is not None
        assert reads(f"{tag}[{token_claims.VERSION + 1}{state[3:]}") is None
    if tag == token_claims.OURS:
        newer = f"{tag}[2{_states(tag)[0][3:]}"
        sealed = _inner.seal(json.dumps({"v": 1, "iat": 1, "exp": 2, "s": newer}).encode())
        with pytest.raises(InvalidRequestState, match="claims"):
            PrefixCodec(_inner, Clock(lambda: 1.0, lambda: 1.0, bytes)).unseal(f"h1.{CALL}.{sealed}")


def test_claims_of_a_held_call_may_say_more_and_others_may_not() -> None:
    """What README.md says may be added without a new version, and what may not."""
    for tag, reads, passes in (
        (token_claims.OURS, token_claims.read, True),
        (token_claims.REPLAY, token_claims.carried, False),
        (token_claims.MARKED, token_claims.marked, False),
    ):
        head, *lines = _states(tag)[-1].split("\n")
        more = json.dumps([*json.loads(head[1:]), *([60.0] if head.endswith('"hold"]') else []), "more"])
        assert (reads("\n".join((tag + more, *lines))) is not None) is passes, tag


def test_the_envelope_of_any_state_may_say_more() -> None:
    """So a round that is traced tells the next one of its span, under every kind of token."""
    codec = PrefixCodec(_inner, Clock(lambda: 1.0, lambda: 1.0, bytes))
    for pair in _pairs("tokens"):
        visible, _, sealed = pair["is"].rpartition("v1.")
        envelope = json.loads(_inner.unseal(f"v1.{sealed}"))
        more = {**envelope, "trace": f"00-{'1' * 32}-{'2' * 16}-01", "colour": "blue"}
        assert json.loads(codec.unseal(visible + _inner.seal(json.dumps(more).encode()))) == more


def test_a_prefix_that_is_not_known_is_no_token() -> None:
    for prefix in ("h2.", "s2.", "l2."):
        with pytest.raises(InvalidRequestState, match="malformed prefix"):
            PrefixCodec(_inner, Clock(lambda: 1.0, lambda: 1.0, bytes)).unseal(
                f"{prefix}{_pairs('tokens')[0]['is'][3:]}"
            )


def test_what_a_lease_tells_besides_is_passed_over_and_what_it_tells_otherwise_is_nothing() -> None:
    for pair in _pairs("stats"):
        result = json.loads(pair["is"])
        assert read(json.dumps({**result, "colour": "blue"})) == read(pair["is"])
        assert read(json.dumps({name: [1, 2] for name in result})) == Stats()


def test_an_event_that_is_not_known_is_dropped_with_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Its listeners miss it, and hear the next one."""
    reply: list[ServerEvent] = []

    async def hear() -> None:
        shelf, local, tasks = MemoryStore(lambda: 0.0), InMemorySubscriptionBus(), Tasks(Counter())
        local.subscribe(reply.append)
        FleetBus(local, shelf, sealer, "another process", tasks).open()
        newer = json.dumps([BOOT, "TasksListChanged", "", "more"]).encode()
        await shelf.publish(sealer.seal("event", newer, call="", n=0, kind="event", key=""))
        await shelf.publish(base64.b64decode(_pairs("events")[0]["is"]))
        await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(hear())
    assert [type(event).__name__ for event in reply] == ["ToolsListChanged"]
    assert caplog.text.count("can't be read and was dropped") == 1
    assert FORMS["events"].read(_pairs("events")[0]["is"])["kind"] == "ToolsListChanged"

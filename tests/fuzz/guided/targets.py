"""What each reader promises for any bytes: no exception but the one that it names, what it accepts can be written again
and read as the same, and nothing is unpickled.

Each target takes one input, and returns whether its reader accepts it. It raises AssertionError, or whatever the reader
raised, where the promise is broken.
"""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from collections.abc import Callable
from random import Random

from framehold.engine import token_claims
from framehold.frame.payloads import Payloads
from framehold.wires import saga_token
from framehold.wires.saga_token import Saga
from framehold_core import journal, token
from framehold_core.errors import FrameholdError, JournalError, ResultNotKept, SealError
from framehold_core.ids import CallId, is_call_id, is_node_id
from framehold_core.journal import EntryKind
from framehold_core.requests import Read
from framehold_fleet.http_server.request_reader import Reader, RequestRefused
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members import node_stats, session_ids
from framehold_fleet.members.address import address_of
from framehold_fleet.members.membership import Member
from framehold_router.collect import samples
from framehold_store import codec, lease_codec, pauses
from framehold_store.seal import Sealer
from framehold_store.values import Values
from tests.kit.limits import limits_of

PLACES = (
    ("journal", "c0ffee" * 5 + "00", 3, "answer", "one"),
    ("journal", "c0ffee" * 5 + "00", 3, "answer", "two"),
    ("outcome", "c0ffee" * 5 + "00", 12, "outcome", ""),
    ("token", "c0ffee" * 5 + "00", 0, "seed", ""),
    ("event", "", 0, "event", ""),
    ("code", "c0ffee" * 5 + "00", 0, "code", ""),
)
"""Purpose, call, position, kind and key."""
Target = Callable[[bytes], bool]
LONGEST = 8192
"""Bytes of an input."""
PATIENCE = 0.2
"""Seconds of CPU that an input may take, a hundred times what it should: more would be more than linear."""
TRIES = 3
"""A busy machine may slow an input down, but not again and again."""

CALL = CallId("c0ffee" * 5 + "00")
KEY = b"a key of the fixtures, of 32 bytes and more"
"""That of tests/compat, so that what it has is read as it was meant."""
sealer = Sealer([KEY], "compat")
_STRANGE = Sealer([b"a key that sealed nothing here, and long enough"], "compat")
strangers = Payloads(_STRANGE, Values(pickle=True, limit=1 << 20))
"""Whatever these open was sealed by somebody else."""
lease_seals = LeaseSeal(Trust([KEY]), "default")


def text_of(data: bytes) -> str:
    """Any text; also one with half of a surrogate pair."""
    return data.decode("utf-8", "surrogateescape")


Found = list[tuple[bytes, bytes, bytes, bytes]]


def _read(pieces: list[bytes]) -> tuple[Found, bool]:
    """The requests that the router's reader finds, and whether it refuses what follows."""
    reader, found = Reader(limits_of(1 << 16, 2048, 20)), Found()
    try:
        for piece in pieces:
            while piece:
                piece = piece[reader.feed(piece) :]
                if reader.whole:
                    head, body, _ = reader.take("")
                    found.append((head.method, head.target, head.lines, body))
    except RequestRefused:
        return found, True
    return found, False


def reader(data: bytes) -> bool:
    """Requests: wherever their bytes are cut they are the same, and a node that gets what is sent on reads the same."""
    draw, stream = Random(data[:1]), data[1:]
    whole = _read([stream])
    at = draw.randrange(len(stream) + 1)
    assert _read([stream[:at], stream[at:]]) == whole, "cut in two they are others"
    if len(stream) < 200:
        assert _read([stream[at : at + 1] for at in range(len(stream))]) == whole, "byte by byte they are others"
    for method, target, lines, body in whole[0]:
        assert not {*b"\0\r\n"} & {*lines.replace(b"\r\n", b"")}, "a line has an end within"
        again, _ = _read([b"%bcontent-length: %d\r\n\r\n%b" % (lines, len(body), body)])
        if b"\r\nexpect:" not in lines:
            assert [(one[0], one[1], one[3]) for one in again] == [(method, target, body)], "a node reads another"
    return bool(whole[0])


def tokens(data: bytes) -> bool:
    """The visible half of a token."""
    text = text_of(data)
    call, found = token.named(text), token.parse(text)
    if found is None:
        assert call is None
        return False
    assert found.call == call
    again = token.stateless(found.sealed) if call is None else token.hold(call, found.sealed)
    assert again == text and (call is None or is_call_id(call))
    return True


def claims(data: bytes) -> bool:
    """The claims in a token's state."""
    state = text_of(data)
    token_claims.read.cache_clear()
    held, named = token_claims.read(state), token_claims.named(state)
    assert held is None or (
        is_call_id(held.call) and is_node_id(held.node) and min(held.round, held.epoch, held.n) >= 0
    )
    assert named is None or is_call_id(named)
    lifetime = token_claims.lifetime(state)
    assert lifetime is None or type(lifetime) is float
    carried = token_claims.carried(state) if state.startswith(token_claims.REPLAY) else None
    assert carried is None or token_claims.carried(token_claims.carry(carried)) == carried
    marked = token_claims.marked(state)
    assert marked is None or not marked.call or token_claims.marked(token_claims.beside(marked)) == marked
    token_claims.excess(state, 4096)
    return held is not None or carried is not None or marked is not None


def records(data: bytes) -> bool:
    """A reply of the store: its verdict and epoch, the fields of a record line by line, and behind `--` its
    journal."""
    record, _, entries = data.partition(b"\n--\n")
    verdict, *flat = record.split(b"\n")
    raw = [verdict[:-1], int(verdict[-1:] or b"0", 36) if verdict[-1:].isalnum() else None, flat, entries.split(b"\n")]
    try:
        reply = codec.decode(Read(CALL), raw)
    except ValueError:
        return False
    assert reply.stored is not None
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    head = reply.stored.record.head
    written = [str(value).encode() for value in codec._head_values(head)]
    kept = {name: value for name, value in zip(written[::2], written[1::2], strict=True) if name != b"reentrant"}
    assert {name: fields[name] for name in kept} == kept
    assert reply.stored.record.created >= 0 and reply.stored.record.expires >= 0
    return True


def entries(data: bytes) -> bool:
    """An entry of a journal, and its value."""
    n, raw = data[0] if data else 0, data[1:]
    try:
        item = journal.decode(raw, n)
    except JournalError:
        return False
    assert journal.decode(journal.encode(item), n) == item
    with contextlib.suppress(SealError):
        read = strangers.packed if item.kind in (EntryKind.RESULT, EntryKind.EFFECT) else strangers.opened
        read(CALL, item)
    return True


def sagas(data: bytes) -> bool:
    """A saga's token, and its content."""
    wire = text_of(data)
    is_one = saga_token.is_one(wire)
    try:
        found = saga_token.opened(wire, sealer)
    except (SealError, ValueError):
        found = None
    assert found is None or is_one
    try:
        parts = json.loads(data)
    except (ValueError, RecursionError):
        return found is not None
    if type(parts) is not list or len(parts) != 5 or type(parts[4]) not in (str, type(None)):
        return False
    saga = Saga(*parts)
    assert saga_token.opened(saga_token.sealed(saga, sealer), sealer) == json_of(saga)
    return True


def json_of(saga: Saga) -> Saga:
    """A saga as JSON gives it back."""
    return Saga(*json.loads(json.dumps(saga)))


def leases(data: bytes) -> bool:
    """A lease, what a router makes of it, and what its node tells in it."""
    found = lease_codec.read("node-1", data)
    if found is None:
        return False
    assert found.node == "node-1" and type(found.beat) is int
    assert lease_codec.read("node-1", lease_codec.dump(found)) == found
    assert Member.of(found, lease_seals).address is None, "an address is believed without a seal"
    assert lease_seals.holds(lease_seals.seal(found))
    stats = node_stats.read(found.stats)
    assert node_stats.read(stats.dump()) == stats
    return True


def names(data: bytes) -> bool:
    """Session ids, addresses and pauses."""
    text = text_of(data)
    if (session := session_ids.parse(text)) is not None:
        assert session_ids.wrap(*session) == text
    address = address_of(text)
    assert address is None or 0 < int(address[1]) < 65536
    stats = node_stats.read(text)
    assert node_stats.read(stats.dump()) == stats
    pause = pauses._read("ask", text)
    if pause is None:
        assert text == "" or pauses._version(text) is not None, "what can't be read stands"
    else:
        assert text and pause.at >= 0
    return (
        session is not None
        or address is not None
        or stats != node_stats.Stats()
        or (pause is not None and bool(pause.by))
    )


def figures(data: bytes) -> bool:
    """A sample of the history."""
    found = samples.unpacked(data) or samples.unpacked(zlib.compress(data))
    assert found is None or samples.unpacked(samples.packed(found)) == found
    return found is not None


def values(data: bytes) -> bool:
    """A value that an effect gave, where no pickle may be read."""
    without = Values(pickle=False, limit=1 << 20)
    name, _, rest = data.partition(b"\n")
    try:
        found = without.unpack(text_of(name), rest)
    except FrameholdError:
        return False
    # A number of a thousand digits is read, and not written.
    with contextlib.suppress(ResultNotKept):
        packed = without.pack(found.value)
        assert repr(without.unpack(packed.codec, packed.data).value) == repr(found.value)
    return True


def seals(data: bytes) -> bool:
    """Whatever is said to be sealed. Of what this fleet sealed, each is sealed for one place."""
    opened = 0
    for place in PLACES:
        with contextlib.suppress(SealError):
            sealer.open(place[0], data, call=place[1], n=place[2], kind=place[3], key=place[4])
            opened += 1
    assert opened < 2, "one seal opens at two places"
    return opened == 1


def checked(target: Target, data: bytes) -> bool:
    """Whether a reader accepts an input; it must not take long.

    Raises:
        AssertionError: it does, or another promise is broken.
    """
    for _ in range(TRIES):
        began = time.thread_time()
        is_accepted = target(data)
        took = time.thread_time() - began
        if took < PATIENCE:
            return is_accepted
        if took > TRIES * PATIENCE:
            break
    raise AssertionError(f"{len(data)} bytes take {took:.1f} s")


TARGETS: dict[str, Target] = {
    one.__name__: one
    for one in (reader, tokens, claims, records, entries, sagas, leases, names, figures, values, seals)
}

"""Journal entries: their codec, their fingerprints, and the running hash that names a history.

An entry is one thing that a call has learned. Its value is sealed before it comes here; the rest is plain, so that
`ask` and `once` can be matched by name without opening anything. The encoded form carries a version: an entry of a
newer release is refused by name, never guessed at.

A journal is named by its position, how many entries it has, and its history, the hash chained over their encoded bytes.
Sealed values have fresh nonces, so two histories with equal questions differ: a fence can tell them apart.

The fields `n` (position) and `fp` (fingerprint) of an entry have the names of the stored format.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import operator
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

from .errors import JournalError, JournalVersionError
from .value import Value

_quoted = json.encoder.encode_basestring_ascii
_read = json.JSONDecoder().decode
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
# What `_JSON.encode` comes to, without the Python around it: a round writes JSON several times. None on other Pythons.
_make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)
_encoder = _make_encoder and _make_encoder(None, _JSON.default, _quoted, None, ":", ",", True, False, True)
VERSION = 1
"""The format of an entry."""
_EXACT = 2**53
"""From here on a double is not each integer: a number is what is written."""
_VARIES = {float, dict, list}
"""The types of JSON values that may be written in more than one way, or hold one that may."""
_ACCEPTED = "accept"
GENESIS = ""
"""The history of an empty journal."""


class EntryKind(StrEnum):
    """What an entry records."""

    ASK = "ask"
    ANSWER = "answer"
    INTENT = "intent"
    RESULT = "result"
    VALUE = "value"
    EFFECT = "effect"
    """An effect that was declared idempotent has run: its result, of which no intent was recorded."""


class EntryLane(StrEnum):
    """Whether the handler's own task made the entry, or one that it started."""

    MAIN = "main"
    SIDE = "side"


class Draft(Value):
    """An entry that has no position yet: the core gives it one, and the shell seals `value` for that position. `fp` is
    the fingerprint that a replay must repeat."""

    kind: EntryKind
    key: str
    round: int
    lane: EntryLane
    fp: str
    codec: str
    value: bytes


_KINDS, _LANES = {kind.value: kind for kind in EntryKind}, {lane.value: lane for lane in EntryLane}


class Entry(Value):
    """One line of a journal. `n` is its position, from 0; `value` is sealed for it (namespace, call, n, kind, key)."""

    n: int
    kind: EntryKind
    key: str
    round: int
    lane: EntryLane
    fp: str
    codec: str
    value: bytes


def entry(n: int, draft: Draft, sealed: bytes) -> Entry:
    """The entry that `draft` becomes at position `n`, with its value `sealed` for it."""
    return Entry(n, draft.kind, draft.key, draft.round, draft.lane, draft.fp, draft.codec, sealed)


def encode(item: Entry) -> bytes:
    """The stored form of an entry."""
    # Written out: only three of the nine are free text, and an encoder costs ten times as much.
    value = b2a_base64(item.value, newline=False).decode("ascii")
    text = f'[{VERSION},{item.n},"{item.kind}",{_quoted(item.key)},{item.round},"{item.lane}",'
    return f'{text}{_quoted(item.fp)},{_quoted(item.codec)},"{value}"]'.encode("ascii")


def decode(raw: bytes, n: int) -> Entry:
    """Read the entry stored at position `n`.

    Raises:
        JournalVersionError: a newer release wrote it.
        JournalError: it is cut short, corrupted, or stands at another position.
    """
    try:
        fields: Any = _read(raw.decode("ascii"))
        version = fields[0]
        if isinstance(version, int) and version > VERSION:
            raise JournalVersionError(
                f"journal entry {n} has format {version}, this release reads up to {VERSION}; "
                "the call was not continued; let a node of the newer release take it"
            )
        _, position, kind, key, round_, lane, fp, codec, value = fields
        item = Entry(position, _KINDS[kind], key, round_, _LANES[lane], fp, codec, a2b_base64(value, strict_mode=True))
        # JSON's true and 3.0 equal 1 and 3: only a plain int is a number here.
        typed = type(key) is type(fp) is type(codec) is str and type(position) is type(round_) is int
        if version != VERSION or position != n or not typed:
            raise ValueError("fields")
    except JournalVersionError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, binascii.Error, RecursionError) as error:
        raise JournalError(
            f"journal entry {n} is corrupted ({type(error).__name__}); the call was not continued; "
            "check who else writes this store"
        ) from error
    return item


def decode_all(raw: Sequence[bytes]) -> tuple[Entry, ...]:
    """Read a whole journal in order.

    Raises:
        JournalError: an entry can't be read (`JournalVersionError`: a newer release wrote it).
    """
    return tuple(decode(item, n) for n, item in enumerate(raw))


def chain(history: str, encoded: Iterable[bytes]) -> str:
    """The history that follows when the `encoded` entries are appended at `history`."""
    for item in encoded:
        history = hashlib.sha256(history.encode("ascii") + b"\n" + item).hexdigest()[:32]
    return history


def canonical(value: object) -> bytes:
    """JSON with one spelling per value, for digests. Takes every value that JSON can carry."""
    written = _JSON.encode(value) if _encoder is None else "".join(_encoder(value, 0))
    return written.encode("ascii")


def in_one_way(value: Any) -> Any:
    """A JSON value with one number for all ways to write it: 1 for 1.0 and 1e0, up to where a double is exact (2^53).
    The value itself if it is so already, or is nested deeper than `json` reads."""
    if type(value) not in _VARIES:
        return value
    try:
        return _in_one_way(value)
    except RecursionError:
        pass
    try:
        return json.loads(_JSON.encode(value), parse_float=lambda text: _in_one_way(float(text)))
    except RecursionError:
        return value


def _in_one_way(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if kind is dict:
        changed = {
            key: new for key, item in value.items() if type(item) in _VARIES and (new := _in_one_way(item)) is not item
        }
        return {**value, **changed} if changed else value
    if kind is list:
        items = [_in_one_way(item) if type(item) in _VARIES else item for item in value]
        return value if all(map(operator.is_, items, value)) else items
    return value


def answer_digest(raw: Any, named: Callable[[bytes], str], written: bytes | None = None) -> str:
    """The digest by which a client's answer (a JSON value) is compared with another one. What says the same has one
    digest: numbers however they are written; content that counts only where a form was accepted; `_meta` never. `named`
    makes it of bytes: it is stored, so a shell gives one that nobody else can compute. `written` is the canonical JSON
    of the answer, if that is known."""
    said = raw
    if type(raw) is dict:
        ignored = {"_meta"} if raw.get("action", _ACCEPTED) == _ACCEPTED else {"_meta", "content"}
        if not ignored.isdisjoint(raw):
            said = {name: item for name, item in raw.items() if name not in ignored}
    said = in_one_way(said)
    return named(written if written is not None and said is raw else canonical(said))


def digest(data: bytes) -> str:
    """A short name for bytes: 32 hex digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:32]


def fingerprint(*parts: object) -> str:
    """What an entry must repeat on replay, as one digest (for an ask: type, text, schema)."""
    return digest(canonical(parts))


def asked(entries: Iterable[Entry], round_: int) -> tuple[str, ...]:
    """The keys that round `round_` asked for, in order."""
    return tuple(item.key for item in entries if item.kind is EntryKind.ASK and item.round == round_)


def round_history(encoded: Sequence[bytes], entries: Sequence[Entry], round_: int) -> str:
    """The history at which round `round_` was parked: that of the entries up to its last ask."""
    last = max((item.n for item in entries if item.kind is EntryKind.ASK and item.round == round_), default=-1)
    return chain(GENESIS, encoded[: last + 1])


def parse(data: bytes) -> Any:
    """The value that `canonical` encoded."""
    return json.loads(data)

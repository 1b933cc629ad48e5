"""Encodes requests as script arguments, and decodes script replies as `Reply`. The comment at the head of each script
lists its arguments and its reply.

Durations are sent as whole milliseconds, rounded up; instants are returned in seconds. A request that can't be encoded
and a reply that can't be decoded raise ValueError here, and the caller of the store gets `StoreUnavailable`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from json.encoder import encode_basestring_ascii as quote
from math import ceil
from typing import Any

from framehold_core.ids import Boot
from framehold_core.requests import (
    Answered,
    Claim,
    Commit,
    Done,
    Fence,
    Finish,
    Head,
    Heal,
    Intent,
    Read,
    Record,
    RecordState,
    Release,
    Reply,
    Request,
    Result,
    Stored,
    Verdict,
    Verify,
)
from framehold_core.trail import Moved, TrailStep, ordered
from framehold_core.value import astuple

from .scripts import SCRIPTS, LuaScript

VERSION = b"1"
Argument = str | bytes | int
Arguments = tuple[Argument, ...]

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since 1970. Python knows no later date."""
_NO_HISTORY = "-"
_NO_ANSWERS = ("", "", "")
_KEPT = "k"
"""The letter of a claim that goes on with kept code."""
_STEPS = {_KEPT: Moved.CLAIMED, **{step.value[0]: step for step in Moved}}
_SHOWN = frozenset(("created", "expires", "out_round", "cause", "error", "place"))
"""What a record has to look at: no garbage there makes it unreadable, and no step of its trail does."""
_COUNT = re.compile("[0-9]{1,15}")
_STEP = re.compile(f"([{''.join(_STEPS)}]) " + "([0-9]{1,15}) " * 4 + "(.*)")
_VERDICTS = {verdict.value.encode(): verdict for verdict in Verdict}
_LARGE = (
    "its {} takes {} bytes or more, and {} are read at most; if a call of this fleet has so much, raise "
    "FRAMEHOLD_MAX_JOURNAL on nodes and routers"
)
_OK = tuple(Reply(Verdict.OK, epoch) for epoch in range(64))


class Illegible(ValueError):
    """A stored record can't be read: it counts as missing (docs/protocol-store.md, "What is stored")."""


def milliseconds(seconds: float) -> int:
    """`seconds` as whole milliseconds for PEXPIRE, at least 1: an expiry of 0 would delete the key."""
    return max(1, ceil(seconds * 1000))


def seconds(milliseconds: str | int) -> float:
    """A stored time as seconds since 1970.

    Raises:
        ValueError: it is no number, or no time before the year 10000.
    """
    found = int(milliseconds)
    if not 0 <= found <= LATEST_MS:
        raise ValueError(f"{str(found)[:20]} is no time")
    return found / 1000


def encode(request: Request, max_journal: int) -> tuple[LuaScript, Arguments]:
    """The script that carries out `request`, and its ARGV. A journal of more than `max_journal` bytes is not read.

    Raises:
        ValueError: a text in the request has no UTF-8 form.
    """
    script, arguments = _ENCODERS[type(request)]
    found = arguments(request)
    return script, (*found, max_journal) if isinstance(request, Read | Claim) else found


def decode(request: Request, raw: Any) -> Reply:
    """The reply to `request`, from the raw reply of its script.

    Raises:
        Illegible: the stored record can't be read.
        ValueError: `raw` is no reply of a script, or the stored record is too large or of a newer release.
    """
    if raw == 1 and not isinstance(request, Read | Claim):
        # Only scripts with a fence answer 1.
        epoch = request.fence.epoch
        return _OK[epoch] if 0 <= epoch < 64 else Reply(Verdict.OK, epoch)
    try:
        if raw[0] == b"large":
            raise ValueError(_LARGE.format(raw[1].decode(), raw[2], raw[3]))
        verdict, epoch = _VERDICTS[raw[0]], raw[1]
        if len(raw) == 2:
            return Reply(verdict, epoch)
        if verdict is Verdict.MISSING:
            raise Illegible(raw[2].decode())
        journal = tuple(raw[3]) if len(raw) > 3 else ()
        return Reply(verdict, epoch, Stored(_readable(raw[2]), journal))
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _fence(
    fence: Fence, ttl: float, jh: str, answered: Answered | None = None, results: tuple[Done, ...] = ()
) -> Arguments:
    answers = _answers(answered) if answered is not None else _NO_ANSWERS
    return (*astuple(fence), milliseconds(ttl), jh, *answers, _results(results) if results else "")


def _results(results: tuple[Done, ...]) -> str:
    """The fields of effects whose results are recorded, a plus in front of those that had no intent."""
    return " ".join(f"{'' if done.intended else '+'}k:{done.key}" for done in results)


def _answers(answered: Answered) -> tuple[str, str, str]:
    """The field of the answers in the record, and its value in two parts: a script compares the first part, which has
    the digest, without reading JSON."""
    return f"a:{answered.round}", f"[{quote(answered.digest)},", f"[{','.join(map(quote, answered.keys))}]]"


def _head(head: Head | None, fence: Fence) -> Arguments:
    """The number of values of the head, and the values. Only a request that may create the record carries them; other
    requests carry 0."""
    if head is None or fence.epoch != 1 or fence.position != 0:
        return (0,)
    values = _head_values(head)
    return (len(values), *values)


def _head_values(head: Head) -> Arguments:
    return (
        *("boot", head.boot, "reentrant", int(head.reentrant), "tool", head.tool, "code", head.code),
        *("method", head.method, "target", head.target, "args", head.args, "principal", head.principal),
        *("strategy", head.strategy, "seal", head.seal),
    )


def _read(request: Read) -> Arguments:
    return ()


def _commit(request: Commit) -> Arguments:
    fence, batch = request.fence, request.batch
    head = _head(request.head, fence)
    return (
        *_fence(fence, request.ttl, batch.history, request.answered, request.results),
        *head,
        round(request.ran * 1000),
        *batch.entries,
    )


def _intent(request: Intent) -> Arguments:
    fence, batch = request.fence, request.batch
    head = _head(request.head, fence)
    fenced = _fence(fence, request.ttl, batch.history, request.answered, request.results)
    return (*fenced, *head, f"k:{request.key}", *batch.entries)


def _result(request: Result) -> Arguments:
    fence, batch = request.fence, request.batch
    fenced = _fence(fence, request.ttl, batch.history, request.answered, request.results)
    return (*fenced, *_head(request.head, fence), *batch.entries)


def _finish(request: Finish) -> Arguments:
    fence = _fence(request.fence, request.ttl, _NO_HISTORY, request.answered, request.results)
    ending = request.ending
    return (*fence, request.outcome, ending.how.value, round(request.ran * 1000), ending.error, ending.place)


def _verify(request: Verify) -> Arguments:
    return (*_fence(request.fence, request.ttl, _NO_HISTORY), request.incarnation)


def _release(request: Release) -> Arguments:
    return _fence(request.fence, request.ttl, _NO_HISTORY)


def _claim(request: Claim) -> Arguments:
    node = (request.owner, request.incarnation, request.boot)
    letter = _KEPT if request.kept else Moved.CLAIMED.value[0]
    rest = (int(request.reentrant), request.max_attempts, milliseconds(request.ttl), letter)
    return (*astuple(request.seen), request.evidence.value, *node, *rest)


def _heal(request: Heal) -> Arguments:
    seen = (1, *astuple(request.seen)) if request.seen is not None else (0, "", "", "")
    learned = [*_learned(request.answers, request.intents)]
    head = _head_values(request.head)
    fence = _fence(request.fence, request.ttl, _NO_HISTORY)
    batch = request.batch
    return (*fence, len(head), *head, *seen, batch.history, len(learned), *learned, *batch.entries)


def _learned(answers: Iterable[Answered], intents: Iterable[tuple[str, bool]]) -> Iterator[str]:
    for answered in answers:
        field, digest, keys = _answers(answered)
        yield from (field, digest + keys)
    for key, done in intents:
        yield from (f"k:{key}", "r" if done else "i")


_ENCODERS: dict[type[Any], tuple[LuaScript, Callable[[Any], Arguments]]] = {
    Read: (SCRIPTS["read"], _read),
    Commit: (SCRIPTS["commit"], _commit),
    Intent: (SCRIPTS["intent"], _intent),
    Result: (SCRIPTS["result"], _result),
    Finish: (SCRIPTS["finish"], _finish),
    Claim: (SCRIPTS["claim"], _claim),
    Verify: (SCRIPTS["verify"], _verify),
    Heal: (SCRIPTS["heal"], _heal),
    Release: (SCRIPTS["release"], _release),
}


def _readable(flat: Sequence[bytes]) -> Record:
    """A record from the reply of HGETALL: fields and values in turn.

    Raises:
        Illegible: it can't be read. scripts/record.lua finds that out of each of these records, too.
        ValueError: it is of a newer release.
    """
    version = dict(zip(flat[::2], flat[1::2], strict=True)).get(b"v", b"")
    if version != VERSION and version.isdigit() and len(version) <= 15 and int(version) > int(VERSION):
        raise ValueError(f"its format is {version[:8].decode()}, this release reads {VERSION.decode()}")
    if version != VERSION:
        raise Illegible(f"its format is {version[:8]!r}, this release reads {VERSION.decode()}")
    try:
        return _record(flat)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Illegible(f"{type(error).__name__}: {error}") from error


def _record(flat: Sequence[bytes]) -> Record:
    outcome = b""
    texts: dict[str, str] = {}
    for field, value in zip(flat[::2], flat[1::2], strict=True):
        if field == b"outcome":
            outcome = value
        else:
            name = field.decode()
            texts[name] = value.decode(errors="replace" if name in _SHOWN or name.startswith("s:") else "strict")
    return Record(
        RecordState(texts["state"]),
        _read_head(texts),
        texts["owner"],
        texts["inc"],
        count(texts["epoch"]),
        count(texts["round"]),
        count(texts["n"]),
        texts["jh"],
        count(texts["attempts"]),
        _shown(texts, "created") / 1000,
        _shown(texts, "expires") / 1000,
        {count(field[2:]): _read_answers(field, text) for field, text in texts.items() if field.startswith("a:")},
        {field[2:]: {"i": False, "r": True}[text] for field, text in texts.items() if field.startswith("k:")},
        outcome,
        _shown(texts, "out_round"),
        texts.get("cause", ""),
        _read_trail(texts),
        texts.get("error", ""),
        texts.get("place", ""),
    )


def count(text: str) -> int:
    """A stored count, or a time in milliseconds since 1970.

    Raises:
        ValueError: it is none.
    """
    if not _COUNT.fullmatch(text) or int(text) > LATEST_MS:
        raise ValueError(f"{text[:20]} is no count")
    return int(text)


def _shown(texts: dict[str, str], name: str) -> int:
    """A count that is only shown; 0 if there is none."""
    text = texts.get(name, "")
    return int(text) if _COUNT.fullmatch(text) and int(text) <= LATEST_MS else 0


def _read_trail(texts: dict[str, str]) -> tuple[TrailStep, ...]:
    """The steps of a call, as scripts/trail.lua stores them. A step that can't be read is left out. Records of earlier
    releases have no steps. Neither is an error."""
    found = (_STEP.fullmatch(text) for field, text in texts.items() if field.startswith("s:"))
    return ordered(
        TrailStep(_STEPS[letter], int(round_), int(epoch), node, int(at) / 1000, int(ran) / 1000, letter == _KEPT)
        for letter, round_, epoch, at, ran, node in (match.groups() for match in found if match)
    )


def _read_head(texts: dict[str, str]) -> Head:
    return Head(
        Boot(texts["boot"]),
        texts["reentrant"] == "1",
        texts["tool"],
        texts["code"],
        texts["method"],
        texts["target"],
        texts["args"],
        texts["principal"],
        texts["strategy"],
        texts["seal"],
    )


def _read_answers(field: str, text: str) -> Answered:
    found = json.loads(text, strict=False)
    digest, keys = found
    if not isinstance(found, list) or not isinstance(digest, str) or not all(isinstance(key, str) for key in keys):
        raise ValueError(f"field {field} is not [digest, [keys]]")
    "".join((digest, *keys)).encode()  # Half a surrogate pair is no text.
    return Answered(count(field[2:]), digest, tuple(keys))

"""What the store holds sealed: journal entries of each kind, lane and codec, and sealed values by purpose."""

from __future__ import annotations

import ast
import base64
import json
from typing import Any

from framehold.frame.payloads import Payloads
from framehold_core import journal
from framehold_core.errors import EffectFailed
from framehold_core.ids import Boot
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_core.requests import Head
from framehold_core.value import asdict, astuple, replace
from framehold_store.values import PackedResult, Values
from tests.compat.forms import CALL, Form, Meaning, sealer

values = Values(pickle=True, limit=1 << 20)
payloads = Payloads(sealer, values)


class Nameless(Exception):
    """Pickles of it are refused, so only its name is kept."""

    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


_ERRORS: dict[str, Exception] = {
    "LookupError('no such thing',)": LookupError("no such thing"),
    "JSONDecodeError('odd: line 1 column 1 (char 0)',)": json.JSONDecodeError("odd", "doc", 0),
    "EffectFailed tests.compat.journals.Nameless": Nameless("x"),
}


def _write_entry(means: Meaning) -> str:
    fields = {name: means[name] for name in ("key", "round", "fp", "codec")}
    kind, lane, value = EntryKind(means["kind"]), EntryLane(means["lane"]), means["value"]
    data = b"" if fields["codec"] == "none" else value.encode()
    if kind in (EntryKind.RESULT, EntryKind.EFFECT):
        error = _ERRORS.get(value)
        packed = values.pack(ast.literal_eval(value)) if error is None else values.pack_error(error)
        assert packed.codec == fields["codec"], (packed.codec, means)
        data = packed.data
    draft = Draft(kind, lane=lane, value=data, **fields)
    return journal.encode(journal.entry(means["n"], draft, payloads.sealed(CALL, means["n"], draft))).decode("ascii")


def _read_entry(text: str) -> Meaning:
    position = json.loads(text)[1]
    item = journal.decode(text.encode("ascii"), position)
    if item.kind in (EntryKind.RESULT, EntryKind.EFFECT):
        value = _told(payloads.packed(CALL, item))
    else:
        value = payloads.opened(CALL, item).decode()
    return {
        "n": item.n,
        "kind": item.kind.value,
        "key": item.key,
        "round": item.round,
        "lane": item.lane.value,
        "fp": item.fp,
        "codec": item.codec,
        "value": value,
    }


def _told(packed: PackedResult) -> str:
    outcome = values.unpack(packed.codec, packed.data)
    if isinstance(outcome.error, EffectFailed):
        return f"EffectFailed {outcome.error.kind}"
    if outcome.error is not None:
        return f"{type(outcome.error).__name__}{outcome.error.args!r}"
    return repr(outcome.value)


def _entry(n: int, kind: str, key: str, codec: str, value: str, **other: Any) -> Meaning:
    means = {"n": n, "kind": kind, "key": key, "round": 1, "lane": "main", "fp": "f" * 32}
    return {**means, "codec": codec, "value": value, **other}


_ENTRIES = (
    _entry(0, "value", "given", "json", '{"inputResponses":{}}', round=0, lane="side", fp="given"),
    _entry(1, "value", "uuid4-1", "json", '"6c1a8a2e-33aa-4f4e-9c4b-5b3f3c3c8a01"', round=0, fp="uuid4"),
    _entry(2, "intent", "plain", "text", "charge", round=0),
    _entry(3, "result", "plain", "json", "{'ran': 'plain', 'ü': [1, 2.5, None, True]}", round=0),
    _entry(4, "intent", "odd", "none", "", round=0),
    _entry(5, "result", "odd", "pickle", "('a tuple', 1)", round=0),
    _entry(6, "result", "fails", "raised-own", "LookupError('no such thing',)", lane="side"),
    _entry(7, "result", "oddly", "raised-pickle", "JSONDecodeError('odd: line 1 column 1 (char 0)',)"),
    _entry(8, "result", "by name", "raised", "EffectFailed tests.compat.journals.Nameless"),
    _entry(9, "ask", 'elicit "\u00fc\\\n', "text", "Which word?", round=2),
    _entry(10, "ask", "elicit:0:1", "none", "", round=2, lane="side"),
    _entry(11, "answer", "elicit:0:1", "json", '{"action":"accept","content":{"word":"x"}}', round=2),
    _entry(12, "effect", "again", "json", "{'ran': 'again'}", round=2),
)
ENTRIES = Form(_write_entry, _read_entry, _ENTRIES)


def _place(means: Meaning) -> Meaning:
    return {name: means[name] for name in ("call", "n", "kind", "key")}


def _write_seal(means: Meaning) -> str:
    sealed = sealer.seal(means["purpose"], means["value"].encode(), **_place(means))
    return json.dumps([means["purpose"], _place(means), base64.b64encode(sealed).decode()])


def _read_seal(text: str) -> Meaning:
    purpose, place, sealed = json.loads(text)
    value = sealer.open(purpose, base64.b64decode(sealed), **place).decode()
    return {"purpose": purpose, **place, "value": value}


_SEALS = (
    {"purpose": "journal", "call": CALL, "n": 3, "kind": "answer", "key": "one", "value": "{}"},
    {"purpose": "outcome", "call": CALL, "n": 12, "kind": "outcome", "key": "", "value": '=r{"content":[]}'},
    {"purpose": "token", "call": CALL, "n": 0, "kind": "seed", "key": "", "value": "sixteen bytes..."},
    {"purpose": "event", "call": "", "n": 0, "kind": "event", "key": "", "value": '["b","ToolsListChanged",""]'},
)
SEALS = Form(_write_seal, _read_seal, _SEALS)


def _write_head(means: Meaning) -> str:
    """The fields of a record's head, with digests in the place of texts, and its seal."""
    named = {name: sealer.digest(means[name].encode()) for name in ("args", "principal")}
    head = Head(**{**means, **named, "boot": Boot("")})
    return json.dumps([*astuple(head), sealer.head_seal(CALL, head)])


def _read_head(text: str) -> Meaning:
    *fields, _, seal = json.loads(text)
    head = replace(Head(*fields), seal=seal)
    assert sealer.is_sealed(CALL, head)
    texts = next(item for item in _HEADS if item["tool"] == head.tool)
    for name in ("args", "principal"):
        assert sealer.digest(texts[name].encode()) == getattr(head, name)
    told = asdict(head)
    return {**{name: told[name] for name in texts}, "args": texts["args"], "principal": texts["principal"]}


_HEAD = {"code": "c0de" * 8, "method": "tools/call", "target": "book", "args": "arguments {}", "principal": "user Ann"}
_HEADS: tuple[Meaning, ...] = (
    {"reentrant": True, "tool": "book", **_HEAD, "strategy": "hold"},
    {"reentrant": False, "tool": "pl\u00e4in", **_HEAD, "code": "", "strategy": "hold"},
)
HEADS = Form(_write_head, _read_head, _HEADS)

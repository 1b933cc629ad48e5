"""What the clients of both paths send: calls with their answers, and what may be wrong with one of their requests.

Each table has names, so that a difference is told by the names of what was drawn. A request that is twisted is sent
before the right one, which must go on as if the other one had never been there.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.ordinary.client import Headers, Party, Seen, Sent

_PREFIX = "io.modelcontextprotocol/"
VERSION, CLIENT, HAS = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientInfo", f"{_PREFIX}clientCapabilities"
META: dict[str, Any] = {
    VERSION: "2026-07-28",
    CLIENT: {"name": "client", "version": "1"},
    HAS: {"elicitation": {"form": {}, "url": {}}},
}
FORM = {"action": "accept", "content": {"units": "m"}}
COUNT = {"action": "accept", "content": {"n": 3}}
TEXTS = (
    *("a", "é", "\U0001f600", "x" * 300, "é" * 3000, "x" * 70_000, "x" * 900, "\\", '"', "\n\t", "\x7f", ""),
    *("0", "null", "{}", "1.0", "\ud800"),
)
NUMBERS: tuple[Any, ...] = (1, "2", -3, 10**20, 2.0, 2.5, 1e300, True, None, "x")
ANSWERS: tuple[Any, ...] = (
    *(FORM, COUNT, {"action": "decline"}, {"action": "cancel"}, {"action": "accept"}, {"action": "nope"}),
    *(None, 5, "x", [], {"error": {"code": 1, "message": "m"}}, {"result": FORM}, {"roots": []}),
    *({**FORM, "_meta": {"a": 1}}, {"action": "decline", "content": {"units": "m"}}),
    *({"action": "accept", "content": content} for content in ({}, {"units": 5}, None)),
    {"action": "accept", "content": {"n": 3.0, "units": "é\U0001f600"}},
    {"action": "accept", "content": {"n": 1e2, "units": "\ud800", "more": [1, {"a": 2.50}]}},
)
# Targets, with the arguments that are drawn for them, and how many rounds are answered at most.
CALLS: dict[str, tuple[Callable[[random.Random], Any], int]] = {
    "weather": (lambda draw: {"location": draw.choice(TEXTS)}, 1),
    "two": (lambda draw: draw.choice([{}, None, {"x": draw.choice(NUMBERS)}]), 2),
    "both": (lambda draw: draw.choice([{}, None]), 2),
    "plain": (lambda draw: {"text": draw.choice(TEXTS)}, 0),
    "number": (lambda draw: {"n": draw.choice(NUMBERS)}, 1),
    "shape": (lambda draw: {}, 1),
    "fails": (lambda draw: {"kind": draw.choice(["tool", "protocol", "other"]) + draw.choice(["", " late"])}, 1),
    "result": (lambda draw: {}, 1),
    "nothing": (lambda draw: {}, 1),
    "many": (lambda draw: {"n": draw.randint(0, 4)}, 4),
    "limited": (lambda draw: {"n": draw.choice([3, 9, "4"]), "tags": draw.choice([["a"], '["a"]', 5])}, 0),
    "sync": (lambda draw: {"a": draw.choice([1, []])}, 0),
    "by_hand": (lambda draw: {}, 1),
    "noisy": (lambda draw: {}, 1),
    "looks": (lambda draw: draw.choice([{}, {"more": [1.0, 2]}]), 1),
    "reads_its_body": (lambda draw: {}, 1),
    "url": (lambda draw: {}, 1),
    "marked": (lambda draw: {}, 1),
    "replayed": (lambda draw: {}, 1),
    "whose": (lambda draw: {}, 1),
    "brief": (lambda draw: {}, 1),
    "loose": (lambda draw: {"text": draw.choice(TEXTS)}, 1),
    "marks_its_meta": (lambda draw: {"who": str(draw.random())}, 0),
    "takes_from": (lambda draw: {"data": {"inner": {"x": 1}}}, 1),
    "asks_half": (lambda draw: {}, 1),
    "no such tool": (lambda draw: {}, 0),
    "resolved": (lambda draw: {"location": draw.choice(TEXTS)}, 1),
    "greeting": (lambda draw: draw.choice([{"name": draw.choice(TEXTS)}, {"name": 5}, {}, None]), 1),
    "silent": (lambda draw: {"name": draw.choice(("a", "b")), "more": draw.choice(TEXTS)}, 0),
    "place://Oslo": (lambda draw: draw.choice([None, None, {}]), 1),
    "all://places": (lambda draw: None, 0),
    "none://places": (lambda draw: None, 0),
}
METHODS = {"greeting": "prompts/get", "silent": "prompts/get"}
"""Methods of prompts in `CALLS`. Names with a colon are resources, all others are tools."""
METAS: dict[str, Any] = {
    "progress token": {**META, "progressToken": "p1"},
    "number as progress token": {**META, "progressToken": 7},
    "no progress token": {**META, "progressToken": None},
    "half a progress token": {**META, "progressToken": 1.5},
    "trace": {**META, "traceparent": f"00-{'1' * 32}-{'2' * 16}-01"},
    "own key": {**META, "x.y/z": {"a": 1}},
    "log level": {**META, f"{_PREFIX}logLevel": "info"},
    "wrong log level": {**META, f"{_PREFIX}logLevel": "loud"},
    "none": None,
    "empty": {},
    "number": 5,
    "list": [],
    "no client": {key: value for key, value in META.items() if key != CLIENT},
    "no capabilities": {key: value for key, value in META.items() if key != HAS},
    "wrong client": {**META, CLIENT: {"name": 5}},
    "other client": {**META, CLIENT: {"name": "é", "version": "2", "title": "T"}},
    "other revision": {**META, VERSION: "2025-06-18"},
    "can't be asked": {**META, HAS: {}},
    "only links": {**META, HAS: {"elicitation": {"url": {}}}},
    "wrong capabilities": {**META, HAS: {"elicitation": 3}},
}


@dataclass
class Parts:
    """A request before it is sent: `raw` is its body as bytes where that can't be a JSON value."""

    body: dict[str, Any]
    headers: Headers
    raw: bytes | None = None
    pieces: int = 1
    stays: float | None = None

    @property
    def params(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["params"]
        return found

    def sent(self) -> Sent:
        """The request as it goes out. A lone surrogate is escaped."""
        data = json.dumps(self.body).encode() if self.raw is None else self.raw
        return Sent(data, self.headers, self.pieces, self.stays)


Twist = Callable[[Parts], None]


def _header(name: str, value: str | None) -> Twist:
    def change(parts: Parts) -> None:
        parts.headers = [item for item in parts.headers if item[0] != name.encode()]
        if value is not None:
            parts.headers.append((name.encode(), value.encode("latin-1")))

    return change


def _twice(name: str, value: str) -> Twist:
    return lambda parts: parts.headers.append((name.encode(), value.encode()))


def _param(name: str, value: Any) -> Twist:
    return lambda parts: parts.params.update({name: value})


def _field(name: str, value: Any) -> Twist:
    return lambda parts: parts.body.update({name: value})


def _without(name: str) -> Twist:
    return lambda parts: parts.body.pop(name)


def _bytes(change: Callable[[bytes], bytes]) -> Twist:
    def changed(parts: Parts) -> None:
        parts.raw = change(json.dumps(parts.body).encode())

    return changed


def _more(value: bytes) -> Twist:
    return _bytes(lambda data: data.replace(b'"arguments": {', b'"arguments": {"more": ' + value + b", ", 1))


def _token(change: Callable[[str], str]) -> Twist:
    return lambda parts: parts.params.update(requestState=change(str(parts.params.get("requestState", "h1.x.y"))))


def _stays(seconds: float) -> Twist:
    return lambda parts: setattr(parts, "stays", seconds)


def _pieces(count: int) -> Twist:
    return lambda parts: setattr(parts, "pieces", count)


IDS: tuple[Any, ...] = (1.0, None, True, -5, "abc", "é\n", "", 10**30, [], "x" * 200)
HEADERS: dict[str, tuple[str | None, ...]] = {
    "accept": (None, "text/html", "application/json", "*/*", "text/event-stream, application/json;q=0.5"),
    "content-type": (None, "text/plain", "application/json; charset=utf-8"),
    "host": ("evil.test", "localhost:8000", None),
    "origin": ("http://evil.test", "http://127.0.0.1:8000"),
    "mcp-name": (None, "other", "", " weather ", "greeting", "place://Bern", "=?base64?d2VhdGhlcg==?=", "two"),
    "mcp-method": (None, "tools/list", "Tools/call", "prompts/get", "resources/read"),
    "mcp-protocol-version": (None, "2025-06-18", "2099-01-01"),
    "mcp-session-id": ("abc",),
    "authorization": ("Bearer x", "Bearer bob"),
    "framehold-call-id": ("0" * 32,),
    "framehold-proof": ("v1p.x",),
    "user-agent": ("agent", " padded "),
    "mcp-param-location": ("Paris",),
    "traceparent": (f"00-{'1' * 32}-{'2' * 16}-01",),
}
TWICE = (
    *(("mcp-name", "weather"), ("mcp-name", "other"), ("accept", "text/html"), ("host", "evil.test"), ("x", "1")),
    *(("mcp-protocol-version", "2026-07-28"), ("content-length", "5"), ("content-length", "99999999")),
)
PARAMS: dict[str, tuple[Any, ...]] = {
    "name": (5, None, "two", "nope"),
    "uri": ("place://Bern", 5),
    "arguments": (None, [], "x", 5, {}, {"location": "other"}, {"location": 1.0, "n": 1e2, "x": [1.5, 2.0]}),
    "inputResponses": (None, [], {}, 5, {"q": FORM}, {"q": 5}),
    "requestState": (None, "", 5, "h1.", "h1.x", "é", "x" * 3000, "Fown", "Aown"),
    "task": ({},),
}
TWISTS: dict[str, Twist] = {
    **{f"meta: {name}": _param("_meta", value) for name, value in METAS.items()},
    **{f"header {name}: {value}": _header(name, value) for name, values in HEADERS.items() for value in values},
    **{f"twice {name}: {value}": _twice(name, value) for name, value in TWICE},
    **{f"id {value!r:.30}": _field("id", value) for value in IDS},
    **{f"jsonrpc {value!r}": _field("jsonrpc", value) for value in ("1.0", 2.0, None)},
    **{f"method {value!r}": _field("method", value) for value in ("tools/list", "nope", 5)},
    **{f"no {name}": _without(name) for name in ("id", "jsonrpc", "method", "params")},
    "a field more": _field("extra", 1),
    **{f"{name} = {value!r:.30}": _param(name, value) for name, values in PARAMS.items() for value in values},
    "token cut": _token(lambda token: token[:-1]),
    "token changed": _token(lambda token: token[:-3] + ("A" if token[-3] != "A" else "B") + token[-2:]),
    "token padded": _token(lambda token: f"{token}="),
    "token of another form": _token(lambda token: token.replace("h1.", "h2.", 1)),
    "token as stateless": _token(lambda token: token.replace("h1.", "s1.", 1)),
    "token of another call": _token(lambda token: f"h1.{'0' * 32}{token[35:]}"),
    "token of another key": _token(lambda token: token.replace(".v1.", ".v2.", 1)),
    "token in capitals": _token(str.upper),
    **{
        name: _bytes(change)
        for name, change in {
            "empty": lambda data: b"",
            "cut": lambda data: data[:-1],
            "a byte more": lambda data: data + b"x",
            "white space": lambda data: b" " + data.replace(b": ", b" :\n\t") + b"\n",
            "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
            "UTF-16": lambda data: data.decode().encode("utf-16"),
            "a batch": lambda data: b"[" + data + b"]",
            "a name twice": lambda data: data.replace(b'"name": ', b'"name": "plain", "name": ', 1),
            "arguments twice": lambda data: data.replace(b'"arguments": ', b'"arguments": {"a": 1}, "arguments": ', 1),
            "nested too deep": lambda data: b"[" * 2000,
        }.items()
    },
    **{
        f"an argument more: {name}": _more(value)
        for name, value in {
            "NaN": b"NaN",
            "a large number": b"1" * 400,
            "an infinite number": b"1e999",
            "nested": b"[" * 300 + b"]" * 300,
            "Latin-1": b'"\xe9"',
            "a control character": b'"\x01"',
            "long": b'"' + b"y" * 2000 + b'"',
            "longer": b'"' + b"y" * 5000 + b'"',
            "the longest": b'"' + b"y" * 63_000 + b'"',
            "too long": b'"' + b"y" * 99_000 + b'"',
            "many items": b"[" + b"[]," * 900 + b"0]",
        }.items()
    },
    "in pieces": _pieces(7),
    "leaves at once": _stays(0.0),
    "leaves soon": _stays(0.02),
}  # fmt: skip
"""What may be wrong, or unusual, with one request."""


@dataclass
class Conversation:
    """One call. `answers` are given to all questions of its rounds, one after the other. Its request `step`, from 0, is
    sent as `twist` makes it, before it is sent as it should be. Each request is sent `copies` times at once. With
    `evicts` the frame of its call is gone before each retry, if the tool is marked. `user` is who sends them, if
    anybody is signed in."""

    tool: str
    arguments: Any
    answers: list[Any]
    twist: str = ""
    step: int = 0
    copies: int = 1
    evicts: bool = False
    user: str = ""

    async def hold(self, party: Party) -> list[Seen]:
        seen: list[Seen] = []
        for step in range(len(self.answers) + 1):
            answer = self.answers[step - 1] if step else None
            if self.evicts and step:
                await party.evict()
            made = self._request(party, answer if step else _NONE)
            if self.twist and step == self.step:
                kept, tokens = party.message, list(party.tokens)
                twisted = self._request(party, answer if step else _NONE)
                TWISTS[self.twist](twisted)
                seen.append(await party.send(twisted.sent()))
                party.message, party.tokens = kept, tokens
            if self.copies > 1 and step:
                seen += sorted(await _at_once(party, made.sent(), self.copies))
            else:
                seen.append(await party.send(made.sent()))
            if not party.asked:
                break
        return seen

    def sent(self, party: Party) -> Sent:
        return self._request(party, _NONE).sent()

    def retry(self, party: Party, answer: Any) -> Sent:
        return self._request(party, answer).sent()

    def _request(self, party: Party, answer: Any) -> Parts:
        params: dict[str, Any] = {"uri" if "://" in self.tool else "name": self.tool, "_meta": META}
        if self.arguments is not None:
            params["arguments"] = self.arguments
        if answer is not _NONE:
            params["inputResponses"] = dict.fromkeys(party.asked, answer)
            params["requestState"] = (party.message.get("result") or {}).get("requestState", party.tokens[-1])
        method = "resources/read" if "://" in self.tool else METHODS.get(self.tool, "tools/call")
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        shown = [(b"authorization", f"Bearer {self.user}".encode())] if self.user else []
        return Parts(body, [*_headers(method, self.tool), *shown])


_NONE: Any = object()


async def _at_once(party: Party, sent: Sent, copies: int) -> list[Seen]:
    return list(await asyncio.gather(*(party.send(sent) for _ in range(copies))))


def _headers(method: str, name: str) -> Headers:
    found: Mapping[str, str] = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        "mcp-name": name,
    }
    return [(name.encode(), value.encode()) for name, value in found.items()]


def each_twist() -> Iterator[Conversation]:
    """Each twist, in a first request and in a retry of a client that the server knows already."""
    for name, arguments in {"weather": {"location": "Oslo"}, "greeting": {"name": "Ann"}, "place://Oslo": None}.items():
        yield Conversation(name, arguments, [FORM])
        for twist, step in itertools.product(TWISTS, (0, 1)):
            yield Conversation(name, arguments, [FORM], twist, step)


def each_eviction() -> Iterator[Conversation]:
    """Each tool with each answer to its questions, and each twist of a retry, where no frame waits for it."""
    for talk in (*each_answer(), *each_twist()):
        for copies in (1, 3):
            yield replace(talk, evicts=True, copies=copies)


def each_answer() -> Iterator[Conversation]:
    """Each tool with each answer to its first question, and a right one after that."""
    for tool, (arguments, rounds) in CALLS.items():
        for number, answer in enumerate(ANSWERS if rounds else ANSWERS[:2]):
            yield Conversation(tool, arguments(random.Random(number)), [answer, *[FORM, COUNT] * 2][: rounds + 1])


def drawn(seed: int) -> Iterator[Conversation]:
    """Conversations without end. Half of them have a twist."""
    draw = random.Random(seed)
    while True:
        tool = draw.choice(list(CALLS))
        arguments, rounds = CALLS[tool]
        answers = [draw.choice(ANSWERS if draw.random() < 0.3 else (FORM, COUNT)) for _ in range(rounds)]
        twist = draw.choice(list(TWISTS)) if draw.random() < 0.5 else ""
        copies, step = draw.choice((1, 1, 1, 1, 4)), draw.randint(0, rounds)
        yield Conversation(tool, arguments(draw), answers, twist, step, copies, draw.random() < 0.2)

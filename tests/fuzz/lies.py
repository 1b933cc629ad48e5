"""Garbage and well-formed lies in every kind of key, drawn from a seed: what a writer of the store who lacks the keys
of the fleet may leave there."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import redis

from framehold_store.keys import Keys

from .part import mangled

GARBAGE = (
    b"", b"0", b"-1", b"1e999", b"NaN", b"9" * 400, b"-" + b"9" * 30, b"9007199254740993", b"18446744073709551616",
    b" 1", b"1 ", b"1_0", b"\xd9\xa1", b"+1", b"0x1", b"1.5", b"null", b"true", b"[]", b"{}", b"[[]]", b"[1]",
    b"[1,2,3,4,5,6,7,8,9]", b'["a",["b"]]', b'["a",[1]]', b"[" * 20_000, b'{"a":' * 2_000, b'"', b"\xff\xfe", b"\x00",
    b"i", b"r", b"open", b"done", b"released", b"lost", b"a b c d e f", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
    b"x" * 3_000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2, 99, 1.0, 1.5, 10**18, 2**63, 10**30, 10**400, -(10**30), "", "a", "1", [], {}, [[]], ["a"],
    {"a": 1}, "\ud83d", "x" * 3_000, "../..", "http://127.0.0.1:1", "http://[::1", "http://a b", "ftp://a", "live",
    "draining",
)  # fmt: skip
_FIELDS = (
    b"v", b"state", b"owner", b"inc", b"epoch", b"round", b"n", b"jh", b"attempts", b"created", b"expires",
    b"outcome", b"out_round", b"cause", b"error", b"place", b"boot", b"reentrant", b"tool", b"code", b"method",
    b"target", b"args", b"principal", b"strategy", b"a:1", b"a:2", b"a:x", b"a:99", b"k:effect", b"k:", b"s:1",
    b"s:x", b"x", b"",
)  # fmt: skip


@dataclass
class Planter:
    """Writes lies into the store of one fleet. `calls` are those that may be lied about, `nodes` the names of
    nodes."""

    client: Any
    keys: Keys
    draw: Random
    calls: Sequence[str]
    nodes: Sequence[str]

    def plant(self) -> str:
        """Write one lie; which."""
        kinds = (
            *(self._record, self._journal, self._both) * 3,
            self._lease,
            self._lease,
            self._stranger,
            self._members,
        )
        kind: Callable[[], str] = self.draw.choice(
            (*kinds, self._tools, self._log, self._sample, self._code, self._message, self._type, self._no_call)
        )
        try:
            return f"{kind.__name__[1:]}: {kind()}"
        except (redis.ResponseError, ValueError, TypeError, RecursionError):
            # An earlier lie stands there.
            return f"{kind.__name__[1:]}: nothing"

    def _call(self) -> tuple[str, str]:
        return self.keys.call(self.draw.choice(self.calls))

    def _garbage(self) -> bytes:
        return self.draw.choice(GARBAGE)

    def spoiled(self, data: bytes) -> bytes:
        """A stored value: another one, cut, with a bit flipped, or with one of its members changed."""
        match self.draw.randrange(5):
            case 0:
                return self._garbage()
            case 1 | 2 | 3:
                return mangled(self.draw, data, (b" ", b"\x00", b"]", b",1]", data))
        try:
            return json.dumps(self._changed(json.loads(data))).encode()
        except (ValueError, RecursionError):
            return self._garbage()

    def _changed(self, value: Any) -> Any:
        """JSON with one member changed, or one more, or one less."""
        if isinstance(value, dict) and value:
            key = self.draw.choice(list(value))
            rest = {name: item for name, item in value.items() if name != key}
            return self.draw.choice((rest, {**rest, key: self._changed(value[key])}, {**value, "x": 1}))
        if isinstance(value, list) and value:
            at = self.draw.randrange(len(value))
            new = self.draw.choice(([self._changed(value[at])], [self._changed(value[at])], [], [value[at], 1]))
            return [*value[:at], *new, *value[at + 1 :]]
        return self.draw.choice(VALUES)

    def _record(self) -> str:
        (key, _), (other, _) = self._call(), self._call()
        if self.draw.random() < 0.05:
            self.client.delete(key)
            return "deleted"
        field = self.draw.choice((*_FIELDS, *self.client.hkeys(key)))
        own, others = self.client.hget(key, field), self.client.hget(other, field)
        value = self.draw.choice((None, self._garbage(), others, self.spoiled(own or b"")))
        if value is None:
            self.client.hdel(key, field)
        else:
            self.client.hset(key, field, value)
        return f"{field!r} = {value!r:.200}"

    def _journal(self) -> str:
        (_, key), (_, other) = self._call(), self._call()
        before, strange = self.client.lrange(key, 0, -1), self.client.lrange(other, 0, -1)
        if not before:
            return "none"
        at = self.draw.randrange(len(before))
        new = self.draw.choice(
            (
                before[::-1],
                before[:at],
                before[at + 1 :],
                [*before, before[at]],
                [*before[:at], self.spoiled(before[at]), *before[at + 1 :]],
                [*before[:at], self.spoiled(before[at]), *before[at + 1 :]],
                [*before[:at], *strange[at : at + 1], *before[at + 1 :]],
                strange,
                [*before, *strange],
            )
        )
        self.client.delete(key)
        if new:
            self.client.rpush(key, *new)
        return f"{new!r:.300}"

    def _both(self) -> str:
        """Record and journal of another call."""
        for mine, other in zip(self._call(), self._call(), strict=True):
            if mine != other and (kept := self.client.dump(other)) is not None:
                self.client.restore(mine, 60_000, kept, replace=True)
        return "of another call"

    def _no_call(self) -> str:
        """A record of a call that never was."""
        key, _ = self.keys.call(f"{self.draw.getrandbits(128):032x}")
        if (kept := self.client.dump(self._call()[0])) is not None:
            self.client.restore(key, 60_000, kept, replace=True)
        self.client.hset(key, self.draw.choice(_FIELDS), self._garbage())
        return key

    def _lease(self) -> str:
        """Another value under the name of a node that lives."""
        node, other = self.draw.choice(self.nodes), self.draw.choice(self.nodes)
        value = self.spoiled(self.client.get(self.keys.node(other)) or self._garbage())
        self.client.set(self.keys.node(node), value, px=60_000)
        self.client.publish(self.keys.changes, self.keys.node(node))
        return f"{node} = {value!r:.300}"

    def _stranger(self) -> str:
        """A well-formed lease of a node that nobody knows."""
        name, known = f"stranger-{self.draw.randrange(3)}", self.keys.node(self.draw.choice(self.nodes))
        row = json.loads(self.client.get(known) or b"[]")
        if self.draw.random() < 0.5:
            row = self._changed(row)
        value = json.dumps([*row[:5], name, *row[6:]])
        self.client.set(self.keys.node(name), value, px=60_000)
        self.client.zadd(self.keys.nodes, {name: time.time() * 1000 + 60_000})
        self.client.publish(self.keys.changes, self.keys.node(name))
        return f"{value!r:.300}"

    def _members(self) -> str:
        """Names on the list of nodes that are none, or with times that are none."""
        name = self.draw.choice((b"no name!", b"\xff", b"", b"a" * 300, b"late", *map(str.encode, self.nodes)))
        score = self.draw.choice((0, -1, 1e300, float("inf"), float("-inf"), time.time() * 1000 + 60_000))
        self.client.zadd(self.keys.nodes, {name: score})
        self.client.publish(
            self.keys.changes, self.draw.choice((b"", b"\xff", self.keys.nodes, self.keys.node("late")))
        )
        return f"{name!r} until {score}"

    def _tools(self) -> str:
        field = self.draw.choice((b"p:ask", b"d:ask", b"p:plain", b"d:plain", b"p:nobody", b"p:", b"d:\xff", b"x", b""))
        told = json.dumps([1, time.time(), "somebody", "because"]).encode()
        value = self.draw.choice((told, self.spoiled(told), self.spoiled(b'[["b",1]]'), b'[["b",1],["c",1],["d",1]]'))
        self.client.hset(self.keys.tools, field, value)
        return f"{field!r} = {value!r:.200}"

    def _log(self) -> str:
        entries = [fields.get(b"e", b"") for _, fields in self.client.xrange(self.keys.log, count=50)]
        known = [*entries, b'{"event":{}}']
        value, field = self.spoiled(self.draw.choice(known)), self.draw.choice((b"e", b"e", b"e", b"x"))
        place = self.draw.choice(("*", "*", "*", f"{int(time.time() * 1000) + 10**10}-1", f"{2**64 - 1}-{2**64 - 1}"))
        self.client.xadd(self.keys.log, {field: value}, id=place)
        return f"{place} {field!r} = {value!r:.200}"

    def _sample(self) -> str:
        """Figures of several slots that have just ended."""
        shown = {
            "nodes": {"a": {"rounds": 1.0, "p99": 0.1, "parked": 1}},
            "tools": {"ask": {"parked": 1}},
            "release": "1",
        }
        told = list[bytes]()
        for step, ago in ((10, 1), (10, 2), (10, 3), (10, 5), (10, 8), (60, 1), (60, 2)):
            text = self.spoiled(json.dumps(shown).encode())
            packed = zlib.compress(text)
            value = self.draw.choice((text, packed, packed, self.spoiled(packed), zlib.compress(b"[" * 5_000_000)))
            self.client.set(self.keys.sample(step, int(time.time()) // step - ago), value, px=60_000)
            told.append(text[:100])
        return f"{told!r}"

    def _code(self) -> str:
        """Kept code of another digest, or of none."""
        found = list(self.client.scan_iter(self.keys.code("0" * 32)[:-32] + "*"))
        if not found:
            return "nothing"
        key, other = self.draw.choice(found), self.draw.choice(found)
        value = self.draw.choice((self.spoiled(self.client.get(key)), self.client.get(other), b""))
        self.client.set(key, value, px=60_000)
        return f"{key!r} = {value!r:.60}"

    def _message(self) -> str:
        channel, value = self.draw.choice((self.keys.events, self.keys.changes)), self._garbage()
        self.client.publish(channel, value)
        return f"{channel} = {value!r:.60}"

    def _type(self) -> str:
        """A value of another type."""
        fixed = (self.keys.nodes, self.keys.tools, self.keys.log, *map(self.keys.node, self.nodes))
        slot = self.keys.sample(10, int(time.time()) // 10 - self.draw.choice((0, 1)))
        key = self.draw.choice((*fixed, slot, *self._call(), *self._call(), *self._call()))
        self.client.delete(key)
        match self.draw.randrange(6):
            case 0:
                self.client.set(key, self._garbage())
            case 1:
                self.client.rpush(key, self._garbage(), b"1")
            case 2:
                self.client.hset(key, b"v", self._garbage())
            case 3:
                self.client.sadd(key, self._garbage())
            case 4:
                self.client.zadd(key, {self._garbage(): 1})
            case _:
                self.client.xadd(key, {"e": self._garbage()})
        return f"{key} is a {self.client.type(key).decode()}"

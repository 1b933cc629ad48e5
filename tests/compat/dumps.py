"""Whole calls as they stood in a store, with the token that their client had, and nodes that carry them on.

A dump is a file of JSON: what is bytes in Redis is text in it, but for the sealed outcome, which is base64. The
instants in it are long gone; whoever reads it sets the clock of tokens back to when its token was minted.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from mcp.server import request_state

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from tests.compat.tools import Life, server
from tests.kit.client import Caller, Reply, accepted
from tests.kit.nodes import served
from tests.kit.redis_server import RedisServer

FIXTURES = Path(__file__).parent / "fixtures"
NAMESPACE = "compat"
"""Sealed values are bound to it."""
KEY = "a key of the fixtures, of 32 bytes and more"
DATABASE = 7
"""Of a Redis that other tests use too."""


def versions() -> list[str]:
    """The names of all versions, the newest last."""
    return sorted((path.name for path in FIXTURES.iterdir()), key=lambda name: int(name.removeprefix("v")))


@dataclass(frozen=True)
class Dump:
    """One call at one moment. `asked` are the questions of the round that `token` names, by key; `end` is what its
    client hears at last, or part of it, and `ran` which effects run until then. `record` and `journal` are what the
    store held, if it held anything."""

    tool: str
    arguments: dict[str, Any]
    token: str
    minted: float
    asked: dict[str, str]
    end: str
    ran: list[str]
    record: dict[str, str]
    journal: list[str]

    @classmethod
    def load(cls, path: Path) -> Dump:
        """Read its file."""
        return cls(**json.loads(path.read_text()))

    @property
    def call(self) -> str:
        """The id that its token shows."""
        return self.token.split(".")[1]


def keys(call: str) -> tuple[str, str]:
    """Record and journal of a call, as version 1 names them."""
    return f"fh:{NAMESPACE}:{{{call}}}:r", f"fh:{NAMESPACE}:{{{call}}}:j"


def store_url(redis: RedisServer) -> str:
    """The database of these tests."""
    return f"{redis.url}/{DATABASE}"


@contextmanager
def admin(redis: RedisServer) -> Iterator[Any]:
    """A client of that database, for those who look behind the store."""
    with redis.client() as client:
        client.select(DATABASE)
        yield client


def taken(redis: RedisServer, call: str) -> tuple[dict[str, str], list[str]]:
    """What the store holds of a call."""
    with admin(redis) as client:
        fields = client.hgetall(keys(call)[0])
        journal = client.lrange(keys(call)[1], 0, -1)
    record = {name.decode(): _text(name, value) for name, value in sorted(fields.items())}
    return record, [bytes(item).decode("ascii") for item in journal]


def put(redis: RedisServer, dump: Dump) -> None:
    """Give the store what it held of a call, if it held anything."""
    if not dump.record:
        return
    record, journal = keys(dump.call)
    with admin(redis) as client:
        client.delete(record, journal)
        client.hset(record, mapping={name: _raw(name, value) for name, value in dump.record.items()})
        if dump.journal:
            client.rpush(journal, *dump.journal)
        for key in (record, journal):
            client.expire(key, 600)


def _text(name: bytes, value: bytes) -> str:
    return base64.b64encode(value).decode() if name == b"outcome" else value.decode()


def _raw(name: str, value: str) -> bytes:
    return base64.b64decode(value) if name == "outcome" else value.encode()


@contextmanager
def at(instant: float) -> Iterator[None]:
    """Tokens are read, and minted, as if it were `instant` (seconds since 1970) now; time goes on from there."""
    ahead = time.time() - instant
    with mock.patch.object(request_state, "time", SimpleNamespace(time=lambda: time.time() - ahead)):
        yield


def answers(asked: dict[str, str]) -> dict[str, Any]:
    """What the client of the fixtures answers: to "one?" it is ONE."""
    return {key: accepted(word=text.rstrip("?").upper()) for key, text in asked.items()}


class Client(Caller):
    """The client of the fixtures, at a node whose innards are at hand."""

    runtime: Runtime

    async def go_on(self, dump: Dump) -> Reply:
        """Answer the round that a dump's token names."""
        return await self.retry(dump.tool, dump.token, answers(dump.asked), arguments=dump.arguments)

    async def finish(self, dump: Dump, reply: Reply) -> Reply:
        """Answer what is asked until nothing is."""
        while "result" in reply.message and reply.result["resultType"] == "input_required":
            result = answers(questions(reply))
            reply = await self.retry(dump.tool, reply.token, result, arguments=dump.arguments)
        return reply


def questions(reply: Reply) -> dict[str, str]:
    """The questions of a reply by key."""
    return {key: question["params"]["message"] for key, question in reply.asked.items()}


@asynccontextmanager
async def node(redis: RedisServer, name: str, life: Life, **settings: Any) -> AsyncIterator[Client]:
    """A node of the code that is here now, over that database, and a client at it."""
    common = {"store_url": store_url(redis), "namespace": NAMESPACE, "keys": (KEY,), "lease_ttl": 30.0}
    app = framehold.asgi(server(life), Settings(node_id=name, **{**common, **settings}))
    async with served(app) as url:
        client = Client(url)
        client.runtime = app.attached.runtime
        async with client:
            yield client

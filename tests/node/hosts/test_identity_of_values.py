"""A handler's tests of what it recorded say the same in whichever way its call goes on."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from framehold.testing import RehearsalFailed, rehearsed
from tests.kit.client import Caller, Reply, accepted
from tests.kit.processes import ROOT
from tests.kit.redis_server import RedisServer
from tests.node.code.releases import release
from tests.node.hosts.kinds_of_values import (
    HELD,
    KINDS,
    SERVERS,
    TESTS,
    asking_otherwise,
    files,
    table,
    with_other_classes,
)
from tests.node.hosts.test_kept_code import node

pytestmark = pytest.mark.anyio

Files = dict[str, str]
Change = Callable[[Files], Files]
WAYS: dict[str, tuple[Change | None, dict[str, Any]]] = {
    "held": (None, {}),
    "evicted": (None, {"rehearse": True}),
    "killed": (lambda release: release, {}),
    "kept, its classes as they were": (asking_otherwise, {}),
    "kept, its classes changed": (with_other_classes, {}),
}
"""How a call goes on: the change that a second node serves, None for the same node; and settings."""


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())


@asynccontextmanager
async def serving(folder: Path, text: Files, redis: RedisServer, name: str, **settings: Any) -> AsyncIterator[Caller]:
    with release(folder, text) as module:
        async with node(module, redis, name, **settings) as caller:
            yield caller


async def one(caller: Caller, kind: str, held: str, before: Reply | None = None) -> Reply:
    more = {}
    if before is not None:
        answers = {key: accepted(word="w") for key in before.asked}
        more = {"requestState": before.token, "inputResponses": answers}
    return await caller.send("tools/call", {"name": "tool", "arguments": {"kind": kind, "held": held}, **more})


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_recorded_value_is_what_it_was(server: str, way: str, redis: RedisServer, tmp_path: Path) -> None:
    """Every cell of the table is true: kinds of values x where they are held x tests."""
    change, settings = WAYS[way]
    settings = {**settings, "namespace": tmp_path.name, "lease_ttl": 10.0}
    cells = [(kind, held) for kind in KINDS for held in HELD]
    async with AsyncExitStack() as first:
        caller = await first.enter_async_context(serving(tmp_path / "a", files(server), redis, "a", **settings))
        asked = await asyncio.gather(*(one(caller, *cell) for cell in cells))
        assert all(reply.messages == ["early question?"] for reply in asked), [reply.message for reply in asked][:3]
        if change is None:
            done = await asyncio.gather(*(one(caller, *cell, reply) for cell, reply in zip(cells, asked, strict=True)))
    if change is not None:
        async with serving(tmp_path / "b", change(files(server)), redis, "b", **settings) as caller:
            done = await asyncio.gather(*(one(caller, *cell, reply) for cell, reply in zip(cells, asked, strict=True)))
    found = {
        cell: dict(zip(TESTS, json.loads(_text(reply)), strict=False)) for cell, reply in zip(cells, done, strict=True)
    }
    wrong = {cell: [name for name in TESTS if not tests.get(name)] for cell, tests in found.items()}
    assert {cell: names for cell, names in wrong.items() if names} == {}
    assert {reply.headers.get("framehold-code") for reply in done} == {"kept" if way.startswith("kept") else None}
    assert len(found) * len(TESTS) == 680


async def test_a_rehearsal_has_the_values_that_were_recorded(tmp_path: Path) -> None:
    """Also in a way that gets an effect's result in place of a run."""
    wrong = {}
    with release(tmp_path / "a", files("MCPServer")) as module:
        for kind, held in itertools.product(KINDS, HELD):
            call = {"kind": kind, "held": held}
            try:
                await rehearsed(module.server, "tool", call, answers=[{"word": "w"}], ways=["replay"])
            except RehearsalFailed as error:
                wrong[kind, held] = str(error)
    assert wrong == {}


def test_the_docs_have_the_table_of_kinds() -> None:
    assert table() in (ROOT / "docs" / "writing-tools.md").read_text()


def _text(reply: Reply) -> str:
    assert not reply.result.get("isError"), reply.text
    return reply.text

"""An operator of nodes: asks their `/admin` paths, as whoever it likes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from mcp.server.mcpserver import Context

import framehold
from framehold.engine.observer import Observer
from framehold.engine.runtime import Runtime
from framehold.engine.slot import Slot
from framehold_core.ids import prefix
from framehold_fleet.members.event_writer import EventWriter
from framehold_fleet.models.events import LogEntry
from framehold_store.base import MAX_EVENTS
from tests.kit import proofs, serving
from tests.kit.client import Caller
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said

TOKEN = "an-admin-token-of-tests"
SHOWN = {"authorization": f"Bearer {TOKEN}"}


class Answer(NamedTuple):
    """What a node said to an operator."""

    status: int
    json: Any
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        """What was done, or why not."""
        return str(self.json.get("done") or self.json["error"])


class Operator:
    """Asks one node, with the admin token unless told otherwise."""

    def __init__(self, url: str) -> None:
        self.root = url.removesuffix("/mcp")
        self._http = proofs.client()

    async def __aenter__(self) -> Operator:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, headers: Mapping[str, str] = SHOWN, **more: Any) -> Answer:
        response = await self._http.request(method, f"{self.root}/admin/{path}", headers=headers, **more)
        assert response.headers["content-type"] == "application/json", response.text
        return Answer(response.status_code, response.json(), response.headers)

    async def leases(self, **query: Any) -> Any:
        """A page of calls."""
        answer = await self.ask("GET", "leases", params=query)
        assert answer.status == 200, answer
        return answer.json

    async def cancel(self, call: str) -> Answer:
        return await self.ask("POST", "cancel", json={"call_id": call})

    async def evict(self, call: str) -> Answer:
        return await self.ask("POST", "evict", json={"call_id": call})


def call_of(token: str) -> str:
    """The call that a token names."""
    return token.split(".")[1]


@framehold.reentrant
async def marked(ctx: Context, name: str = "") -> str:
    """Asks twice; may be entered again."""
    first = said(await ctx.elicit(f"{name} one?", Word))
    second = said(await ctx.elicit(f"{name} two?", Word))
    return f"{name} {first} {second}"


async def unmarked(ctx: Context, name: str = "") -> str:
    """Asks once; may be entered once."""
    return f"{name} {said(await ctx.elicit(f'{name} one?', Word))}"


class Noted(Observer):
    """Keeps the events of a node: kind, text, call and tool."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []

    def happened(self, kind: str, text: str, slot: Slot | None = None, lost: int = 0) -> None:
        about = ("", "") if slot is None else (prefix(slot.call.id), slot.tool)
        self.events.append((str(kind), text, *about))


def noted(runtime: Runtime) -> Noted:
    """Keeps the events of this node from now on."""
    made = Noted()
    runtime.observers.add(made)
    return made


class Node(NamedTuple):
    """One node of a pair: its runtime, a client of it, its operator, and what writes its events."""

    runtime: Runtime
    caller: Caller
    operator: Operator
    writer: EventWriter[LogEntry]

    async def happened(self) -> dict[str, list[dict[str, Any]]]:
        """The events and takeovers of this node that the event log of the fleet has."""
        assert await self.writer.flush()
        stored = await self.runtime.store.events(count=MAX_EVENTS)
        entries = [LogEntry.model_validate_json(item.entry) for item in stored]
        name = self.runtime.heartbeat.lease.node
        events = [item.event.model_dump() for item in entries if item.event is not None and item.event.node_id == name]
        found = {
            (item.takeover.call, item.takeover.epoch): item.takeover.model_dump()
            for item in entries
            if item.takeover is not None and item.takeover.to_node == name
        }
        return {"events": events, "takeovers": [*found.values()]}


@asynccontextmanager
async def pair(
    redis: RedisServer, namespace: str, *tools: Callable[..., Any], **settings: Any
) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes in this process that share a store, with an operator of each."""
    told = {"admin_token": TOKEN, **settings}
    async with serving.pair(redis, namespace, *tools, **told) as both, AsyncExitStack() as stack:
        made: list[Node] = []
        for app, caller in both:
            operator = await stack.enter_async_context(Operator(caller.url))
            made.append(Node(app.attached.runtime, caller, operator, app.attached.event_writer))
        yield made[0], made[1]

"""A router's pages in this process over fake nodes, which hold 100,000 calls and have names that would harm a page.

The law: the nodes answer as real ones do (sorted, filtered and paged by the rules of the API), from lists that were
made once; so what is measured is the router and the page.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.test_utils import TestServer

from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models import paging
from framehold_fleet.models.calls import EndedCallView, LeaseQuery
from framehold_fleet.models.choices import Sort
from framehold_store.base import MAX_EVENTS
from tests.kit.operators import TOKEN
from tests.router.cast import Cast, guarded, member, said, saying

CALLS = 100_000
NODES = ("one", "two", "three", "four", "five")
MARKUP = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
HOSTILE = (
    MARKUP,
    "\"'><svg onload=document.title='taken'>&amp;&lt;b&gt;",
    "\u202egnp.exe \u2067\u05d0\u05d1\u05d2",
    "long " + "m" * 195,
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \u0e01\u0e33\u0e34 z\u0351\u0310\u0343\u030c",
    "${alert(1)} {{7*7}} %00 \\u003cscript\\u003e javascript:alert(1)",
)
"""Names of tools and nodes."""
TOOLS = ("book_trip", "refund", "sign_contract", "deploy", "review", *HOSTILE)


class Row(NamedTuple):
    """One call, by what it is listed by."""

    call_id: str
    tool: str
    state: str
    node_id: str
    began: float
    expires: float
    journal_bytes: int
    replayed: bool

    def view(self) -> dict[str, Any]:
        """As a node tells of it."""
        rounds = 1 + self.journal_bytes % 4
        more = {"method": "tools/call", "phase": self.state, "resumed": self.began + 5, "entries": rounds}
        reentrant, epoch = self.journal_bytes % 3 > 0, 2 if self.replayed else 1
        return {**self._asdict(), **more, "reentrant": reentrant, "epoch": epoch, "round": rounds}


class Listed:
    """The calls of one fake node."""

    def __init__(self, rows: list[Row]) -> None:
        self._ordered = {sort: sorted(rows, key=partial(paging.key, sort)) for sort in Sort}
        # Nodes of a fleet select side by side, a millisecond for 2000 calls; these are one process.
        self._selected = cache(self._select)
        for tool in TOOLS:
            self._selected(LeaseQuery(tool=tool, limit=1))
        for query in ({"state": "parked"}, {"state": "running"}, {"replayed": True}):
            self._selected(LeaseQuery.model_validate({**query, "limit": 1}))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """`GET /admin/leases`."""
        query = LeaseQuery.model_validate(dict(request.query))
        rows = self._selected(query.model_copy(update={"after": None, "limit": 1, "descending": False}))
        after = None if query.after is None else paging.decode(query.after, query.sort)
        place = partial(paging.key, query.sort)
        if query.descending:
            end = len(rows) if after is None else bisect.bisect_left(rows, after, key=place)
            page, more = rows[max(0, end - query.limit) : end][::-1], end > query.limit
        else:
            start = 0 if after is None else bisect.bisect_right(rows, after, key=place)
            page, more = rows[start : start + query.limit], start + query.limit < len(rows)
        last: Any = page[-1] if more else None
        following = paging.encode(paging.key(query.sort, last)) if more else None
        body = {"items": [row.view() for row in page], "total": len(rows), "next": following}
        return web.Response(text=json.dumps(body), content_type="application/json")

    def _select(self, query: LeaseQuery) -> list[Row]:
        rows = self._ordered[query.sort]
        for name, wanted in (("state", query.state), ("tool", query.tool), ("node_id", query.node)):
            if wanted is not None:
                rows = [row for row in rows if getattr(row, name) == wanted]
        if query.replayed is not None:
            rows = [row for row in rows if row.replayed is query.replayed]
        if query.call is not None:
            rows = [row for row in rows if row.call_id.startswith(query.call)]
        if query.expiring is not None:
            until = time.time() + query.expiring
            rows = [row for row in rows if row.expires <= until]
        return rows


def rows_of(node: str, count: int, rng: random.Random) -> list[Row]:
    """So many calls of one node, of which one in ten runs."""
    now = time.time()
    return [
        Row(
            call_id=f"{rng.getrandbits(128):032x}",
            tool=rng.choice(TOOLS),
            state="parked" if rng.random() < 0.9 else "running",
            node_id=node,
            began=now - rng.uniform(1, 3000),
            expires=now + rng.uniform(30, 3600),
            journal_bytes=rng.randrange(200, 60_000),
            replayed=rng.random() < 0.05,
        )
        for _ in range(count)
    ]


def ended_of(rows: list[Row]) -> list[EndedCallView]:
    """Calls that ended on one node, its share of what a fleet keeps at most; every other one failed."""
    now = time.time()
    ends = ({"outcome": "completed"}, {"outcome": "tool_error", "error": "shop.NoStock", "place": "shop:pay:41"})
    return [
        EndedCallView.model_validate(
            {"call_id": row.call_id, "tool": row.tool, "node_id": row.node_id, **ends[n % 2], "rounds": n % 4}
            | {
                "began": now - 2 * n - 9,
                "ended": now - n,
                "seconds": n + 9,
                "reentrant": True,
                "replayed": row.replayed,
            }
        )
        for n, row in enumerate(rows[: 2 * MAX_EVENTS // len(NODES)])
    ]


async def log_of(cast: Cast, node: str) -> None:
    """What a node wrote to the event log, with a hostile word at each place."""
    at = time.time()
    for number, name in enumerate(HOSTILE):
        event = {"id": f"{number}", "at": at - number, "kind": "refused", "node_id": node, "tool": name, "text": name}
        takeover = {"call": "0123abcd", "reason": "died", "to_node": node, "epoch": 2, "asked": at - 9 - number}
        await cast.logs(event=event, takeover={**takeover, "tool": name, "from_node": name, "from_boot": "b"})


class Crowd(NamedTuple):
    """The pages' address, and the calls by node."""

    root: str
    rows: dict[str, list[Row]]


@asynccontextmanager
async def crowd(calls: int = CALLS) -> AsyncIterator[Crowd]:
    """A router's pages over these nodes."""
    rng = random.Random("a crowd")
    async with AsyncExitStack() as stack:
        cast = Cast(stack)
        rows = {name: rows_of(name, calls // len(NODES), rng) for name in NODES}
        for name, held in rows.items():
            more: dict[str, Any] = {
                "GET /admin/leases": Listed(held).answer,
            }
            await cast.ended(*ended_of(held))
            await log_of(cast, name)
            counts = {"parked": len(held), "rss": 2**29, "memory_limit": 2**30, "tools": TOOLS, "boot": f"b-{name}"}
            await cast.node(name, saying(said(name, **counts)), more, boot=f"b-{name}")
        # Only a lease says these names: whoever can write to the store can write one.
        cast.members += [member(name, name, stats=Stats(version=name, parked=1)) for name in HOSTILE]
        sources = dataclasses.replace(await cast.sources(), clock=time.time)
        server = TestServer(guarded(sources, TOKEN), host="127.0.0.1")
        await stack.enter_async_context(server)
        yield Crowd(f"http://127.0.0.1:{server.port}", rows)

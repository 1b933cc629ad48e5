"""Users of the fleet on trial, by the official client: each calls `errand`, and answers two questions.

The client's HTTP client is the one of `framehold call`, which sends a refused round again. A user is *parked* while it
thinks about its first question; `release` says how long each goes on thinking. A wait is the time from an answer to the
next question or the result: what a person sees.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from framehold_cli.client.patient import PatientClient

MARKED, UNMARKED = "marked", "unmarked"
ENDED, REPORTED, FAILED, UNBORN = "ended", "reported lost", "failed", "never began"
_LOST = re.compile(r"entered once, stopped at an unknown point after round \d of its questions")
"""What the user of an unmarked call may get. A node that is killed slowly may have asked the second question yet."""
_UNSENT = "nothing was sent"
_CONNECTIONS = 3
"""How often a user who is to be parked tries to connect: the nodes of a cluster forward a connection from a port that
was used a minute ago to the pod of that time, which may be gone."""
_PATIENCE = 60.0
_TIMEOUT = httpx2.Timeout(_PATIENCE, connect=5.0)
_numbers = itertools.count(1)


@dataclass
class User:
    """One call, and what its user saw."""

    column: str
    url: str
    think: float | None = None
    """Seconds before each answer; None: until `release`."""
    name: str = ""
    host: str = ""
    """What it asks for, where it is another host than that of `url`."""
    parked: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    node: str = ""
    """Who asked last."""
    nodes: set[str] = field(default_factory=set)
    """All who answered a request of the call."""
    waits: list[float] = field(default_factory=list)
    retried: int = 0
    """Rounds that had to be sent more than once."""
    outcome: str = UNBORN
    why: str = ""
    _answered: float = 0.0

    def __post_init__(self) -> None:
        self.name = self.name or f"errand-{self.column}-{next(_numbers)}"

    async def run(self) -> None:
        """Call, and answer, until there is a result or an error."""
        http = PatientClient(
            self._retry,
            _PATIENCE,
            verify=False,  # the address is plain HTTP; otherwise each client reads the authorities
            timeout=_TIMEOUT,
            headers={"authorization": "Bearer ann"} | ({"host": self.host} if self.host else {}),
            event_hooks={"response": [self._served]},
        )
        try:
            async with (
                http,
                Client(streamable_http_client(self.url, http_client=http), elicitation_callback=self._ask) as client,
            ):
                result = await client.call_tool(f"errand_{self.column}", {"name": self.name})
                self._wait()
                self._end(" ".join(getattr(block, "text", "") for block in result.content))
        except Exception as error:
            self._wait()
            self.outcome, self.why = (FAILED if self.parked.is_set() else UNBORN), http.trouble or _plainly(error)
        finally:
            self.parked.set()
            self.over.set()

    def _end(self, text: str) -> None:
        if text == f"{self.name}: <one> <two>":
            self.outcome = ENDED
        elif self.column == UNMARKED and _LOST.search(text):
            self.outcome = REPORTED
        else:
            self.outcome, self.why = FAILED, text

    async def _ask(self, context: Any, params: Any) -> ElicitResult:
        self._wait()
        key = params.message.removesuffix("?").split(" ")[-1]
        if self.think is not None:
            await asyncio.sleep(self.think)
        elif not self.parked.is_set():
            self.parked.set()
            await self.released.wait()
        self._answered = time.monotonic()
        return ElicitResult(action="accept", content={"word": f"<{key}>"})

    def _wait(self) -> None:
        if self._answered:
            self.waits.append(time.monotonic() - self._answered)
            self._answered = 0.0

    async def _served(self, response: httpx2.Response) -> None:
        if node := response.headers.get("framehold-node"):
            self.node = node
            self.nodes.add(node)

    def _retry(self, _: str) -> None:
        self.retried += 1


class Crowd:
    """Users who are parked together, and visitors who come and go meanwhile."""

    def __init__(self, url: str, marked: int, unmarked: int, visitors: int = 8, host: str = "") -> None:
        self._url, self._host = url, host
        columns = [MARKED] * marked + [UNMARKED] * unmarked
        self.users = [User(column, url, host=host) for column in columns]
        random.Random(1).shuffle(self.users)
        self.visits: list[User] = []
        self._visitors, self._over = visitors, asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def park(self) -> list[str]:
        """Begin all calls; the node of each, by user. The visitors begin to come.

        Raises:
            RuntimeError: not all calls were parked, so that the drill has no ground to stand on.
        """
        at_once = asyncio.Semaphore(20)

        async def begin(user: User) -> User:
            async with at_once:
                for _ in range(_CONNECTIONS):
                    self._tasks.append(asyncio.create_task(user.run()))
                    await user.parked.wait()
                    if _UNSENT not in user.why:
                        break
                    user = User(user.column, user.url, host=user.host)
                return user

        self.users = await asyncio.gather(*(begin(user) for user in self.users))
        ended = [user for user in self.users if not user.node or user.why]
        if ended:
            why = f"{len(ended)} of {len(self.users)} calls were not parked, such as {ended[0].name}: {ended[0].why}"
            raise RuntimeError(f"{why}. The drill was not carried out.")
        self._tasks += [asyncio.create_task(self._visit()) for _ in range(self._visitors)]
        return [user.node for user in self.users]

    async def release(self, seconds: float = 0.0) -> None:
        """All answer, spread evenly over some seconds."""
        pause = seconds / max(len(self.users), 1)
        for user in self.users:
            user.released.set()
            if pause:
                await asyncio.sleep(pause)

    async def ended(self) -> None:
        """Wait until each call that was parked has its end."""
        await asyncio.gather(*(user.over.wait() for user in self.users))

    def close(self) -> None:
        """Let no more visitors come."""
        self._over.set()

    async def gone(self) -> None:
        """Wait until each call has its end."""
        self.close()
        await asyncio.gather(*self._tasks)

    async def sent_home(self) -> None:
        """End the calls that are still open, of a drill that stopped."""
        self.close()
        # A client may lose a cancellation that comes while a task group of its own ends.
        while open_ones := [task for task in self._tasks if not task.done()]:
            for task in open_ones:
                task.cancel()
            await asyncio.wait(open_ones, timeout=1)

    async def _visit(self) -> None:
        while not self._over.is_set():
            visit = User(MARKED, self._url, think=0.2, host=self._host)
            self.visits.append(visit)
            await visit.run()
            await asyncio.sleep(0.1)


def _plainly(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"

"""The events of the day, as a table: what is done, what each voice must report, and how it is mended.

`framehold status`, the API and the dashboard report the `problems` in the same words. Alerts have names of their own.
Where they report less than the problems, or more, `because` has the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import httpx2

from tests.fleet.day.stage import NODES, Day, eventually
from tests.fleet.day.traffic import ONE_IN
from tests.fleet.day.voices import HARM, RISK, Problem, ask
from tests.fleet.trial import again
from tests.kit.client import Caller
from tests.kit.operators import call_of
from tests.kit.processes import until

Act = Callable[[Day], Awaitable[None]]


async def nothing(day: Day) -> None:
    """Nothing is to be done."""


class Alert(NamedTuple):
    """An alert that fires, and the tool or the process that it names."""

    name: str
    tool: str = ""
    instance: str = ""


@dataclass(frozen=True)
class Scene:
    """One event of the day."""

    name: str
    strike: Act
    problems: frozenset[Problem] = frozenset()
    """What needs an operator until it is mended."""
    mend: Act = nothing
    passing: frozenset[str] = frozenset()
    """Kinds of problems that may be reported for a moment, before or after."""
    alerts: frozenset[Alert] = frozenset()
    besides: frozenset[str] = frozenset()
    """Names of alerts that may fire too: it depends on what was under way."""
    lasts: bool = False
    """Whether it is a state that lasts, rather than a single event: then it is done again while alerts wait."""
    false: str = ""
    """What no voice may say: a regular expression."""
    logged: str = ""
    """What a log must say: a regular expression."""
    prepare: Act = nothing
    """What is done before the nodes are started; such a scene is a day of its own."""
    needs: tuple[str, ...] = ()
    """The programs that it takes, and `root`."""
    because: str = ""
    """Why a voice says less than the others, or more, or nothing."""


def problem(severity: str, kind: str, node: str = "", tool: str = "") -> frozenset[Problem]:
    """The one problem of a scene."""
    return frozenset({Problem(severity, kind, node, tool)})


def fired(*alerts: Alert) -> frozenset[Alert]:
    """The alerts of a scene."""
    return frozenset(alerts)


# ---- ordinary work


async def traffic(day: Day, calls: int) -> None:
    """Wait until so many calls of the traffic have ended."""
    wanted = day.traffic.figures.ended + calls
    await until(lambda: day.traffic.figures.ended >= wanted, "the ends of calls")


async def work(day: Day) -> None:
    """Let the traffic go on until some of its calls have failed."""
    await traffic(day, 3 * ONE_IN)


async def drain(day: Day) -> None:
    """Drain a node, by command."""
    await day.run("drain", NODES[1], "--no-wait")


async def undrain(day: Day) -> None:
    """Take the drain back."""
    await day.run("drain", NODES[1], "--undo")


async def roll(day: Day) -> None:
    """Restart all nodes, one after the other."""
    for name in NODES:
        await day.roll(name)


# ---- faults of processes and of the store


async def kill(day: Day) -> None:
    """SIGKILL a node."""
    day.fleet.nodes[NODES[0]].kill()


async def start_again(day: Day) -> None:
    """Start it again."""
    await day.restart(NODES[0])


async def fill(day: Day) -> None:
    """Leave the store no room for any write."""
    with day.redis.client() as client:
        client.config_set("maxmemory", "1")


async def make_room(day: Day) -> None:
    """Give the store memory."""
    with day.redis.client() as client:
        client.config_set("maxmemory", "0")


async def silence(day: Day) -> None:
    """SIGSTOP the store: connections stay open, and nothing is answered."""
    day.redis.pause()


async def wake(day: Day) -> None:
    """SIGCONT the store."""
    day.redis.resume()


# ---- faults of tools


async def refunds(day: Day, *fail: bool) -> None:
    """Call a tool that asks nothing, so many times."""
    async with Caller(day.url) as caller:
        for fails in fail:
            reply = await caller.call("refund", arguments={"fails": fails})
            assert reply.result.get("isError", False) is fails


async def fail(day: Day) -> None:
    """Most calls of one tool fail."""
    await refunds(day, *(number % 5 > 0 for number in range(20)))


async def succeed(day: Day) -> None:
    """The tool is mended, and its calls end well."""
    await refunds(day, *(False for _ in range(200)))


async def block(day: Day) -> None:
    """A handler blocks the event loop of one node, again and again; between two times others are served."""
    day.mended.unlink(missing_ok=True)
    async with Caller(day.fleet.nodes[NODES[2]].url) as caller:
        for _ in range(3):
            assert (await caller.call("resize")).text == "resized"
            await traffic(day, 5)


async def release(day: Day) -> None:
    """The node gets the mended release."""
    day.mended.touch()
    await day.roll(NODES[2])


async def poison(day: Day) -> None:
    """A call ends each process that it comes to. A supervisor starts them again, and the client comes again, until
    the tool is paused."""
    day.mended.unlink(missing_ok=True)
    async with Caller(day.url) as caller:
        asked = await caller.call("import_file")
        day.poisoned = asked
        while not await paused(day):
            assert not await imported(day, caller)
            for name in NODES:
                if not day.fleet.nodes[name].alive:
                    await day.restart(name)


async def paused(day: Day) -> bool:
    """Whether a tool is paused."""
    return bool((await ask(day.root, "overview"))["paused"])


async def imported(day: Day, caller: Caller) -> bool:
    """Answer the call of the poison tool; whether it has ended."""
    asked = day.poisoned
    try:
        reply = await caller.retry("import_file", asked.token, asked.accept(word="all.csv"))
    except httpx2.TransportError:
        return False
    assert again(reply) or reply.text == "imported", reply
    return not again(reply)


async def resume(day: Day) -> None:
    """The tool is mended and resumed; its call goes on to its end."""
    day.mended.touch()
    await day.run("resume", "import_file")
    async with Caller(day.url) as caller:
        await eventually(lambda: imported(day, caller), "the end of the call")


async def diverge(day: Day) -> None:
    """The frame of a call is evicted, and its handler does not ask what it asked before."""
    async with Caller(day.url) as caller:
        asked = await caller.call("quote")
        await day.run("evict", call_of(asked.token), "--yes")
        reply = await caller.retry("quote", asked.token, asked.accept(word="yes"))
        assert reply.result["isError"], reply


UNSERVED = fired(
    Alert("StoreErrors"),
    Alert("RequestsFail"),
    Alert("CallsRefused"),
    *(Alert("NodeHeartbeatStale", instance=name) for name in NODES),
)
"""What fires while nodes can't write to the store."""
SCENES = (
    Scene(
        "traffic with failing calls",
        work,
        lasts=True,
        because="a few failing calls are the author's affair",
    ),
    Scene(
        "a tool whose calls fail",
        fail,
        problem(HARM, "calls_fail", tool="refund"),
        mend=succeed,
        alerts=fired(Alert("CallsFail", tool="refund")),
        lasts=True,
        logged="refund",
    ),
    Scene(
        "a drain",
        drain,
        mend=undrain,
        because="it was ordered",
    ),
    Scene(
        "a roll",
        roll,
        because="it was ordered",
    ),
    Scene(
        "a kill",
        kill,
        problem(RISK, "node_lost", NODES[0]),
        mend=start_again,
        passing=frozenset({"node_unreachable"}),
        alerts=fired(Alert("ProcessDown", instance=NODES[0])),
        logged="harbour",
    ),
    Scene(
        "a full store",
        fill,
        problem(HARM, "store_full"),
        mend=make_room,
        alerts=UNSERVED,
        lasts=True,
        because="one problem stands for what follows; each has an alert",
        false="(?<!not )start one|no other node that could take over",
        logged="until the store is back|maxmemory",
    ),
    Scene(
        "a silent store",
        silence,
        problem(HARM, "store_silent"),
        mend=wake,
        alerts=UNSERVED | {Alert("StoreSlow")},
        lasts=True,
        because="one problem stands for what follows; each has an alert",
        logged="until the store is back|lost the store",
    ),
    Scene(
        "a blocked loop",
        block,
        problem(HARM, "loop_stood", NODES[2], "resize"),
        mend=release,
        passing=frozenset({"node_unreachable", "node_lapsed"}),
        alerts=fired(Alert("LoopLagHigh", instance=NODES[2])),
        besides=frozenset({"StoreSlow", "CallsRefused", "RequestsFail"}),
        lasts=True,
        because="it is late for the store and its heartbeat, too",
        logged="resize",
    ),
    Scene(
        "a poison tool",
        poison,
        problem(HARM, "tool_paused", tool="import_file"),
        mend=resume,
        passing=frozenset({"node_unreachable", "node_lost"}),
        alerts=fired(Alert("NodesDying"), Alert("ToolPausedByItself", tool="import_file")),
        false="paused by (its|an) operator|book.{0,20} is paused",
        logged="import_file",
    ),
    Scene(
        "a divergence",
        diverge,
        problem(HARM, "diverged", tool="quote"),
        alerts=fired(Alert("ReplayDivergence", tool="quote")),
        because="reported for an hour",
        logged="quote",
    ),
)

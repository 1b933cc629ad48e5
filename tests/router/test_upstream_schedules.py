"""The side that connects to nodes, under schedules that a seed draws, on virtual time: connections are made late, not
at all, or lost as soon as they are made; responses come whole, in pieces, broken, or not at all.

What must hold, however it goes:

1. A request ends once, unless its sender aborts it. Nothing is reported behind its end, and no data while it is paused.
2. A request that was NOT_SENT was written to no connection.
3. A request is written only to a connection on which the node has proved who it is.
4. A response is that of its request.
5. At the end no connection is open, and none is being made.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from framehold_fleet.http_client.node_connection import LinkFailure, NodeConnection
from framehold_fleet.http_client.upstream import Upstream
from framehold_fleet.identity.statements import HELLO, Role
from framehold_store.system_clock import system_clock
from tests.kit.proofs import BOOT, answered
from tests.router.wires import KEY, TRUST, Conversed, at, ok, parts, post
from tests.seeded.loop import SeededLoop

SCHEDULES = 1000
ENDS_WITHIN = 60.0
"""Seconds after which each request must have ended. A node may be silent for SILENCE at a time."""
SILENCE = 4.0
PEER = ("127.0.0.1", 1)


class Network:
    """The loop of a side, with nodes behind it that behave as a seed says."""

    def __init__(self, loop: SeededLoop, random: Random) -> None:
        self._loop, self.random = loop, random
        self.written: Counter[bytes] = Counter()
        """How often each body was written."""
        self.happened: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def chance(self, probability: float, what: str) -> bool:
        """Draw whether something happens."""
        happens = self.random.random() < probability
        self.happened[what] += happens
        return happens

    def later(self, most: float, act: Callable[..., object], *args: Any) -> None:
        """Have something done within so many seconds."""
        self._loop.call_later(self.random.uniform(0.0, most), act, *args)

    async def create_connection(self, factory: Callable[[], NodeConnection], *_: Any, **__: Any) -> Any:
        await asyncio.sleep(self.random.uniform(0.0, 0.01))
        if self.chance(0.1, "refused"):
            raise ConnectionRefusedError
        if self.chance(0.05, "never accepted"):
            await asyncio.sleep(1e6)
        made = Connection(self, factory())
        made.protocol.connection_made(made)
        if self.chance(0.1, "lost as it was made"):
            made.lose()
        elif self.chance(0.15, "lost at some time"):
            self.later(0.05, made.lose)
        for _turn in range(self.random.randrange(3)):
            await asyncio.sleep(0)
        return made, made.protocol


class Connection(asyncio.Transport):
    """One connection, and the node at its other end."""

    def __init__(self, network: Network, protocol: NodeConnection) -> None:
        super().__init__()
        self.network, self.protocol = network, protocol
        self._closing, self._paused, self._proved = False, False, False
        self._came, self._held = b"", list[bytes]()

    # The transport.

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        if not self._closing:
            self._came += data
            self.network.later(0.01, self._serve)

    def abort(self) -> None:
        self._end(None)

    close = abort

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        held, self._held = self._held, []
        for piece in held:
            self.network.later(0.0, self._deliver, piece)

    # What happens to it.

    def lose(self) -> None:
        """The other end was killed, or it closes."""
        if self.network.chance(0.5, "reset"):
            self._end(ConnectionResetError())
        elif not self._closing:
            self.protocol.eof_received()
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self.network.call_soon(self.protocol.connection_lost, error)

    def _deliver(self, piece: bytes) -> None:
        if self._paused:
            self._held.append(piece)
        elif not self._closing:
            self.protocol.data_received(piece)

    # The node.

    def _serve(self) -> None:
        head, end, rest = self._came.partition(b"\r\n\r\n")
        if not end or self._closing:
            return
        lines = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
        length = int(lines.get(b"content-length", b"0"))
        body, self._came = rest[:length], rest[length:]
        if HELLO in lines:
            self._introduce(lines[HELLO])
        else:
            self.network.written[body] += 1
            assert self._proved, "a request went to a node that has not proved who it is"
            self._respond(ok(b"of " + body))

    def _introduce(self, hello: bytes) -> None:
        self._proved = not self.network.chance(0.1, "another process")
        self._respond(answered(hello, PEER, KEY, BOOT if self._proved else "another"))

    def _respond(self, response: bytes) -> None:
        network = self.network
        if network.chance(0.05, "no response"):
            return
        if network.chance(0.1, "a broken response"):
            network.later(0.0, self._deliver, response[: network.random.randrange(len(response))])
            network.later(0.01, self.lose)
            return
        cut = network.random.randrange(1, len(response)) if network.chance(0.3, "a response in pieces") else 0
        for after, piece in ((0.001, response[:cut]), (0.002, response[cut:])):
            if piece:
                network.call_later(after, self._deliver, piece)
        if network.chance(0.1, "closed behind a response"):
            network.later(0.005, self.lose)


class Sent(Conversed):
    """A request, and what its sender does meanwhile."""

    def __init__(self, network: Network, side: Upstream, number: int) -> None:
        super().__init__()
        self._network, self.asked = network, b"body-%d" % number
        self.is_aborted = self.is_paused = False
        self.link = side.send(at(("node", 1)), *parts(post(self.asked)), self)
        if network.chance(0.1, "aborted"):
            network.later(0.02, self._abort)
        elif network.chance(0.1, "paused"):
            network.later(0.02, self._pause)

    def _abort(self) -> None:
        if not self.over.is_set():
            self.is_aborted = True
            self.link.abort()

    def _pause(self) -> None:
        if not self.over.is_set():
            self.is_paused = True
            self.link.pause()
            self._network.later(1.0, self._resume)

    def _resume(self) -> None:
        self.is_paused = False
        if not self.over.is_set():
            self.link.resume()

    def data(self, piece: bytes) -> None:
        assert not self.is_paused, "a paused request hears something"
        super().data(piece)

    def abandons(self) -> bool:
        return self._network.chance(0.1, "abandoned")

    def judge(self) -> None:
        """Compare what its sender was told with what the nodes got."""
        if self.is_aborted:
            return
        assert self.over.is_set(), f"{self.asked!r} has not ended"
        if self.failure is LinkFailure.NOT_SENT:
            assert not self._network.written[self.asked]
        if self.failure is None:
            assert self.status == 200 and self.body == b"of " + self.asked


async def _schedule(network: Network) -> list[Sent]:
    side = Upstream(TRUST, Role.ROUTER, system_clock(), connect_timeout=1.0, timeout=SILENCE)
    side.loop = network  # type: ignore[assignment]
    sent = []
    for number in range(network.random.randrange(1, 12)):
        await asyncio.sleep(network.random.choice((0.0, 0.002, 0.02, 3.0)))
        sent.append(Sent(network, side, number))
    await asyncio.sleep(ENDS_WITHIN)
    for request in sent:
        request.judge()
    await side.close()
    await asyncio.sleep(0)
    assert not side.connections.open and not side._openings
    return sent


def _played(seed: int) -> tuple[Counter[str], list[Sent]]:
    random = Random(seed)
    loop, raised = SeededLoop(random), list[Any]()
    loop.set_exception_handler(lambda _, context: raised.append(context))
    network = Network(loop, random)
    try:
        sent = loop.run_until_complete(_schedule(network))
        assert not raised, raised
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        loop.close()
    return network.happened, sent


def test_each_request_ends_as_it_went() -> None:
    happened, ended = Counter[str](), Counter[str]()
    for seed in range(SCHEDULES):
        found, sent = _played(seed)
        happened += found
        ended.update("aborted" if item.is_aborted else str(item.failure) for item in sent)
    assert ended.keys() == {"None", "aborted", *map(str, LinkFailure)}, ended
    assert min(happened.values()) > 20, happened

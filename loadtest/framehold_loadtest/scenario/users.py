"""The users of a load test: each makes one call after another, thinks before each answer, and writes notes.

A refusal that a later try repairs is no failure. It counts as `refused`, and the answer counts as `resume-after-fault`,
timed from the first try. A round fails if the user's patience runs out, or if no client should get its reply.
"""

from __future__ import annotations

import math
import random
import time
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

import gevent
from locust import FastHttpUser, task

from framehold_loadtest.client import rounds, trip
from framehold_loadtest.client.patience import Patience
from framehold_loadtest.client.rounds import Asked, Done, Refused, Reply
from framehold_loadtest.notes import (
    COPY,
    ENDED,
    FIRST,
    LATER,
    MENDED,
    OPEN,
    REFUSED,
    TOTAL,
    UNBORN,
    Call,
    Duplicate,
    Round,
)
from framehold_loadtest.scenario.scenarios import Manner
from framehold_loadtest.scenario.scribe import Scribe

_SPREAD = 0.5
"""The sigma of the log-normal pauses."""


class CallFailed(Exception):
    """A call did not come to its right end; the message says why."""


@dataclass(slots=True)
class _Progress:
    """One call on its way."""

    call: str
    rounds: int
    began: float
    number: int = 1
    node: str = ""


class _Sent(NamedTuple):
    """What came of a request: its reply, the seconds from its first try, the node, and why earlier tries were
    refused."""

    reply: Reply
    seconds: float
    node: str
    refused: list[str]


class Traveller(FastHttpUser):
    """Calls the booking server. `manner` and `scribe` are set before the first user is made."""

    abstract = True
    network_timeout = 60.0
    connection_timeout = 5.0
    manner: Manner = Manner()
    scribe: Scribe

    @task
    def trip(self) -> None:
        """One call, from its beginning to its end."""
        progress = _Progress(uuid.uuid4().hex[:16], random.randint(*self.manner.rounds), time.time())
        outcome, why = OPEN, ""
        try:
            outcome, why = self._through(progress)
        finally:
            self.scribe.note(Call(progress.call, progress.began, time.time(), progress.number, outcome, why))
        self.environment.events.request.fire(
            request_type="CALL",
            name=TOTAL,
            response_time=(time.time() - progress.began) * 1e3,
            response_length=0,
            exception=None if outcome == ENDED else CallFailed(why),
            context={},
        )
        if outcome == UNBORN:
            # Whoever was turned away doesn't come again at once.
            self._think()

    def _through(self, progress: _Progress) -> tuple[str, str]:
        """How the call came out, and why."""
        reply = self._round(progress, trip.begin(progress.call, progress.rounds))
        if isinstance(reply, Refused):
            return UNBORN, reply.why
        body: dict[str, Any] = {}
        while isinstance(reply, Asked):
            self._think()
            progress.number += 1
            body = trip.retry(progress.number, progress.call, progress.rounds, reply)
            copies = [gevent.spawn(self._send, body, COPY) for _ in range(self.manner.copies - 1)]
            reply = self._round(progress, body)
            self._compare(progress, reply, [copy.get() for copy in copies])
        outcome, why = trip.outcome(reply, progress.call, progress.rounds)
        if outcome == ENDED and self.manner.copies > 1:
            self._compare(progress, reply, [self._send(body, COPY)])
        return outcome, why

    def _round(self, progress: _Progress, body: dict[str, Any]) -> Reply:
        """One round, sent again while there is patience; noted."""
        at = time.time()
        sent = self._send(body, FIRST if progress.number == 1 else LATER)
        why = sent.reply.why if isinstance(sent.reply, Refused) else ""
        asked = isinstance(sent.reply, Asked)
        seen = at, sent.seconds, sent.node, progress.node, tuple(sent.refused), why, asked
        self.scribe.note(Round(progress.call, progress.number, *seen))
        progress.node = sent.node
        return sent.reply

    def _send(self, body: dict[str, Any], name: str) -> _Sent:
        """Send a request, and again while there is patience."""
        start, number, patience = time.perf_counter(), body["id"], Patience()
        refused: list[str] = []
        while True:
            with self.rest("POST", "/mcp", json=body, headers=trip.FIELDS, name=name) as found:
                response: Any = found
                headers = response.headers or {}
                kind = str(headers.get("content-type") or "")
                reply = rounds.read(response.status_code or 0, kind, response.content or b"")
                gone = time.perf_counter() - start
                wait = patience.next(number, reply, gone, str(headers.get("retry-after") or ""))
                if wait is not None or (number == 1 and isinstance(reply, Refused) and reply.again):
                    response.request_meta["name"] = REFUSED
                    response.success()
                elif isinstance(reply, Refused):
                    response.failure(reply.why)
                else:
                    if refused and name != COPY:
                        response.request_meta.update(name=MENDED, response_time=gone * 1e3)
                    response.success()
            if wait is None:
                return _Sent(reply, gone, str(headers.get("framehold-node") or ""), refused)
            assert isinstance(reply, Refused)
            refused.append(reply.why)
            gevent.sleep(wait)

    def _compare(self, progress: _Progress, reply: Reply, copies: list[_Sent]) -> None:
        for copy in copies:
            same = _meaning(copy.reply) == _meaning(reply)
            self.scribe.note(Duplicate(progress.call, time.time(), copy.seconds, same))

    def _think(self) -> None:
        if self.manner.wave:
            gevent.sleep(self.manner.wave - time.time() % self.manner.wave)
        else:
            gevent.sleep(random.lognormvariate(math.log(self.manner.think), _SPREAD))


def _meaning(reply: Reply) -> object:
    """What copies of a reply have in common: each has a token of its own."""
    return reply.keys if isinstance(reply, Asked) else reply.text if isinstance(reply, Done) else reply

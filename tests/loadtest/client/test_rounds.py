"""What users send and how they read replies; how long they are patient."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framehold_loadtest.client import rounds, trip
from framehold_loadtest.client.patience import Patience
from framehold_loadtest.client.rounds import Asked, Done, Refused, Reply

pytestmark = pytest.mark.load

JSON, STREAM = "application/json", "text/event-stream; charset=utf-8"


def reply(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode()


ASKS = reply(result={"resultType": "input_required", "inputRequests": {"k": {}}, "requestState": "h1.a.b"})
UNAVAILABLE = reply(error={"code": -32603, "message": "no store"})


@pytest.mark.parametrize(
    ("status", "kind", "body", "read"),
    [
        (200, JSON, ASKS, Asked(("k",), "h1.a.b")),
        (200, STREAM, b": ping\r\n\r\ndata: {}\r\n\r\ndata: " + ASKS + b"\r\n\r\n", Asked(("k",), "h1.a.b")),
        (200, JSON, reply(result={"resultType": "complete", "content": [{"text": "x"}]}), Done("x", False)),
        (200, JSON, reply(result={"content": [{"text": "x"}], "isError": True}), Done("x", True)),
        (503, JSON, UNAVAILABLE, Refused("503 no store", again=True)),
        (200, STREAM, b"data: " + UNAVAILABLE, Refused("503 no store", again=True)),
        (502, "text/html", b"<html>", Refused("503 without a message", again=True)),
        (400, JSON, reply(error={"code": -32602, "message": "expired"}), Refused("400 expired", again=False)),
        (200, STREAM, b"", Refused("200 without a message", again=False)),
        (0, "", b"", Refused("no answer", again=True)),
    ],
)
def test_a_reply_is_read(status: int, kind: str, body: bytes, read: Reply) -> None:
    assert rounds.read(status, kind, body) == read


def test_a_retry_answers_each_question_and_echoes_the_token() -> None:
    params = trip.retry(3, "a", 4, Asked(("k", "l"), "token"))["params"]
    answer = {"action": "accept", "content": {"choice": "south"}}
    assert params["inputResponses"] == {"k": answer, "l": answer}
    assert (params["requestState"], params["arguments"]) == ("token", {"call": "a", "rounds": 4})
    assert trip.expected("a", 4) == "a: east south west"


def test_patience_waits_longer_each_time_and_as_long_as_it_is_told() -> None:
    patience = Patience(10.0)
    away = Refused("503", again=True)
    waits = [patience.next(2, away, *gone) for gone in ((0.0,), (0.2,), (0.6, "3"), (3.6,), (5.2,))]
    assert waits == pytest.approx([0.2, 0.4, 3.0, 1.6, 2.0])
    assert patience.next(2, away, 8.1) is None


def test_only_a_refused_round_with_a_token_is_sent_again() -> None:
    """Nobody knows whether a round without one ran."""
    assert Patience().next(2, Refused("503", again=True), 0.0) is not None
    assert Patience().next(1, Refused("503", again=True), 0.0) is None
    assert Patience().next(2, Refused("400", again=False), 0.0) is Patience().next(2, Done("x", False), 0.0) is None
